//! The conditions of session policies.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::facts::RuleFacts;
use super::objects::{PolicyObject, PolicyObjects};
use super::rules::{Outcome, Rule, services};
use super::status::{Remarks, ancestor, invalid, report};
use crate::Objects;
use crate::objects::RouteReferences;
use crate::references::RuleBackend;
use crate::reports::{Condition, PolicyReport};
use crate::unread::no_effect;
use limpet_api::{ObjectName, ObjectRef};

/// GEP-713's bound of a policy's ancestors.
pub(crate) const MAX_ANCESTORS: usize = 16;

/// What there is to report of each policy.
pub(super) struct Statuses<'a> {
    objects: &'a Objects,
    rules: &'a [RuleFacts<'a>],
    policies: &'a PolicyObjects<'a>,
    /// By policy: the rules that lead to its targets.
    touched: Vec<Vec<usize>>,
    /// By policy: the Gateways with a rule that names a target which is not there.
    missing: Vec<BTreeSet<&'a ObjectName>>,
    /// By policy: its ancestors.
    ancestors: Vec<BTreeSet<&'a ObjectName>>,
}

impl<'a> Statuses<'a> {
    pub(super) fn new(
        objects: &'a Objects,
        rules: &'a [RuleFacts<'a>],
        policies: &'a PolicyObjects<'a>,
        chosen: &[Rule],
    ) -> Self {
        let mut touched: Vec<Vec<usize>> = vec![Vec::new(); policies.all.len()];
        let mut ancestors: Vec<BTreeSet<&ObjectName>> = gateways_of_missing_targets(objects, rules, policies);
        let missing = ancestors.clone();
        for (index, (facts, rule)) in rules.iter().zip(chosen).enumerate() {
            for policy in rule.outcomes.keys() {
                if let (Some(touched), Some(ancestors)) = (touched.get_mut(*policy), ancestors.get_mut(*policy)) {
                    touched.push(index);
                    ancestors.extend(&facts.gateways);
                }
            }
        }
        for ancestors in &mut ancestors {
            keep_oldest(objects, ancestors, MAX_ANCESTORS);
        }
        Self {
            objects,
            rules,
            policies,
            touched,
            missing,
            ancestors,
        }
    }

    /// Whether the policy may govern the rule: one of the rule's Gateways has room in its status, or the rule has no Gateway yet. GEP-713: "If this
    /// slice is full, implementations MUST NOT add further entries. Instead they MUST consider the policy unimplementable and signal that on any
    /// related resources".
    pub(super) fn has_room(&self, policy: usize, rule: &RuleFacts<'_>) -> bool {
        let Some(ancestors) = self.ancestors.get(policy) else {
            return false;
        };
        rule.gateways.is_empty() || rule.gateways.iter().any(|gateway| ancestors.contains(gateway))
    }

    pub(super) fn report(&self, index: usize, chosen: &[Rule]) -> PolicyReport {
        let (Some(policy), Some(touched), Some(ancestors), Some(missing)) = (
            self.policies.all.get(index),
            self.touched.get(index),
            self.ancestors.get(index),
            self.missing.get(index),
        ) else {
            return PolicyReport::default();
        };
        let mut by_gateway: BTreeMap<&ObjectName, Vec<(&RuleFacts<'_>, Outcome)>> =
            ancestors.iter().map(|gateway| (*gateway, Vec::new())).collect();
        for rule in touched {
            let facts = self.rules.get(*rule);
            let outcome = chosen.get(*rule).and_then(|rule| rule.outcomes.get(&index));
            if let (Some(facts), Some(outcome)) = (facts, outcome) {
                for gateway in &facts.gateways {
                    if let Some(rules) = by_gateway.get_mut(gateway) {
                        rules.push((facts, *outcome));
                    }
                }
            }
        }
        let entries = by_gateway.into_iter().map(|(gateway, rules)| {
            let conditions = self.conditions(policy, &rules, missing.contains(gateway));
            ancestor(gateway, conditions)
        });
        report(&policy.object.meta, entries)
    }

    fn conditions(
        &self,
        policy: &PolicyObject<'_>,
        rules: &[(&RuleFacts<'_>, Outcome)],
        names_missing: bool,
    ) -> Vec<Condition> {
        match &policy.content {
            Err(problems) => return vec![invalid(problems)],
            Ok(None) => {
                return vec![Condition::holds(
                    "Accepted",
                    "Accepted",
                    "The policy asks for no sessions",
                )];
            }
            Ok(Some(_)) => {}
        }
        let mut about = Remarks::default();
        if names_missing || !rules.is_empty() {
            self.add_missing_targets(policy, &mut about);
        }
        if rules.is_empty() {
            return vec![Condition::fails("Accepted", "TargetNotFound", about.to_string())];
        }
        let mut not_governed = Remarks::default();
        for (facts, outcome) in rules {
            self.add_outcome(policy, facts, *outcome, &mut not_governed);
        }
        let count = |is: fn(Outcome) -> bool| rules.iter().filter(|(_, outcome)| is(*outcome)).count();
        let governed = count(|outcome| outcome == Outcome::Governs);
        let conflicts = count(|outcome| matches!(outcome, Outcome::TargetLost(_) | Outcome::NameTaken(_)));
        if conflicts == rules.len() {
            return vec![Condition::fails("Accepted", "Conflicted", not_governed.to_string())];
        }
        let governing = rules.iter().filter(|(_, outcome)| *outcome == Outcome::Governs);
        for (facts, _) in governing {
            self.add_notes(policy, facts, &mut about);
        }
        let unread = &policy.object.unread;
        let message = if about.is_empty() {
            "The policy is accepted".to_owned()
        } else {
            format!("The policy is accepted; {about}")
        };
        let mut conditions = vec![Condition::holds("Accepted", "Accepted", no_effect(&message, unread))];
        if governed == 0 {
            conditions.push(Condition::fails("Programmed", "Overridden", not_governed.to_string()));
        } else if governed < rules.len() {
            conditions.push(Condition::holds(
                "Programmed",
                "PartiallyProgrammed",
                not_governed.to_string(),
            ));
        } else if !unread.is_empty() {
            let message = no_effect("All rules have the policy's sessions", unread);
            conditions.push(Condition::holds("Programmed", "PartiallyProgrammed", message));
        }
        conditions
    }

    /// Why the policy does not govern a rule.
    fn add_outcome(&self, policy: &PolicyObject<'_>, facts: &RuleFacts<'_>, outcome: Outcome, remarks: &mut Remarks) {
        let name = |index: usize| {
            self.policies
                .all
                .get(index)
                .map(ToString::to_string)
                .unwrap_or_default()
        };
        let text = match outcome {
            Outcome::Governs | Outcome::Nothing => return,
            Outcome::TargetLost(_) => {
                for service in services(facts) {
                    let backend = RuleBackend::Service(service.clone());
                    let is_target = policy.targets.iter().any(|(_, target)| *target == backend);
                    if let Some(owner) = self.policies.owner(&backend).filter(|_| is_target) {
                        let text = format!("{}, which is older, targets the same", name(owner));
                        remarks.add(text, format!("Service {service}"));
                    }
                }
                return;
            }
            Outcome::NameTaken(winner) => {
                let content = policy.content();
                let field = content.map(|content| content.wanted.name_field()).unwrap_or_default();
                let text = format!(
                    "spec.sessionPersistence.{field}: expected a name that no older policy has on the route; {} has it, on",
                    name(winner)
                );
                return remarks.add(text, facts.route.to_string());
            }
            Outcome::Older(winner) => format!(
                "{}, which is older and targets another backend, counts on",
                name(winner)
            ),
            Outcome::Inline => "sessionPersistence of the rule itself counts on".to_owned(),
            Outcome::Destinations => "sessions of XBackends count on".to_owned(),
            Outcome::Annotations => {
                "the route's annotations can not be followed, so there are no sessions, on".to_owned()
            }
            Outcome::NoRoom => {
                format!("there is no room for more than {MAX_ANCESTORS} ancestors, so there are no sessions, on")
            }
        };
        remarks.add(text, rule_name(facts));
    }

    /// What a person may want to know of a rule that the policy governs.
    fn add_notes(&self, policy: &PolicyObject<'_>, facts: &RuleFacts<'_>, remarks: &mut Remarks) {
        let is_target = |backend: &RuleBackend| policy.targets.iter().any(|(_, target)| target == backend);
        if !facts.backends.iter().all(is_target) {
            let text = "the sessions are the rule's, so they are on all of its backends, not on the targets alone, on";
            remarks.add(text.to_owned(), rule_name(facts));
        }
        for service in services(facts).filter(|service| has_affinity(self.objects, service)) {
            remarks.add(AFFINITY.to_owned(), format!("Service {service}"));
        }
    }

    fn add_missing_targets(&self, policy: &PolicyObject<'_>, remarks: &mut Remarks) {
        for (index, target) in &policy.targets {
            if let RuleBackend::Service(service) = target
                && !self.objects.services.contains_key(service)
            {
                remarks.say(format!(
                    "spec.targetRefs[{index}].name: expected a Service that is there, found {service}"
                ));
            }
        }
    }
}

/// Said of a Service whose own affinity has no effect.
const AFFINITY: &str =
    "sessionAffinity ClientIP has no effect, because requests go to endpoints and not to the Service's address, on";

/// Whether the Service asks for affinity by itself. The GEP has a route rejected for it where requests go to the Service's address; they do not.
pub(super) fn has_affinity(objects: &Objects, service: &ObjectName) -> bool {
    let service = objects.services.get(service);
    service.is_some_and(|service| service.spec.session_affinity.as_deref() == Some("ClientIP"))
}

/// What is said of Services with affinity that a rule with `sessionPersistence` leads to.
pub(super) fn affinity_notes(objects: &Objects, facts: &RuleFacts<'_>) -> Vec<String> {
    let mut remarks = Remarks::default();
    for service in services(facts).filter(|service| has_affinity(objects, service)) {
        remarks.add(format!("{}: {AFFINITY}", facts.field), format!("Service {service}"));
    }
    if remarks.is_empty() {
        Vec::new()
    } else {
        vec![remarks.to_string()]
    }
}

/// A rule, for people.
pub(super) fn rule_name(facts: &RuleFacts<'_>) -> String {
    format!("{} {}", facts.route, facts.field)
}

/// Takes the younger ones out where there are too many, so that a new Gateway takes nothing from those that are there.
pub(super) fn keep_oldest(objects: &Objects, gateways: &mut BTreeSet<&ObjectName>, max: usize) {
    if gateways.len() <= max {
        return;
    }
    let mut by_age: Vec<&ObjectName> = gateways.iter().copied().collect();
    by_age.sort_by_key(|name| {
        let created = objects
            .gateways
            .get(*name)
            .map(|gateway| gateway.meta.creation_timestamp.as_str());
        (created, *name)
    });
    *gateways = by_age.into_iter().take(max).collect();
}

/// By policy: the Gateways of rules that name a Service which the policy targets, and which is not there.
fn gateways_of_missing_targets<'a>(
    objects: &Objects,
    rules: &'a [RuleFacts<'a>],
    policies: &PolicyObjects<'_>,
) -> Vec<BTreeSet<&'a ObjectName>> {
    let mut gateways = vec![BTreeSet::new(); policies.all.len()];
    let is_missing = |policy: &PolicyObject<'_>| {
        policy.targets.iter().any(|(_, target)| match target {
            RuleBackend::Service(name) => !objects.services.contains_key(name),
            RuleBackend::XBackend(_) => false,
        })
    };
    if !policies.all.iter().any(is_missing) {
        return gateways;
    }
    let mut of_missing: HashMap<RuleBackend, BTreeSet<&ObjectName>> = HashMap::new();
    let mut of_route: HashMap<_, BTreeSet<&ObjectName>> = HashMap::new();
    for facts in rules {
        of_route.entry(&facts.route).or_default().extend(&facts.gateways);
    }
    for (route, its_gateways) in of_route {
        for service in missing_services(objects, route) {
            of_missing
                .entry(RuleBackend::Service(service))
                .or_default()
                .extend(&its_gateways);
        }
    }
    for (policy, gateways) in policies.all.iter().zip(&mut gateways) {
        for (_, target) in &policy.targets {
            gateways.extend(of_missing.get(target).into_iter().flatten());
        }
    }
    gateways
}

/// The Services that a route names and that are not there.
fn missing_services(objects: &Objects, route: &ObjectRef) -> HashSet<ObjectName> {
    let services = objects.route(route);
    let services = services.iter().flat_map(RouteReferences::services);
    services.filter(|name| !objects.services.contains_key(name)).collect()
}
