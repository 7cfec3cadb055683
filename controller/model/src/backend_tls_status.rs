//! The status of `BackendTLSPolicy`, by GEP-713 and GEP-1897.
//!
//! The ancestors are the Gateways whose rules lead to the targets. Without such a rule, a policy gets no entry.

use std::collections::{BTreeMap, BTreeSet};

use super::Objects;
use super::backend_tls::{TlsPolicies, TlsPolicy, TlsTarget, has_port};
use super::grants::Referrer;
use super::objects::RuleBackend;
use super::references::References;
use super::reports::{Condition, PolicyReport};
use super::routes::RouteState;
use super::sessions::{MAX_ANCESTORS, Remarks, ancestor, keep_oldest};
use limpet_api::{BackendRef, Kind, ObjectName, ObjectRef, ServicePort};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TlsPolicyOutcome<'p> {
    /// The policy counts.
    Governs,
    /// An older policy counts.
    Lost(&'p ObjectName),
    /// It does not exist.
    Missing,
    /// The backend exists, but not this port of it.
    NoPort,
}

/// The Gateways whose rules lead to a port of a backend. An XBackend has no ports.
type GatewaysByPort<'a> = BTreeMap<RuleBackend, BTreeMap<Option<u16>, BTreeSet<&'a ObjectName>>>;

/// Reports on all policies, and findings that are of none of their ancestors.
pub(super) fn reports(
    objects: &Objects,
    policies: &TlsPolicies<'_>,
    routes: &[RouteState<'_>],
    references: &References<'_>,
) -> (BTreeMap<ObjectName, PolicyReport>, BTreeMap<ObjectRef, Condition>) {
    if policies.is_empty() {
        return Default::default();
    }
    let statuses = TlsPolicyStatuses {
        objects,
        policies,
        reached: reached(objects, routes, references),
    };
    let (mut reports, mut without_status) = (BTreeMap::new(), BTreeMap::new());
    for policy in policies.all() {
        let report = statuses.report(policy);
        let without = if report.ancestors.is_empty() {
            Some(statuses.without_ancestor(policy))
        } else {
            statuses.missing_targets(policy)
        };
        let object = ObjectRef {
            kind: Kind::BackendTlsPolicy,
            name: policy.name.clone(),
        };
        without_status.extend(without.map(|condition| (object, condition)));
        reports.insert(policy.name.clone(), report);
    }
    (reports, without_status)
}

fn reached<'a>(objects: &'a Objects, routes: &'a [RouteState<'_>], references: &References<'_>) -> GatewaysByPort<'a> {
    let mut reached = GatewaysByPort::new();
    for route in routes {
        let Some(refs) = objects.route(&route.object) else {
            continue;
        };
        let referrer = refs.referrer();
        for reference in refs.referenced_backends() {
            let Some((backend, port)) = referred(referrer, reference, references) else {
                continue;
            };
            let gateways = route.attachments.iter().map(|attachment| &attachment.gateway);
            let ports = reached.entry(backend).or_default();
            ports.entry(port).or_default().extend(gateways);
        }
    }
    reached
}

fn referred(
    referrer: Referrer<'_>,
    reference: &BackendRef,
    references: &References<'_>,
) -> Option<(RuleBackend, Option<u16>)> {
    let name = references.granted.permitted_backend(referrer, reference)?;
    match Kind::find(&reference.group, &reference.kind)? {
        Kind::Service => Some((RuleBackend::Service(name), reference.port)),
        Kind::XBackend => Some((RuleBackend::XBackend(name), None)),
        _ => None,
    }
}

struct TlsPolicyStatuses<'p> {
    objects: &'p Objects,
    policies: &'p TlsPolicies<'p>,
    reached: GatewaysByPort<'p>,
}

