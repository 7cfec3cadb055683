//! Which rules share their sessions, and at which of its backends a session is.
//!
//! Tokens are bound to the scope. GEP-1619 forbids that rules share a session, so it takes an annotation: a page and
//! its `WebSocket` may be two rules of one application. A scope begins with a kind and the namespace of the route,
//! because fences hold for namespaces.

use std::collections::{BTreeMap, BTreeSet};

use super::policy::PolicyDraft;
use super::rules::{RuleChoice, RuleScope, SessionSource};
use super::shared_names::have_common_host;
use crate::objects::RuleBackend;
use crate::session_fields::{SessionScope, SessionSplit};
use limpet_api::Text;
use limpet_core::time::GatewayDuration;

/// Rules in a message.
const MAX_LISTED: usize = 4;

impl RuleChoice<'_> {
    fn found_scope(&self) -> RuleScope {
        let facts = self.facts;
        let draft = self.draft.as_ref();
        let is_per_destination = draft.is_some_and(|draft| draft.split == SessionSplit::Choose);
        let namespace = &facts.route.name.namespace;
        let cluster = self.first_cluster();
        let text: Text = match draft.map(|draft| &draft.scope) {
            None | Some(SessionScope::Rule) => facts.name.0.clone(),
            Some(SessionScope::Name(name)) => format!("name/{namespace}/{}", name.as_str()).into(),
            Some(SessionScope::Service) if is_per_destination => format!("service/{namespace}").into(),
            Some(SessionScope::Service) => format!("service/{namespace}/{cluster}").into(),
        };
        let clusters: BTreeSet<&Text> = facts.clusters.iter().collect();
        RuleScope {
            of_cookie: if is_per_destination {
                format!("{text}/{cluster}").into()
            } else {
                text.clone()
            },
            has_several_cookies: is_per_destination && clusters.len() > 1,
            text,
            is_per_destination,
        }
    }

    pub(super) fn shares_session(&self) -> bool {
        self.draft
            .as_ref()
            .is_some_and(|draft| draft.scope != SessionScope::Rule)
    }

    /// The cluster of the policy's first target, so that a canary may come beside it, in any order.
    fn first_cluster(&self) -> Text {
        let all = || self.facts.backends.iter().zip(&self.facts.clusters);
        let of_target = |target: &RuleBackend| all().find(|(backend, _)| *backend == target);
        let target = match self.source {
            SessionSource::Policy(owner) => owner.policy.targets.iter().find_map(|(_, target)| of_target(target)),
            _ => None,
        };
        let first = target.or_else(|| all().next());
        first.map(|(_, cluster)| cluster.clone()).unwrap_or_default()
    }
}

pub(super) fn settle(chosen: &mut [RuleChoice<'_>]) {
    for rule in &mut *chosen {
        rule.scope = rule.found_scope();
    }
    note_strangers(chosen);
}

/// The scope, and where each destination has its own, the cluster.
pub(super) fn shared_by<'r>(rule: &'r RuleChoice<'_>) -> Vec<(&'r str, Option<&'r Text>)> {
    let scope = rule.scope.text.as_str();
    if rule.scope.is_per_destination {
        rule.facts
            .clusters
            .iter()
            .map(|cluster| (scope, Some(cluster)))
            .collect()
    } else {
        vec![(scope, None)]
    }
}

