//! The conditions of session policies.

use std::collections::{BTreeMap, BTreeSet};

use super::domains::EXPECTED;
use super::facts::{RuleFacts, services};
use super::former::LostFields;
use super::names_in_use::CookieNotes;
use super::naming::{NamingGateways, NamingRoutes, naming_gateways, why_unusable};
use super::objects::{PolicyContent, PolicyObject, PolicyTargets};
use super::persistence::Shape;
use super::policy::PolicyDraft;
use super::rules::{PolicyOutcome, RuleChoice, SessionSource};
use super::status::{Remarks, ancestor, deprecated, invalid, report};
use crate::objects::RuleBackend;
use crate::reports::{Condition, PolicyReport};
use crate::unknown_fields::no_effect;
use crate::{Objects, SessionPolicyKind, SessionPolicyName, Settings, affinity};
use limpet_api::{ObjectName, ObjectRef};

/// The most ancestors of a policy, by GEP-713.
pub(crate) const MAX_ANCESTORS: usize = 16;

pub(super) struct PolicyStatuses<'p> {
    objects: &'p Objects,
    settings: &'p Settings,
    policies: &'p [PolicyObject<'p>],
    targets: &'p PolicyTargets<'p>,
    /// Gateways with a rule that names a target of the policy other than as a valid backend.
    naming: NamingGateways<'p>,
    ancestors: GatewaysByPolicy<'p>,
}

