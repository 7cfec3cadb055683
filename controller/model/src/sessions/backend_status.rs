//! The conditions of `XBackend`s, as far as sessions go.

use std::collections::{BTreeMap, BTreeSet};

use super::backends::{Backends, x_backends};
use super::facts::RuleFacts;
use super::policy_status::{keep_oldest, rule_name};
use super::rules::{Rule, Source};
use super::status::{Remarks, ancestor, invalid, report};
use crate::Objects;
use crate::reports::{Condition, PolicyReport};
use crate::unread::no_effect;
use limpet_api::ObjectName;

/// The bound of the ancestors of an `XBackend`, by its CRD.
const MAX_ANCESTORS: usize = 32;

/// Of all `XBackend`s that rules lead to.
pub(super) fn reports(
    objects: &Objects,
    rules: &[RuleFacts<'_>],
    backends: &Backends,
    chosen: &[Rule],
) -> BTreeMap<ObjectName, PolicyReport> {
    let mut leading: BTreeMap<&ObjectName, Vec<(&RuleFacts<'_>, &Rule)>> = BTreeMap::new();
    for (facts, rule) in rules.iter().zip(chosen) {
        for name in x_backends(facts).collect::<BTreeSet<_>>() {
            leading.entry(name).or_default().push((facts, rule));
        }
        for name in facts.refused_backends.keys() {
            leading.entry(name).or_default().push((facts, rule));
        }
    }
    let report = |(name, leading): (&ObjectName, Vec<_>)| Some((name.clone(), one(objects, backends, name, &leading)?));
    leading.into_iter().filter_map(report).collect()
}

fn one(
    objects: &Objects,
    backends: &Backends,
    name: &ObjectName,
    leading: &[(&RuleFacts<'_>, &Rule)],
) -> Option<PolicyReport> {
    let object = objects.backends.get(name)?;
    let mut gateways: BTreeSet<&ObjectName> = leading.iter().flat_map(|(facts, _)| &facts.gateways).collect();
    keep_oldest(objects, &mut gateways, MAX_ANCESTORS);
    let ancestors = gateways.into_iter().map(|gateway| {
        let leading = leading.iter().filter(|(facts, _)| facts.gateways.contains(gateway));
        let conditions = conditions(backends, name, &object.unread, leading);
        ancestor(gateway, conditions)
    });
    Some(report(&object.meta, ancestors))
}

fn conditions<'r>(
    backends: &Backends,
    name: &ObjectName,
    unread: &[String],
    leading: impl Iterator<Item = &'r (&'r RuleFacts<'r>, &'r Rule)>,
) -> Vec<Condition> {
    let mut leading = leading.peekable();
    let refused = leading.peek().and_then(|(facts, _)| facts.refused_backends.get(name));
    if let Some(why) = refused {
        return vec![Condition::fails("Accepted", "Invalid", why.clone())];
    }
    if let Some(Err(problems)) = backends.0.get(name) {
        return vec![invalid(problems)];
    }
    let mut about = Remarks::default();
    let (mut count, mut conflicts) = (0, 0);
    if backends.draft(name).is_some() {
        for (facts, rule) in leading {
            count += 1;
            match rule.source {
                Source::Inline => about.add(
                    "sessionPersistence of the rule itself counts, and not the backend's, on".to_owned(),
                    rule_name(facts),
                ),
                Source::Destinations if !rule.is_refused => {}
                Source::Destinations if is_one_of_two(backends, name, facts) => {
                    conflicts += 1;
                    about.add(
                        "spec.sessionPersistence: expected another name than that of another backend of the rule, so there are no sessions, on"
                            .to_owned(),
                        rule_name(facts),
                    );
                }
                _ => about.add(
                    "there are no sessions, because the route can not be followed, on".to_owned(),
                    rule_name(facts),
                ),
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

fn is_one_of_two(backends: &Backends, name: &ObjectName, facts: &RuleFacts<'_>) -> bool {
    backends
        .with_one_name(facts)
        .is_some_and(|(one, other)| one == name || other == name)
}
