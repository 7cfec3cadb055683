//! The results of a request and its response.

use std::net::IpAddr;

use limpet_core::census::{ObservedSession, SessionDeparture};
use limpet_core::outcome::{RequestOutcome, ResponseOutcome};
use limpet_core::{HeaderEdit, KeyChange, RequestPlan, ResponsePlan, Steering};

use super::{COOKIE, HEADER};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Edit {
    Remove(String),
    Set(String, String),
    Add(String, String),
}

impl From<HeaderEdit<'_>> for Edit {
    fn from(edit: HeaderEdit<'_>) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        match edit {
            HeaderEdit::Remove(name) => Self::Remove(name.to_owned()),
            HeaderEdit::Set(name, value) => Self::Set(name.to_owned(), text(value)),
            HeaderEdit::Add(name, value) => Self::Add(name.to_owned(), text(value)),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) request: RequestOutcome,
    /// Whether only the response told the outcome.
    pub(crate) told_late: bool,
    pub(crate) request_edit: Option<Edit>,
    pub(crate) further_edits: Vec<Edit>,
    pub(crate) steering: Option<Steering>,
    pub(crate) response: ResponseOutcome,
    pub(crate) status: Option<u16>,
    pub(crate) edits: Vec<Edit>,
    /// The log's line, or empty.
    pub(crate) name_conflict: Option<String>,
    pub(crate) key_change: Option<KeyChange>,
    pub(crate) hash: Option<IpAddr>,
    pub(crate) evicted: bool,
    /// The log's line, or empty.
    pub(crate) refused_move: Option<String>,
    pub(crate) seen: Option<ObservedSession>,
    pub(crate) left: Option<SessionDeparture>,
}

impl Visit {
    pub(crate) fn requested(plan: RequestPlan<'_>) -> Self {
        Self {
            // The response overwrites it.
            request: plan.outcome.unwrap_or(RequestOutcome::NoToken),
            told_late: plan.outcome.is_none(),
            request_edit: plan.edit.map(Edit::from),
            further_edits: plan.further_edits.into_iter().map(Edit::from).collect(),
            steering: plan.steering,
            response: ResponseOutcome::Unchanged,
            status: None,
            edits: Vec::new(),
            name_conflict: None,
            key_change: None,
            hash: plan.hash,
            evicted: false,
            refused_move: None,
            seen: None,
            left: None,
        }
    }

    pub(crate) fn answered(self, plan: ResponsePlan<'_>) -> Self {
        assert_eq!(plan.request.is_some(), self.told_late, "told once");
        Self {
            request: plan.request.unwrap_or(self.request),
            response: plan.outcome,
            status: plan.status,
            edits: plan.edits.into_iter().map(Edit::from).collect(),
            key_change: plan.key_change,
            evicted: plan.evicted,
            seen: plan.observed,
            left: plan.departed,
            refused_move: plan.refused_move.map(|refused| refused.line.unwrap_or_default()),
            name_conflict: plan.name_conflict.map(|conflict| conflict.line.unwrap_or_default()),
            ..self
        }
    }

    pub(crate) fn outcomes(&self) -> (RequestOutcome, ResponseOutcome) {
        (self.request, self.response)
    }

    pub(crate) fn host(&self) -> Option<String> {
        self.steering.map(|steering| steering.host.to_string())
    }

    /// The Set-Cookie field of the response. There is at most one.
    pub(crate) fn set_cookie(&self) -> Option<&str> {
        let mut cookies = self.edits.iter().filter_map(|edit| match edit {
            Edit::Add(name, value) if name == "set-cookie" => Some(value.as_str()),
            _ => None,
        });
        let cookie = cookies.next();
        assert_eq!(cookies.next(), None, "one Set-Cookie at most");
        cookie
    }

    pub(crate) fn attributes(&self) -> Vec<&str> {
        self.set_cookie().expect("a Set-Cookie").split("; ").skip(1).collect()
    }

    pub(crate) fn cache_control(&self) -> Option<&str> {
        self.edits.iter().find_map(|edit| match edit {
            Edit::Set(name, value) if name == "cache-control" => Some(value.as_str()),
            _ => None,
        })
    }

    pub(crate) fn token(&self) -> Option<String> {
        let in_header = self.edits.iter().find_map(|edit| match edit {
            Edit::Set(name, value) if name == HEADER => Some(value.clone()),
            _ => None,
        });
        in_header.or_else(|| {
            let pair = self.set_cookie()?.split(';').next()?;
            Some(pair.strip_prefix(COOKIE)?.strip_prefix('=')?.to_owned())
        })
    }
}