type GovernedRule<'r, 'p> = (&'r RuleChoice<'p>, PolicyOutcome<'p>);

type GatewaysByPolicy<'p> = BTreeMap<&'p PolicyObject<'p>, BTreeSet<&'p ObjectName>>;

impl<'p> PolicyStatuses<'p> {
    pub(super) fn new(
        objects: &'p Objects,
        settings: &'p Settings,
        policies: &'p [PolicyObject<'p>],
        targets: &'p PolicyTargets<'p>,
        chosen: &[RuleChoice<'p>],
        serving: &BTreeSet<&'p ObjectName>,
    ) -> Self {
        let naming = naming_gateways(objects, policies, chosen, serving);
        let mut ancestors: GatewaysByPolicy<'p> = BTreeMap::new();
        for (policy, gateways) in &naming {
            ancestors.entry(policy).or_default().extend(gateways.keys());
        }
        for rule in chosen {
            for policy in rule.outcomes.keys() {
                ancestors.entry(policy).or_default().extend(&rule.facts.gateways);
            }
        }
        for ancestors in ancestors.values_mut() {
            keep_oldest(objects, ancestors, MAX_ANCESTORS);
        }
        Self {
            objects,
            settings,
            policies,
            targets,
            naming,
            ancestors,
        }
    }

    /// Whether the policy's status has room for one of the rule's Gateways, if it has any. GEP-713: "If this slice is
    /// full, implementations MUST NOT add further entries. Instead they MUST consider the policy unimplementable and
    /// signal that on any related resources".
    pub(super) fn has_room(&self, policy: &PolicyObject<'_>, rule: &RuleFacts<'_>) -> bool {
        let mut gateways = rule.gateways.iter();
        rule.gateways.is_empty() || gateways.any(|gateway| has(&self.ancestors, policy, gateway))
    }

    pub(super) fn reports(
        &self,
        chosen: &[RuleChoice<'p>],
        cookies: &CookieNotes<'_>,
    ) -> BTreeMap<SessionPolicyName, PolicyReport> {
        let mut touched: BTreeMap<&PolicyObject<'_>, Vec<GovernedRule<'_, 'p>>> = BTreeMap::new();
        for rule in chosen {
            for (policy, outcome) in &rule.outcomes {
                touched.entry(policy).or_default().push((rule, *outcome));
            }
        }
        let report = |policy: &PolicyObject<'p>| {
            let touched = touched.get(policy).map(Vec::as_slice).unwrap_or_default();
            (policy.name.clone(), self.report(policy, touched, cookies))
        };
        self.policies.iter().map(report).collect()
    }

    fn report(
        &self,
        policy: &PolicyObject<'_>,
        touched: &[GovernedRule<'_, 'p>],
        cookies: &CookieNotes<'_>,
    ) -> PolicyReport {
        let ancestors = self.ancestors.get(policy).into_iter().flatten();
        let entries = ancestors.map(|gateway| {
            let rules = touched
                .iter()
                .filter(|(rule, _)| rule.facts.gateways.contains(*gateway));
            let rules: Vec<GovernedRule<'_, 'p>> = rules.copied().collect();
            let naming = self.naming.get(policy).and_then(|gateways| gateways.get(*gateway));
            let conditions = self.conditions(policy, &rules, naming, cookies);
            ancestor(gateway, conditions)
        });
        report(&policy.object.meta, entries)
    }

    fn conditions(
        &self,
        policy: &PolicyObject<'_>,
        rules: &[GovernedRule<'_, 'p>],
        naming: Option<&NamingRoutes<'_>>,
        cookies: &CookieNotes<'_>,
    ) -> Vec<Condition> {
        if let Some(stand_in) = self.stand_in(policy) {
            return vec![stand_in];
        }
        let content = match &policy.content {
            Err(problems) => return vec![invalid(problems)],
            Ok(None) => {
                let message = "The policy asks for no sessions";
                return vec![Condition::holds("Accepted", "Accepted", message)];
            }
            Ok(Some(content)) => content,
        };
        let mut about = Remarks::default();
        self.add_unusable_targets(policy, &mut about);
        let unread = &policy.object.unread;
        if rules.is_empty() {
            return without_rules(unread, naming, &about);
        }
        let mut not_governed = Remarks::default();
        for (rule, outcome) in rules {
            self.add_outcome(policy, rule.facts, *outcome, &mut not_governed);
        }
        let is_lost =
            |outcome: &PolicyOutcome<'_>| matches!(outcome, PolicyOutcome::TargetLost | PolicyOutcome::NameTaken(_));
        if rules.iter().all(|(_, outcome)| is_lost(outcome)) {
            return vec![Condition::fails("Accepted", "Conflicted", not_governed.to_string())];
        }
        for (rule, _) in rules.iter().filter(|(_, outcome)| *outcome == PolicyOutcome::Governs) {
            self.add_notes(policy, rule, &mut about);
            cookies.for_rule(rule).for_each(|note| about.add_sentence(note));
        }
        self.add_notes_on_content(policy, content, &mut about);
        let programmed = programmed(unread, content.lost.as_ref(), rules, &not_governed);
        std::iter::once(accepted(&about, unread)).chain(programmed).collect()
    }

    fn stand_in(&self, policy: &PolicyObject<'_>) -> Option<Condition> {
        let stand_in = self.objects.stand_ins.get(&policy.name.object_ref())?;
        Some(Condition::fails("Accepted", "Invalid", stand_in.to_string()))
    }

    fn add_outcome(
        &self,
        policy: &PolicyObject<'_>,
        facts: &RuleFacts<'_>,
        outcome: PolicyOutcome<'p>,
        remarks: &mut Remarks,
    ) {
        match (outcome, message(policy, outcome)) {
            (PolicyOutcome::TargetLost, _) => {
                for (text, service) in lost_targets(self.targets, policy, facts) {
                    remarks.add(text, service);
                }
            }
            (PolicyOutcome::NameTaken(_), Some(text)) => remarks.add(format!("{text}, on"), facts.route.to_string()),
            (_, Some(text)) => remarks.add(format!("{text} on"), rule_name(facts)),
            (_, None) => {}
        }
    }

    fn add_notes(&self, policy: &PolicyObject<'_>, rule: &RuleChoice<'_>, remarks: &mut Remarks) {
        let facts = rule.facts;
        let is_target = |backend: &RuleBackend| policy.targets.iter().any(|(_, target)| target == backend);
        if !facts.backends.iter().all(is_target) {
            let text = if rule.scope.is_per_destination {
                "each backend of the rule has the policy's sessions, and not only the targets, on"
            } else {
                "the sessions belong to the rule, so they use all of its backends and not only the targets, on"
            };
            remarks.add(text.to_owned(), rule_name(facts));
        }
        if let Some(note) = rule.draft.as_ref().and_then(PolicyDraft::former_note) {
            remarks.add(format!("{note} on"), rule_name(facts));
        }
        for service in affinity_without_effect(self.objects, self.settings, facts) {
            remarks.add(AFFINITY.to_owned(), format!("Service {service}"));
        }
    }

    /// Notes on content that has no effect, is deprecated or was lost.
    fn add_notes_on_content(&self, policy: &PolicyObject<'_>, content: &PolicyContent, remarks: &mut Remarks) {
        content
            .overruled
            .iter()
            .cloned()
            .for_each(|why| remarks.add_sentence(why));
        if content.persistence.shape == Shape::Union && self.settings.serves() {
            let services = policy.targets.iter().filter_map(|(_, target)| match target {
                RuleBackend::Service(name) => Some(name.clone()),
                RuleBackend::XBackend(_) => None,
            });
            if let Some(note) = deprecated("an XBackendTrafficPolicy", services) {
                remarks.add_sentence(note);
            }
        }
        if let Some(lost) = &content.lost {
            remarks.add_sentence(lost.to_string());
        }
    }

    /// Returns their number.
    fn add_unusable_targets(&self, policy: &PolicyObject<'_>, remarks: &mut Remarks) -> usize {
        let targets = policy.targets.iter().filter_map(|(index, target)| match target {
            RuleBackend::Service(service) => Some((index, service)),
            RuleBackend::XBackend(_) => None,
        });
        let unusable = targets.filter_map(|(index, service)| {
            let why = why_unusable(self.objects, &service.namespace, &service.name)?;
            Some(format!("spec.targetRefs[{index}].name: {why}"))
        });
        unusable.map(|why| remarks.add_sentence(why)).count()
    }

    /// Findings on policies without an ancestor: no rule leads to a target that does not exist.
    pub(super) fn without_status(&self) -> BTreeMap<ObjectRef, Condition> {
        let told = self.policies.iter().filter_map(|policy| {
            let without = if self.ancestors.get(policy).is_none_or(BTreeSet::is_empty) {
                self.without_ancestor(policy)
            } else {
                self.missing_targets(policy)
            };
            Some((policy.name.object_ref(), without?))
        });
        told.collect()
    }

    fn missing_targets(&self, policy: &PolicyObject<'_>) -> Option<Condition> {
        policy.content()?;
        let mut about = Remarks::default();
        let missing = self.add_unusable_targets(policy, &mut about);
        let is_some = (1..policy.targets.len()).contains(&missing);
        is_some.then(|| Condition::fails("ResolvedRefs", "TargetNotFound", about.to_string()))
    }

    fn without_ancestor(&self, policy: &PolicyObject<'_>) -> Option<Condition> {
        let is_for_others = policy.name.kind == SessionPolicyKind::XBackendTrafficPolicy
            && policy.object.spec.session_persistence.is_none()
            && policy.object.malformed.is_none();
        if let Some(stand_in) = self.stand_in(policy) {
            return Some(stand_in);
        }
        match &policy.content {
            // Other controllers may support what Limpet does not.
            Err(_) if is_for_others => return None,
            Err(problems) => return Some(invalid(problems)),
            Ok(None) if policy.name.kind == SessionPolicyKind::XBackendTrafficPolicy => return None,
            Ok(_) => {}
        }
        let mut about = Remarks::default();
        if self.add_unusable_targets(policy, &mut about) == policy.targets.len() {
            return Some(Condition::fails("Accepted", "TargetNotFound", about.to_string()));
        }
        policy.content()?;
        for (_, target) in &policy.targets {
            if let RuleBackend::Service(service) = target {
                let text = "no route that can have sessions leads to";
                about.add(text.to_owned(), format!("Service {service}"));
            }
        }
        Some(Condition::fails("Programmed", "NoRoute", about.to_string()))
    }
}

/// Why a policy does not govern a rule, as far as the outcome says it.
pub(super) fn message(policy: &PolicyObject<'_>, outcome: PolicyOutcome<'_>) -> Option<String> {
    let text = match outcome {
        PolicyOutcome::Governs | PolicyOutcome::Nothing | PolicyOutcome::TargetLost => return None,
        PolicyOutcome::NameTaken(winner) => {
            let content = policy.content();
            let field = content
                .map(|content| content.persistence.name_field())
                .unwrap_or_default();
            format!(
                "spec.sessionPersistence.{field}: expected a name that no older policy has on the route; {winner} \
                 has it"
            )
        }
        PolicyOutcome::Older(winner) => {
            format!("{winner}, which is older and targets another backend, takes precedence")
        }
        PolicyOutcome::Inline => "sessionPersistence of the rule takes precedence".to_owned(),
        PolicyOutcome::Destinations => "sessions of XBackends take precedence".to_owned(),
        PolicyOutcome::Annotations => "the route's annotations cannot be followed, so there are no sessions".to_owned(),
        PolicyOutcome::ForeignDomain { .. } => {
            format!("{EXPECTED}, because browsers drop the cookie otherwise; there are no sessions")
        }
        PolicyOutcome::Sessionless(why) => {
            let why = why.reason().unwrap_or("the rule cannot be followed");
            format!("{why}, so there are no sessions")
        }
        PolicyOutcome::NoRoom => {
            format!("there is no room for more than {MAX_ANCESTORS} ancestors, so there are no sessions")
        }
    };
    Some(text)
}

/// Services of a rule that are targets of the policy and belong to an older one, with the words for that.
pub(super) fn lost_targets<'r>(
    targets: &'r PolicyTargets<'_>,
    policy: &'r PolicyObject<'_>,
    facts: &'r RuleFacts<'_>,
) -> impl Iterator<Item = (String, String)> + 'r {
    services(facts).filter_map(move |service| {
        let backend = RuleBackend::Service(service.clone());
        let is_target = policy.targets.iter().any(|(_, target)| *target == backend);
        let owner = targets.owner(&backend).filter(|_| is_target)?;
        let text = format!("{}, which is older, targets the same", owner.policy);
        Some((text, format!("Service {service}")))
    })
}