impl<'p> TlsPolicyStatuses<'p> {
    fn report(&self, policy: &'p TlsPolicy<'p>) -> PolicyReport {
        let targets: Vec<(TlsTarget<'_>, TlsPolicyOutcome<'_>)> = policy
            .targets()
            .flatten()
            .map(|target| {
                let outcome = self.outcome(policy, &target);
                (target, outcome)
            })
            .collect();
        let of_targets: Vec<BTreeSet<&ObjectName>> = targets.iter().map(|(target, _)| self.gateways(target)).collect();
        let mut gateways: BTreeSet<&ObjectName> = of_targets.iter().flatten().copied().collect();
        keep_oldest(self.objects, &mut gateways, MAX_ANCESTORS);
        let ancestors = gateways.into_iter().map(|gateway| {
            let here = targets.iter().zip(&of_targets);
            let here = here.filter(|(_, gateways)| gateways.contains(gateway));
            let here: Vec<&(TlsTarget<'_>, TlsPolicyOutcome<'_>)> = here.map(|(target, _)| target).collect();
            ancestor(gateway, conditions(policy, &here))
        });
        PolicyReport {
            observed_generation: policy.object.meta.generation,
            ancestors: ancestors.collect(),
        }
    }

    fn without_ancestor(&self, policy: &'p TlsPolicy<'p>) -> Condition {
        if let Err(condition) = &policy.content.tls {
            return condition.clone();
        }
        let (existing, missing) = self.targets(policy);
        let mut remarks = remarks(policy, &missing.iter().collect::<Vec<_>>());
        if existing.is_empty() {
            return Condition::fails("Accepted", "TargetNotFound", remarks.to_string());
        }
        for target in &existing {
            remarks.add("no route of a Gateway leads to".to_owned(), target_name(target));
        }
        Condition::fails("Programmed", "NoRoute", remarks.to_string())
    }

    fn missing_targets(&self, policy: &'p TlsPolicy<'p>) -> Option<Condition> {
        let (existing, missing) = self.targets(policy);
        if existing.is_empty() || missing.is_empty() || policy.content.tls.is_err() {
            return None;
        }
        let mut remarks = Remarks::default();
        add_outcomes(&mut remarks, &missing.iter().collect::<Vec<_>>());
        Some(Condition::fails("ResolvedRefs", "TargetNotFound", remarks.to_string()))
    }

    fn targets(&self, policy: &'p TlsPolicy<'p>) -> (Vec<TlsTarget<'p>>, Vec<(TlsTarget<'p>, TlsPolicyOutcome<'p>)>) {
        let targets = policy.targets().flatten();
        let (existing, missing): (Vec<TlsTarget<'_>>, Vec<TlsTarget<'_>>) =
            targets.partition(|target| self.exists(target));
        let missing = missing.into_iter().map(|target| {
            let outcome = self.missing(&target);
            (target, outcome)
        });
        (existing, missing.collect())
    }