/// If one of the rules that share a session has a name for each scope, all have.
pub(super) fn agree(chosen: &[RuleChoice<'_>], per_scope: &mut [bool]) {
    let mut apart: BTreeSet<&str> = BTreeSet::new();
    for (rule, per_scope) in chosen.iter().zip(&*per_scope) {
        if *per_scope && rule.shares_session() {
            apart.insert(&rule.scope.text);
        }
    }
    for (rule, per_scope) in chosen.iter().zip(per_scope) {
        *per_scope |= rule.shares_session() && apart.contains(rule.scope.text.as_str());
    }
}

/// Notes on rules that share a scope: a client would lose its session as it goes from one to the other.
fn note_strangers(chosen: &mut [RuleChoice<'_>]) {
    let mut by_scope: BTreeMap<Text, Vec<usize>> = BTreeMap::new();
    for (index, rule) in chosen.iter().enumerate() {
        if rule.shares_session() {
            by_scope.entry(rule.scope.text.clone()).or_default().push(index);
        }
    }
    for (scope, rules) in by_scope {
        let of = |index: &usize| chosen.get(*index);
        let all = || rules.iter().filter_map(of);
        let Some(first) = all().next() else { continue };
        let strangers = || all().filter(|rule| meet(first, rule) && !are_one(first, rule));
        let what = match strangers().next() {
            None => continue,
            Some(other) => difference(first, other),
        };
        let names = std::iter::once(first).chain(strangers()).take(MAX_LISTED);
        let names: Vec<String> = names
            .map(|rule| format!("{} {}", rule.facts.route, rule.facts.field))
            .collect();
        let note = format!("the rules of the scope {scope} have {what}: {}", names.join(", "));
        for index in rules {
            if let Some(rule) = chosen.get_mut(index) {
                rule.scope_note = Some(note.clone());
            }
        }
    }
}

/// Whether a client may have one session of both.
fn meet(one: &RuleChoice<'_>, other: &RuleChoice<'_>) -> bool {
    let share_host = || have_common_host(&one.facts.hosts, &other.facts.hosts);
    let has_domain = |rule: &RuleChoice<'_>| rule.draft.as_ref().is_some_and(|draft| draft.config.domain().is_some());
    let share_cluster = || {
        one.facts
            .clusters
            .iter()
            .any(|cluster| other.facts.clusters.contains(cluster))
    };
    (share_host() || has_domain(one) || has_domain(other)) && (!one.scope.is_per_destination || share_cluster())
}

fn are_one(one: &RuleChoice<'_>, other: &RuleChoice<'_>) -> bool {
    carrier(one) == carrier(other) && have_one_choice(one, other) && timeouts(one) == timeouts(other)
}

/// Where each destination has its own sessions, rules may lead to different ones.
fn have_one_choice(one: &RuleChoice<'_>, other: &RuleChoice<'_>) -> bool {
    let is_per_destination = one.scope.is_per_destination;
    let clusters = |rule: &RuleChoice<'_>| rule.facts.clusters.iter().cloned().collect::<BTreeSet<Text>>();
    is_per_destination == other.scope.is_per_destination && (is_per_destination || clusters(one) == clusters(other))
}

fn difference(one: &RuleChoice<'_>, other: &RuleChoice<'_>) -> &'static str {
    if carrier(one) == carrier(other) && have_one_choice(one, other) {
        "different timeouts: each request is judged by the timeouts of its own rule; expected the same"
    } else if carrier(one) == carrier(other) {
        "different backends, so a client that goes from one to the other may lose its session; expected the same \
         backends, or scopes that differ"
    } else {
        "cookies or headers with different names, paths or domains, so they share no session; expected the same, or \
         scopes that differ"
    }
}

fn timeouts(rule: &RuleChoice<'_>) -> Option<[Option<GatewayDuration>; 2]> {
    let PolicyDraft { config, .. } = rule.draft.as_ref()?;
    Some([config.absolute_timeout, config.idle_timeout])
}

fn carrier(rule: &RuleChoice<'_>) -> Option<(String, String, Option<String>)> {
    let PolicyDraft { config, .. } = rule.draft.as_ref()?;
    let (kind, name) = config.carrier()?;
    let cookie = config.cookie.as_ref();
    let place = cookie.map(|cookie| (cookie.path.clone(), cookie.domain.clone()));
    let (path, domain) = place.unwrap_or_default();
    Some((format!("{kind:?} {name}"), path, domain))
}
