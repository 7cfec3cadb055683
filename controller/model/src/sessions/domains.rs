//! Rules whose cookie has a `Domain` that browsers do not accept from any of the rule's hosts.

use super::facts::RuleFacts;
use super::origins::FieldSource;
use super::policy::PolicyDraft;
use super::rules::{PolicyOutcome, RuleChoice, SessionSource};
use crate::field_problem::FieldProblem;
use limpet_core::carrier::cookie_domain;

/// Wherever the domain comes from.
pub(super) const EXPECTED: &str = "session.limpet.dev/domain, or domain of the controller's sessionDefaults: expected \
    a domain of a hostname that the rule is served for";

/// Hosts in a message.
const MAX_LISTED: usize = 4;

/// The domain of the cookie, if no host of the rule is in it. A rule without hosts is not served yet.
pub(super) fn foreign_domain<'d>(draft: &'d PolicyDraft, rule: &RuleFacts<'_>) -> Option<&'d str> {
    let domain = draft.config.domain()?;
    let mut hosts = rule.hosts.iter();
    let is_foreign = !hosts.any(|host| cookie_domain::may_come_from(domain, &host.to_string()));
    (is_foreign && !rule.hosts.is_empty()).then_some(domain)
}

/// Takes the sessions of such rules away: every browser would drop the cookie of every response.
pub(super) fn refuse_foreign(chosen: &mut [RuleChoice<'_>]) {
    for rule in chosen {
        let mut drafts = rule.draft.iter().chain(rule.each.values());
        let foreign = drafts.find_map(|draft| Some((foreign_domain(draft, rule.facts)?, draft.origins.domain())));
        let Some((message, part)) = foreign.map(|(domain, part)| (message(domain, rule.facts), part)) else {
            continue;
        };
        rule.is_routes_fault = match rule.source {
            SessionSource::Policy(_) => part == Some(FieldSource::Route),
            _ => part == Some(FieldSource::Annotations),
        };
        rule.draft = None;
        rule.each.clear();
        rule.is_refused = true;
        rule.problems.push(FieldProblem {
            field: rule.facts.field.clone(),
            message,
        });
        if let SessionSource::Policy(owner) = rule.source {
            let is_policys_fault = part == Some(FieldSource::Annotations);
            rule.outcomes
                .insert(owner.policy, PolicyOutcome::ForeignDomain { is_policys_fault });
        }
    }
}

fn message(domain: &str, rule: &RuleFacts<'_>) -> String {
    let hosts: Vec<String> = rule.hosts.iter().take(MAX_LISTED).map(ToString::to_string).collect();
    format!(
        "{EXPECTED}, found {domain:?} for {}: browsers drop the cookie",
        hosts.join(", ")
    )
}