/// The conditions at a Gateway none of whose rules has a target as a valid backend.
fn without_rules(unread: &[String], naming: Option<&NamingRoutes<'_>>, about: &Remarks) -> Vec<Condition> {
    let Some(naming) = naming.filter(|naming| naming.any_usable) else {
        return vec![Condition::fails("Accepted", "TargetNotFound", about.to_string())];
    };
    let mut why = Remarks::default();
    for route in &naming.routes {
        let text = "no rule of this Gateway has a target as a valid backend; the status says why, of";
        why.add(text.to_owned(), route.to_string());
    }
    let programmed = Condition::fails("Programmed", "Invalid", why.to_string());
    vec![accepted(about, unread), programmed]
}

/// `Programmed`, if there is more to say than what Envoys acknowledge.
fn programmed(
    unread: &[String],
    lost: Option<&LostFields>,
    rules: &[GovernedRule<'_, '_>],
    not_governed: &Remarks,
) -> Option<Condition> {
    let count = |is: fn(PolicyOutcome<'_>) -> bool| rules.iter().filter(|(_, outcome)| is(*outcome)).count();
    let governed = count(|outcome| outcome == PolicyOutcome::Governs);
    if governed == 0 {
        let is_refused = count(|outcome| matches!(outcome, PolicyOutcome::Sessionless(_))) == rules.len();
        let why = not_governed.to_string();
        return Some(if is_refused {
            Condition::fails("Programmed", "Invalid", why)
        } else {
            Condition::fails("Programmed", "Overridden", why)
        });
    }
    let message = if governed < rules.len() {
        not_governed.to_string()
    } else if !unread.is_empty() {
        no_effect("All rules have the policy's sessions", unread)
    } else {
        lost.filter(|lost| lost.has_unknown())?.to_string()
    };
    Some(Condition::holds("Programmed", "PartiallyProgrammed", message))
}

fn accepted(about: &Remarks, unread: &[String]) -> Condition {
    let message = if about.is_empty() {
        "The policy is accepted".to_owned()
    } else {
        format!("The policy is accepted; {about}")
    };
    Condition::holds("Accepted", "Accepted", no_effect(&message, unread))
}

const AFFINITY: &str = "sessionAffinity ClientIP has no effect with another control plane, on";

/// Services of the rule whose affinity has no effect: another control plane's load balancers choose by the client's
/// address.
fn affinity_without_effect<'r>(
    objects: &Objects,
    settings: &Settings,
    facts: &'r RuleFacts<'_>,
) -> impl Iterator<Item = &'r ObjectName> {
    let is_foreign = !settings.serves();
    services(facts).filter(move |service| is_foreign && affinity::of_named(objects, service).is_some())
}

