//! Sessions that their application moves: a response names another backend of the cluster, and the next token names it.
//! See design/session-rules.md.
//!
//! Unless the configuration lists hosts, an address counts as given. Until that backend answers, the session is
//! *moving*, and its requests are not strict. If another answers, the move is refused, and the session continues there.

use std::borrow::Cow;
use std::net::SocketAddr;

use crate::address;
use crate::bound_policy::BoundPolicy;
use crate::moves::Moves;
use crate::outcome::ResponseOutcome;
use crate::plan::{HeaderEdit, RefusedMove, ResponsePlan};
use crate::time::Timestamp;
use crate::token::Claims;
use crate::view::{ResponseView, ViewError};

/// Bytes of the longest name of a backend: a pod's.
const MAX_LEN: usize = 253;

/// Bytes of a value that the log shows.
const SHOWN: usize = 64;

/// The other backend that a response names for its session.
#[derive(Debug)]
pub(crate) struct MoveRequest<'a, 'r> {
    bound_policy: &'a BoundPolicy,
    moves: &'a Moves,
    fields: Vec<Cow<'r, [u8]>>,
    /// Why it is refused unless it is carried out; `None` if there is nothing to do.
    refusal: Option<String>,
}

impl<'a, 'r> MoveRequest<'a, 'r> {
    pub(crate) fn find(
        bound_policy: &'a BoundPolicy,
        response: &'r impl ResponseView,
    ) -> Result<Option<Self>, ViewError> {
        let Some(moves) = &bound_policy.policy.moves else {
            return Ok(None);
        };
        let fields = response.fields(&moves.header)?;
        Ok((!fields.is_empty()).then(|| Self {
            bound_policy,
            moves,
            fields,
            // For example, Envoy's own replies, preflights, and responses that end the session.
            refusal: Some("the response has no session that could move".to_owned()),
        }))
    }

    /// A backend of this cluster other than `answered`.
    pub(crate) fn target(&mut self, cluster: &[u8], answered: SocketAddr, now: Timestamp) -> Option<SocketAddr> {
        match self.named(cluster, now) {
            Ok(host) if host != answered => return Some(host),
            Ok(_) => self.refusal = None,
            Err(why) => self.refusal = Some(why),
        }
        None
    }

    fn named(&self, cluster: &[u8], now: Timestamp) -> Result<SocketAddr, String> {
        let [value] = self.fields.as_slice() else {
            return Err(format!("expected one field, found {}", self.fields.len()));
        };
        let known = self.bound_policy.limits.hosts.get(cluster);
        let short = Some(&**value).filter(|value| value.len() <= MAX_LEN);
        let host = short.and_then(|value| match (address::of_host(value), known) {
            (Some(host), Some(known)) => known.has(host).then_some(host),
            (host, None) => host,
            (None, Some(known)) => known.by_name(value),
        });
        let Some(host) = host else {
            let what = if known.is_some() {
                format!(
                    "a host of the cluster {}, or the name of its pod",
                    cluster.escape_ascii()
                )
            } else {
                "the address of a backend with its port, as 10.0.0.7:8080 or [2001:db8::7]:8080".to_owned()
            };
            return Err(format!("expected {what}, found {}", shown(value)));
        };
        if self.bound_policy.fences(host, now) {
            return Err(format!(
                "expected an address without a fence ahead of the clock, found {host}"
            ));
        }
        Ok(host)
    }

    pub(crate) fn remove_field(self, plan: &mut ResponsePlan<'a>) {
        plan.edits.push(HeaderEdit::Remove(&self.moves.header));
        if let Some(why) = self.refusal.filter(|_| plan.outcome != ResponseOutcome::Moved) {
            plan.refused_move = Some(refused(self.bound_policy, self.moves, &why));
        }
    }
}

/// A refused move, if another backend `answered` than the named one.
pub(crate) fn unavailable_target(
    bound_policy: &BoundPolicy,
    claims: &Claims,
    answered: SocketAddr,
) -> Option<RefusedMove> {
    let moves = bound_policy.policy.moves.as_ref()?;
    let named = Some(claims.host).filter(|named| claims.is_moving() && *named != answered)?;
    let why = format!("{named} is no host of the cluster, or not available: {answered} answered in its place");
    Some(refused(bound_policy, moves, &why))
}

/// A refused move, with a line for the log if it is the policy's first.
fn refused(bound_policy: &BoundPolicy, moves: &Moves, why: &str) -> RefusedMove {
    let line = || format!("policy {}: {}: {why}", bound_policy.policy.name, moves.header);
    RefusedMove {
        line: moves.refuse().then(line),
    }
}

fn shown(value: &[u8]) -> String {
    let (beginning, rest) = value.split_at_checked(SHOWN).unwrap_or((value, &[]));
    let more = if rest.is_empty() { "" } else { " and more" };
    format!("\"{}\"{more}", beginning.escape_ascii())
}