    fn outcome(&self, policy: &TlsPolicy<'_>, target: &TlsTarget<'_>) -> TlsPolicyOutcome<'p> {
        if !self.exists(target) {
            return self.missing(target);
        }
        match self.policies.owner(target).filter(|owner| owner.name != policy.name) {
            Some(owner) => TlsPolicyOutcome::Lost(owner.name),
            None => TlsPolicyOutcome::Governs,
        }
    }

    fn missing(&self, target: &TlsTarget<'_>) -> TlsPolicyOutcome<'p> {
        if target.port.is_some() && self.has_backend(target) {
            TlsPolicyOutcome::NoPort
        } else {
            TlsPolicyOutcome::Missing
        }
    }

    fn exists(&self, target: &TlsTarget<'_>) -> bool {
        self.has_backend(target) && (target.port.is_none() || has_port(self.objects, target))
    }

    fn has_backend(&self, target: &TlsTarget<'_>) -> bool {
        match &target.backend {
            RuleBackend::Service(name) => self.objects.services.contains_key(name),
            RuleBackend::XBackend(name) => self.objects.backends.contains_key(name),
        }
    }

    fn port(&self, service: &ObjectName, port: &str) -> Option<&ServicePort> {
        let service = self.objects.services.get(service)?;
        service.spec.ports.iter().find(|known| known.name == port)
    }

    /// The Gateways with a rule that leads to the target; if the target is a port that does not exist, to its Service.
    fn gateways(&self, target: &TlsTarget<'_>) -> BTreeSet<&'p ObjectName> {
        let number = match (&target.backend, target.port) {
            (RuleBackend::Service(name), Some(port)) => self.port(name, port).map(|port| port.port),
            _ => None,
        };
        let ports = self.reached.get(&target.backend).into_iter().flatten();
        let ports = ports.filter(|(port, _)| number.is_none() || **port == number);
        ports.flat_map(|(_, gateways)| gateways).copied().collect()
    }
}

/// `targets`: those that rules of the Gateway lead to.
fn conditions(policy: &TlsPolicy<'_>, targets: &[&(TlsTarget<'_>, TlsPolicyOutcome<'_>)]) -> Vec<Condition> {
    let remarks = remarks(policy, targets);
    let has = |is: fn(&TlsPolicyOutcome<'_>) -> bool| targets.iter().any(|(_, outcome)| is(outcome));
    let governs = has(|outcome| *outcome == TlsPolicyOutcome::Governs);
    let accepted = if let Err(condition) = &policy.content.tls {
        condition.clone()
    } else if governs && remarks.is_empty() {
        Condition::holds("Accepted", "Accepted", "The policy is accepted")
    } else if governs {
        Condition::holds("Accepted", "Accepted", format!("The policy is accepted; {remarks}"))
    } else if has(|outcome| matches!(outcome, TlsPolicyOutcome::Lost(_))) {
        Condition::fails("Accepted", "Conflicted", remarks.to_string())
    } else {
        Condition::fails("Accepted", "TargetNotFound", remarks.to_string())
    };
    let partly = (accepted.is_true() && !remarks.is_empty())
        .then(|| Condition::holds("Programmed", "PartiallyProgrammed", remarks.to_string()));
    let resolved = policy.content.resolved.clone();
    [Some(accepted), resolved, partly].into_iter().flatten().collect()
}

/// Parts of the policy without effect.
fn remarks(policy: &TlsPolicy<'_>, targets: &[&(TlsTarget<'_>, TlsPolicyOutcome<'_>)]) -> Remarks {
    let mut remarks = Remarks::default();
    add_outcomes(&mut remarks, targets);
    for (index, target) in policy.targets().enumerate() {
        if target.is_none() {
            remarks.add_sentence(format!("spec.targetRefs[{index}].kind: expected Service or XBackend"));
        }
    }
    for option in policy.object.spec.options.keys() {
        remarks.add("not supported and ignored".to_owned(), format!("spec.options.{option}"));
    }
    remarks
}

fn add_outcomes(remarks: &mut Remarks, targets: &[&(TlsTarget<'_>, TlsPolicyOutcome<'_>)]) {
    for (target, outcome) in targets {
        let text = match outcome {
            TlsPolicyOutcome::Governs => continue,
            TlsPolicyOutcome::Lost(owner) => format!("BackendTLSPolicy {owner}, which is older, targets the same"),
            TlsPolicyOutcome::Missing => "spec.targetRefs: expected targets that exist, found".to_owned(),
            TlsPolicyOutcome::NoPort => {
                "spec.targetRefs: expected the name of a port (no port without a policy is reached \
                                meanwhile), found"
                    .to_owned()
            }
        };
        remarks.add(text, target_name(target));
    }
}

fn target_name(target: &TlsTarget<'_>) -> String {
    let (kind, name) = match &target.backend {
        RuleBackend::Service(name) => (Kind::Service, name),
        RuleBackend::XBackend(name) => (Kind::XBackend, name),
    };
    match target.port {
        Some(port) => format!("{kind} {name} port {port}"),
        None => format!("{kind} {name}"),
    }
}