pub(super) fn affinity_notes(objects: &Objects, settings: &Settings, facts: &RuleFacts<'_>) -> Vec<String> {
    let mut remarks = Remarks::default();
    for service in affinity_without_effect(objects, settings, facts) {
        remarks.add(format!("{}: {AFFINITY}", facts.field), format!("Service {service}"));
    }
    if remarks.is_empty() {
        Vec::new()
    } else {
        vec![remarks.to_string()]
    }
}

pub(super) fn rule_name(facts: &RuleFacts<'_>) -> String {
    format!("{} {}", facts.route, facts.field)
}

/// Routes without sessions, because the only policies of their backends are refused.
pub(super) fn without_policy(chosen: &[RuleChoice<'_>]) -> BTreeMap<ObjectRef, Condition> {
    let mut remarks: BTreeMap<&ObjectRef, Remarks> = BTreeMap::new();
    let without = chosen
        .iter()
        .filter(|rule| matches!(rule.source, SessionSource::None | SessionSource::Affinity));
    for RuleChoice { facts, outcomes, .. } in without.filter(|rule| !rule.facts.gateways.is_empty()) {
        for policy in outcomes.keys().filter(|policy| policy.content.is_err()) {
            let text = format!("{policy} is refused, and its status says why, so it gives no sessions to");
            let of_route = remarks.entry(&facts.route).or_default();
            of_route.add(text, facts.field.clone());
        }
    }
    let condition = |remarks: &Remarks| Condition::fails("Programmed", "PolicyRefused", remarks.to_string());
    remarks
        .iter()
        .map(|(route, remarks)| ((*route).clone(), condition(remarks)))
        .collect()
}

/// Keeps the oldest Gateways, so that a new one does not displace them.
pub(crate) fn keep_oldest(objects: &Objects, gateways: &mut BTreeSet<&ObjectName>, max: usize) {
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

fn has(gateways: &GatewaysByPolicy<'_>, policy: &PolicyObject<'_>, gateway: &ObjectName) -> bool {
    gateways.get(policy).is_some_and(|gateways| gateways.contains(gateway))
}
