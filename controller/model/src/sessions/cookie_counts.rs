//! Hosts with more cookies than browsers may keep.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::UsedBackend;
use super::facts::GatewayHost;
use super::rules::{RuleChoice, SessionSource};
use super::scopes::shared_by;
use crate::graph::Hostname;
use limpet_api::{ObjectName, Text};
use limpet_core::config::schema::{CookieConfig, CookieModeConfig};

/// RFC 6265, section 6.1, asks browsers for 50 cookies of a host, the application's included; RFC 2109 asked for 20.
pub(super) const MANY: usize = 20;

/// A scope, and a cluster where each has its own.
type CookieDistinction<'a> = (&'a str, Option<&'a Text>);
/// Name, path, and what tells apart those that have these in common.
type CookieId<'a> = (&'a str, &'a str, Option<CookieDistinction<'a>>);

#[derive(Debug, Default)]
pub(super) struct CookieCounts<'a>(HashMap<&'a GatewayHost, usize>);

impl<'a> CookieCounts<'a> {
    /// `per_scope`: for each rule, whether each scope has its own cookie; `most`: how many are not reported.
    pub(super) fn find(
        chosen: &'a [RuleChoice<'a>],
        per_scope: &[bool],
        used: &'a BTreeMap<&'a ObjectName, UsedBackend<'a>>,
        most: usize,
    ) -> Self {
        let mut all: HashMap<&GatewayHost, BTreeSet<CookieId<'_>>> = HashMap::new();
        for (rule, per_scope) in chosen.iter().zip(per_scope) {
            let drafts = rule.draft.iter().chain(rule.each.values());
            for (draft, cookie) in drafts.filter_map(|draft| Some((draft, own_cookie(draft.config.cookie.as_ref())?))) {
                let is_one = !per_scope && !draft.is_unnamed;
                let apart: Vec<Option<CookieDistinction<'_>>> = if is_one {
                    vec![None]
                } else {
                    shared_by(rule).into_iter().map(Some).collect()
                };
                for place in &*rule.facts.places {
                    let cookies = apart.iter().map(|apart| (&*cookie.name, &*cookie.path, *apart));
                    all.entry(place).or_default().extend(cookies);
                }
            }
        }
        for backend in used.values() {
            if let Some(cookie) = own_cookie(backend.draft.config.cookie.as_ref()) {
                for place in &backend.places {
                    let apart = Some((backend.scope.as_str(), None));
                    all.entry(place)
                        .or_default()
                        .insert((&cookie.name, &cookie.path, apart));
                }
            }
        }
        let many = all.into_iter().map(|(place, cookies)| (place, cookies.len()));
        Self(many.filter(|(_, count)| *count > most).collect())
    }

    pub(super) fn warning(&self, rule: &RuleChoice<'_>) -> Option<String> {
        let has_sessions = rule.draft.is_some() || matches!(rule.source, SessionSource::Destinations);
        if self.0.is_empty() || !has_sessions {
            return None;
        }
        let places = rule.facts.places.iter();
        let ((_, host), count) = places
            .filter_map(|place| Some((place, self.0.get(place)?)))
            .max_by_key(|(_, count)| *count)?;
        Some(format!(
            "the sessions of {} have {count} cookies, and browsers drop the oldest of a host, the application's among \
             them: with the annotation session.limpet.dev/scope: service on the policy or the route, rules that lead to \
             one Service share one, and get new sessions",
            match host {
                Hostname::Any => "any host".to_owned(),
                host => host.to_string(),
            }
        ))
    }
}

fn own_cookie(cookie: Option<&CookieConfig>) -> Option<&CookieConfig> {
    cookie.filter(|cookie| cookie.mode == CookieModeConfig::Insert)
}
