//! The conditions of `XBackend`s that are about sessions.

use std::collections::{BTreeMap, BTreeSet};

use super::UsedBackend;
use super::backends::{BackendPersistence, SessionBackends, content, x_backends};
use super::domains::{EXPECTED, foreign_domain};
use super::names_in_use::NamesInUse;
use super::policy::PolicyDraft;
use super::policy_status::{keep_oldest, rule_name};
use super::rules::{RuleChoice, SessionSource};
use super::schemes;
use super::status::{Remarks, ancestor, invalid, report};
use crate::reports::{Condition, PolicyReport};
use crate::unknown_fields::no_effect;
use crate::{Objects, Settings};
use limpet_api::{Kind, ObjectName, ObjectRef};

/// The most ancestors, by the CRD of `XBackend`.
const MAX_ANCESTORS: usize = 32;

/// Reports on all `XBackend`s that rules lead to.
pub(super) fn reports(
    objects: &Objects,
    backends: &SessionBackends,
    used: &BTreeMap<&ObjectName, UsedBackend<'_>>,
    names_in_use: &NamesInUse<'_>,
    chosen: &[RuleChoice<'_>],
) -> BTreeMap<ObjectName, PolicyReport> {
    let mut leading: BTreeMap<&ObjectName, Vec<&RuleChoice<'_>>> = BTreeMap::new();
    for rule in chosen {
        for name in x_backends(rule.facts).collect::<BTreeSet<_>>() {
            leading.entry(name).or_default().push(rule);
        }
        for name in rule.facts.refused_backends.keys() {
            leading.entry(name).or_default().push(rule);
        }
    }
    let report = |(name, leading): (&ObjectName, Vec<_>)| {
        let draft = used.get(name).map(UsedBackend::draft);
        let is_plain = draft.as_ref().is_some_and(PolicyDraft::is_plain_for_http);
        let cookie = draft.as_ref().and_then(PolicyDraft::named_cookie);
        let remarks = [
            is_plain.then(|| schemes::NOT_SECURE.to_owned()),
            cookie.and_then(|cookie| names_in_use.backend_warning(name, cookie)),
        ];
        Some((name.clone(), one(objects, backends, name, &remarks, &leading)?))
    };
    leading.into_iter().filter_map(report).collect()
}

/// Only invalid XBackends: the others matter only to rules that lead to them.
pub(super) fn without_ancestors(
    objects: &Objects,
    settings: &Settings,
    reports: &BTreeMap<ObjectName, PolicyReport>,
) -> BTreeMap<ObjectRef, Condition> {
    let others = objects.backends.iter();
    let others = others.filter(|(name, object)| object.malformed.is_none() && !has_ancestors(reports.get(name)));
    let told = others.filter_map(|(name, _)| {
        let problems = content(name, objects, settings).err()?;
        let object = ObjectRef {
            kind: Kind::XBackend,
            name: name.clone(),
        };
        Some((object, invalid(&problems)))
    });
    told.collect()
}

fn stand_in(objects: &Objects, name: &ObjectName) -> Option<Condition> {
    let object = ObjectRef {
        kind: Kind::XBackend,
        name: name.clone(),
    };
    let stand_in = objects.stand_ins.get(&object)?;
    Some(Condition::fails("Accepted", "Invalid", stand_in.to_string()))
}

fn has_ancestors(report: Option<&PolicyReport>) -> bool {
    report.is_some_and(|report| !report.ancestors.is_empty())
}

/// `remarks`: on its cookie.
fn one(
    objects: &Objects,
    backends: &SessionBackends,
    name: &ObjectName,
    remarks: &[Option<String>],
    leading: &[&RuleChoice<'_>],
) -> Option<PolicyReport> {
    let object = objects.backends.get(name)?;
    let mut gateways: BTreeSet<&ObjectName> = leading.iter().flat_map(|rule| &rule.facts.gateways).collect();
    keep_oldest(objects, &mut gateways, MAX_ANCESTORS);
    let ancestors = gateways.into_iter().map(|gateway| {
        let leading = leading.iter().filter(|rule| rule.facts.gateways.contains(gateway));
        let conditions = match stand_in(objects, name) {
            Some(stand_in) => vec![stand_in],
            None => conditions(backends, name, remarks, &object.unread, leading),
        };
        ancestor(gateway, conditions)
    });
    Some(report(&object.meta, ancestors))
}

fn conditions<'p>(
    backends: &SessionBackends,
    name: &ObjectName,
    remarks: &[Option<String>],
    unread: &[String],
    leading: impl Iterator<Item = &'p &'p RuleChoice<'p>>,
) -> Vec<Condition> {
    let mut leading = leading.peekable();
    let refused = leading.peek().and_then(|rule| rule.facts.refused_backends.get(name));
    if let Some(why) = refused {
        return vec![Condition::fails("Accepted", "Invalid", why.clone())];
    }
    if let Some(Err(problems)) = backends.0.get(name) {
        return vec![invalid(problems)];
    }
    let mut about = Remarks::default();
    let (mut count, mut conflicts) = (0, 0);
    if let Some(BackendPersistence { draft, overruled, .. }) = backends.own(name) {
        overruled.iter().cloned().for_each(|why| about.add_sentence(why));
        draft
            .former_note()
            .into_iter()
            .for_each(|note| about.add_sentence(note));
        remarks
            .iter()
            .flatten()
            .cloned()
            .for_each(|remark| about.add_sentence(remark));
        for rule in leading {
            let facts = rule.facts;
            count += 1;
            conflicts += usize::from(has_one_name(backends, name, rule));
            if let Some(domain) = foreign_domain(draft, facts) {
                let text = format!("{EXPECTED}, found {domain:?}: browsers drop the cookie on");
                about.add(text, rule_name(facts));
            }
            if let Some(why) = why_without(backends, name, rule) {
                about.add(why, rule_name(facts));
            }
        }
    }
    if count > 0 && conflicts == count {
        return vec![Condition::fails("Accepted", "Conflicted", about.to_string())];
    }
    let message = if about.is_empty() {
        "The backend is accepted".to_owned()
    } else {
        format!("The backend is accepted; {about}")
    };
    vec![Condition::holds("Accepted", "Accepted", no_effect(&message, unread))]
}

fn why_without(backends: &SessionBackends, name: &ObjectName, rule: &RuleChoice<'_>) -> Option<String> {
    let why = match rule.source {
        SessionSource::Inline => "sessionPersistence of the rule takes precedence over the backend's on",
        _ if rule.sessionless().is_some() => "there are no sessions, because the rule cannot be followed, on",
        SessionSource::Destinations if !rule.is_refused => return None,
        SessionSource::Kept(first) if !rule.is_refused && first == name => {
            "session.limpet.dev/split is keep, so its sessions are for all backends of"
        }
        SessionSource::Kept(first) if !rule.is_refused => {
            return Some(format!(
                "session.limpet.dev/split is keep, so the sessions of XBackend {first} apply on"
            ));
        }
        _ if has_one_name(backends, name, rule) => {
            "spec.sessionPersistence: expected a name that no other backend of the rule has; there are no sessions on"
        }
        SessionSource::None
        | SessionSource::Policy(_)
        | SessionSource::Destinations
        | SessionSource::Kept(_)
        | SessionSource::Affinity => "there are no sessions, because the route cannot be followed, on",
    };
    Some(why.to_owned())
}

fn has_one_name(backends: &SessionBackends, name: &ObjectName, rule: &RuleChoice<'_>) -> bool {
    let is_it = || {
        let two = backends.with_one_name(rule.facts);
        two.is_some_and(|(one, other)| one == name || other == name)
    };
    matches!(rule.source, SessionSource::Destinations) && rule.is_refused && rule.sessionless().is_none() && is_it()
}
