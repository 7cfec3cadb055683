use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::shape::{DesiredStatus, GatewayStatus, StatusDetails, StatusEntry, merge};
use crate::cluster::kube::{StatusDigest, status_digest};
use crate::cluster::reconcile::manifests::NO_RESOURCES;
use crate::cluster::reconcile::services::RefusedServices;
use limpet_api::{Kind, ObjectName, ParentRef};
use limpet_model::reports::{Condition, PolicyReport, RouteReport};
use limpet_model::{Map, Reports};
use limpet_resources::changes;

/// With the digests of our parts; `None`: unknown, so the status stays.
pub(crate) type DesiredStatuses = BTreeMap<Kind, BTreeMap<ObjectName, Option<(StatusDigest, DesiredStatus)>>>;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StatusFacts {
    /// The `controllerName` of our entries.
    pub(crate) controller: String,
    pub(crate) programmed: BTreeMap<ObjectName, Condition>,
    /// `XBackend`s whose Service may not be written.
    pub(crate) without_service: RefusedServices,
    /// The `ClusterRole` for these Services.
    pub(crate) services_role: String,
    /// Gateways whose Envoys cannot be kept as wanted.
    pub(crate) without_envoys: BTreeMap<ObjectName, Condition>,
    /// Why Gateways have former Envoys.
    pub(crate) stuck: BTreeMap<ObjectName, String>,
}

/// The reason of an `XBackend` whose Service may not be written.
pub(super) const SERVICE_REFUSED: &str = "ServiceRefused";

impl StatusFacts {
    fn changed_gateways(&self, before: &Self) -> BTreeSet<ObjectName> {
        let mut changed = differing(&before.programmed, &self.programmed);
        changed.extend(differing(&before.without_envoys, &self.without_envoys));
        changed
    }
}

fn differing<V: PartialEq>(before: &BTreeMap<ObjectName, V>, now: &BTreeMap<ObjectName, V>) -> BTreeSet<ObjectName> {
    let names = before.keys().chain(now.keys());
    names
        .filter(|name| before.get(*name) != now.get(*name))
        .cloned()
        .collect()
}

/// Updates statuses that were made of `before`. Returns the changed ones.
pub(crate) fn catch_up(
    desired: &mut DesiredStatuses,
    (before, facts_before): (&Reports, &StatusFacts),
    (reports, facts): (&Reports, &StatusFacts),
) -> BTreeSet<(Kind, ObjectName)> {
    let gateways = facts.changed_gateways(facts_before);
    let services = differing(&facts_before.without_service, &facts.without_service);
    let of_gateways = |name: &ObjectName, report: &PolicyReport| {
        let mut ancestors = report.ancestors.iter();
        ancestors.any(|ancestor| gateways.contains(&gateway_of(&ancestor.ancestor_ref, name)))
    };
    let mut changed = BTreeSet::new();
    let mut set = |kind: Kind, name: &ObjectName, wanted: Option<Option<DesiredStatus>>| {
        set(desired, kind, name, wanted, &facts.controller);
        changed.insert((kind, name.clone()));
    };
    for (name, _, report) in changes(&before.gateway_classes, &reports.gateway_classes) {
        let wanted = report.map(|report| DesiredStatus::Whole {
            generation: report.observed_generation,
            conditions: report.conditions.clone(),
            rest: StatusDetails::Class,
        });
        set(Kind::GatewayClass, &ObjectName::new("", name), wanted.map(Some));
    }
    let others = reports.gateways.iter().filter(|(name, _)| gateways.contains(*name));
    for (name, report) in changed_or(&before.gateways, &reports.gateways, others) {
        set(Kind::Gateway, name, report.map(|_| gateway(reports, name, facts)));
    }
    for (kind, before, after) in [
        (Kind::HttpRoute, &before.http_routes, &reports.http_routes),
        (Kind::GrpcRoute, &before.grpc_routes, &reports.grpc_routes),
    ] {
        for (name, _, report) in changes(before, after) {
            set(kind, name, report.map(|report| Some(route(report))));
        }
    }
    let all = reports.session_policies.iter();
    let others = all.filter(|(name, report)| of_gateways(&name.name, report));
    for (name, report) in changed_or(&before.session_policies, &reports.session_policies, others) {
        let wanted = report.map(|report| policy(&name.name, report, facts));
        set(name.kind.into(), &name.name, wanted);
    }
    let all = reports.backends.iter();
    let others = all.filter(|(name, report)| services.contains(*name) || of_gateways(name, report));
    for (name, report) in changed_or(&before.backends, &reports.backends, others) {
        set(Kind::XBackend, name, report.map(|report| backend(name, report, facts)));
    }
    let all = reports.backend_tls_policies.iter();
    let others = all.filter(|(name, report)| of_gateways(name, report));
    for (name, report) in changed_or(&before.backend_tls_policies, &reports.backend_tls_policies, others) {
        let wanted = report.map(|report| policy(name, report, facts));
        set(Kind::BackendTlsPolicy, name, wanted);
    }
    for (name, _, report) in changes(&before.ingress_routes, &reports.ingress_routes) {
        let wanted = report.map(|report| DesiredStatus::Contour {
            status: report.status,
            description: Arc::clone(&report.description),
            notes: report.notes.clone(),
        });
        set(Kind::IngressRoute, name, wanted.map(Some));
    }
    changed
}

/// Sets a status. `None`: the object is gone; `Some(None)`: not known yet.
#[expect(clippy::option_option, reason = "gone, and not known")]
fn set(
    desired: &mut DesiredStatuses,
    kind: Kind,
    name: &ObjectName,
    wanted: Option<Option<DesiredStatus>>,
    controller: &str,
) {
    let digested = |wanted: DesiredStatus| {
        let alone = merge(kind, &serde_json::Value::Null, &wanted, controller, "");
        Some(Some((status_digest(kind, &alone, controller)?, wanted)))
    };
    let of_kind = desired.entry(kind).or_default();
    match wanted.and_then(|wanted| wanted.map_or(Some(None), digested)) {
        Some(wanted) => drop(of_kind.insert(name.clone(), wanted)),
        None => drop(of_kind.remove(name)),
    }
}

/// Present entries that differ, and `others`.
fn changed_or<'m, N: Ord + Clone, V: PartialEq>(
    before: &'m Map<N, V>,
    now: &'m Map<N, V>,
    others: impl Iterator<Item = (&'m N, &'m Arc<V>)>,
) -> BTreeMap<&'m N, Option<&'m Arc<V>>> {
    let changed = changes(before, now).map(|(name, _, now)| (name, now));
    changed.chain(others.map(|(name, now)| (name, Some(now)))).collect()
}

fn gateway_of(reference: &ParentRef, object: &ObjectName) -> ObjectName {
    let namespace = reference.namespace.as_deref().unwrap_or(&object.namespace);
    ObjectName::new(namespace, &reference.name)
}

fn gateway(reports: &Reports, name: &ObjectName, facts: &StatusFacts) -> Option<DesiredStatus> {
    let report = reports.gateways.get(name)?;
    let programmed = facts.programmed.get(name)?;
    let is_bad = |condition: &Condition| condition.kind == "Accepted" && !condition.is_true();
    let is_refused = report.conditions.iter().any(is_bad);
    let with_programmed = |conditions: &[Condition], programmed: &Condition, bad: bool| {
        let mut all = conditions.to_vec();
        if all.iter().all(|condition| condition.kind != "Programmed") {
            let why = if is_refused || all.iter().any(is_bad) {
                "It is not accepted, so it is not served"
            } else {
                "Its other conditions say why it is not served"
            };
            let refused = || Condition::fails("Programmed", "Invalid", why);
            all.push(if bad { refused() } else { programmed.clone() });
        }
        all
    };
    let mut listeners = report.listeners.clone();
    for listener in &mut listeners {
        // Envoys do not serve a valid listener of a Gateway that is not accepted.
        let bad = is_refused || !listener.serves();
        listener.conditions = with_programmed(&listener.conditions, programmed, bad);
    }
    // Refusals come first: they may be the reason why no Envoy is ready.
    let unready = report.unready.as_ref().filter(|_| programmed.is_true());
    let mut conditions = with_programmed(&report.conditions, unready.unwrap_or(programmed), is_refused);
    // It explains a missing address, or that no Envoy is connected. Pods are checked now and then, so a ready Envoy
    // came later.
    let is_without = |without: &&Condition| without.reason != NO_RESOURCES || is_without_envoys(&conditions);
    let without = facts.without_envoys.get(name).filter(|_| !is_refused);
    if let Some(without) = without.filter(is_without) {
        conditions.retain(|condition| condition.kind != without.kind);
        conditions.push(without.clone());
    }
    Some(DesiredStatus::Whole {
        generation: report.observed_generation,
        conditions,
        rest: StatusDetails::Gateway(GatewayStatus {
            addresses: report.addresses.clone(),
            listeners,
        }),
    })
}

/// Whether it waits for Envoys, or for the address that comes with them.
fn is_without_envoys(conditions: &[Condition]) -> bool {
    let mut programmed = conditions.iter().filter(|condition| condition.kind == "Programmed");
    programmed.any(|condition| ["Pending", "AddressNotAssigned"].contains(&condition.reason))
}

fn route(report: &RouteReport) -> DesiredStatus {
    let entry = |parent: &limpet_model::reports::ParentReport| StatusEntry {
        reference: parent.parent_ref.clone(),
        generation: report.observed_generation,
        conditions: parent.conditions.clone(),
    };
    DesiredStatus::Entries(report.parents.iter().map(entry).collect())
}

/// A policy is programmed if its Gateway is.
fn policy(name: &ObjectName, report: &PolicyReport, facts: &StatusFacts) -> Option<DesiredStatus> {
    let entry = |ancestor: &limpet_model::reports::AncestorReport| {
        let mut conditions = ancestor.conditions.clone();
        let reference = &ancestor.ancestor_ref;
        let accepted = conditions
            .iter()
            .any(|known| known.kind == "Accepted" && known.is_true());
        let known = conditions.iter().position(|known| known.kind == "Programmed");
        if accepted && reference.kind == "Gateway" {
            let of_gateway = facts.programmed.get(&gateway_of(reference, name))?;
            match known.and_then(|known| conditions.get_mut(known)) {
                // A policy is not partially programmed without its Gateway.
                Some(known) if known.is_true() && !of_gateway.is_true() => *known = of_gateway.clone(),
                Some(_) => {}
                None => conditions.push(of_gateway.clone()),
            }
        }
        Some(StatusEntry {
            reference: reference.clone(),
            generation: report.observed_generation,
            conditions,
        })
    };
    let entries: Option<Vec<StatusEntry>> = report.ancestors.iter().map(entry).collect();
    entries.map(DesiredStatus::Entries)
}

/// An `XBackend` is not programmed without its Service.
fn backend(name: &ObjectName, report: &PolicyReport, facts: &StatusFacts) -> Option<DesiredStatus> {
    let mut wanted = policy(name, report, facts)?;
    if let (Some(words), DesiredStatus::Entries(entries)) = (facts.without_service.get(name), &mut wanted) {
        let message = format!(
            "Its Service is missing or out of date, because the controller may not write it: {words}. Bind the \
             ClusterRole {} in this namespace, or add it to the chart's xbackends.namespaces",
            facts.services_role
        );
        for StatusEntry { conditions, .. } in entries {
            conditions.retain(|condition| condition.kind != "Programmed");
            conditions.push(Condition::fails("Programmed", SERVICE_REFUSED, &*message));
        }
    }
    Some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    use limpet_model::reports::{AncestorReport, GatewayReport, ListenerReport};
    use limpet_model::{SessionPolicyKind, SessionPolicyName};

    /// With a valid listener.
    fn wanted(accepted: Condition) -> (Vec<Condition>, Vec<Condition>) {
        let acknowledged = Condition::holds("Programmed", "Programmed", "");
        wanted_if(accepted, None, acknowledged)
    }

    /// With acknowledgements, and why Envoys are not ready.
    fn wanted_if(
        accepted: Condition,
        unready: Option<Condition>,
        programmed: Condition,
    ) -> (Vec<Condition>, Vec<Condition>) {
        let listener = ListenerReport {
            conditions: vec![Condition::holds("Accepted", "Accepted", "")],
            ..ListenerReport::default()
        };
        let report = GatewayReport {
            conditions: vec![accepted],
            listeners: vec![listener],
            unready,
            ..GatewayReport::default()
        };
        wanted_of(report, programmed)
    }

    /// Of an accepted Gateway.
    fn wanted_with(listener: ListenerReport) -> (Vec<Condition>, Vec<Condition>) {
        let report = GatewayReport {
            conditions: vec![Condition::holds("Accepted", "Accepted", "")],
            listeners: vec![listener],
            ..GatewayReport::default()
        };
        wanted_of(report, Condition::holds("Programmed", "Programmed", ""))
    }

    fn wanted_of(report: GatewayReport, programmed: Condition) -> (Vec<Condition>, Vec<Condition>) {
        let name = ObjectName::new("shop", "web");
        let reports = Reports {
            gateways: Map::unit(name.clone(), report.into()),
            ..Reports::default()
        };
        let facts = StatusFacts {
            programmed: BTreeMap::from([(name.clone(), programmed)]),
            ..StatusFacts::default()
        };
        let Some(DesiredStatus::Whole {
            conditions,
            rest: StatusDetails::Gateway(mut gateway),
            ..
        }) = gateway(&reports, &name, &facts)
        else {
            panic!("a status");
        };
        (conditions, gateway.listeners.remove(0).conditions)
    }

    #[test]
    fn a_gateway_is_programmed_unless_its_report_says_otherwise() {
        let programmed = |conditions: &[Condition]| {
            let mut all = conditions.iter();
            all.find(|condition| condition.kind == "Programmed")
                .map(|condition| (condition.is_true(), condition.reason))
        };
        let (gateway, listener) = wanted(Condition::fails("Accepted", "Invalid", ""));
        assert_eq!(programmed(&gateway), Some((false, "Invalid")));
        assert_eq!(programmed(&listener), Some((false, "Invalid")));
        let (gateway, listener) = wanted(Condition::fails("Programmed", "AddressNotUsable", ""));
        assert_eq!(programmed(&gateway), Some((false, "AddressNotUsable")));
        assert_eq!(programmed(&listener), Some((true, "Programmed")), "it serves");
        let (gateway, listener) = wanted(Condition::holds("Accepted", "Accepted", ""));
        assert_eq!(programmed(&gateway), Some((true, "Programmed")));
        assert_eq!(programmed(&listener), Some((true, "Programmed")));
    }

    #[test]
    fn a_listener_with_its_last_valid_certificate_is_programmed() {
        let resolved = Condition::fails("ResolvedRefs", "InvalidCertificateRef", "");
        let mut listener = ListenerReport {
            conditions: vec![Condition::holds("Accepted", "Accepted", ""), resolved],
            ..ListenerReport::default()
        };
        for keeps_certificate in [false, true] {
            listener.keeps_certificate = keeps_certificate;
            let (_, conditions) = wanted_with(listener.clone());
            let programmed = conditions.iter().find(|condition| condition.kind == "Programmed");
            assert_eq!(programmed.map(Condition::is_true), Some(keeps_certificate));
        }
    }

    #[test]
    fn what_envoys_refuse_is_told_rather_than_that_none_is_ready() {
        let unready = || Some(Condition::fails("Programmed", "Pending", "none is ready"));
        let accepted = || Condition::holds("Accepted", "Accepted", "");
        let acknowledged = Condition::holds("Programmed", "Programmed", "");
        let (gateway, listener) = wanted_if(accepted(), unready(), acknowledged.clone());
        assert_eq!(gateway[1..], [unready().expect("one")]);
        assert_eq!(listener[1..], [acknowledged], "the Envoys that are there have it");
        let refused = Condition::fails("Programmed", "Invalid", "a port");
        let (gateway, _) = wanted_if(accepted(), unready(), refused.clone());
        assert_eq!(gateway[1..], [refused]);
    }

    #[test]
    fn pods_that_do_not_come_up_are_told_while_no_envoy_serves() {
        let name = ObjectName::new("shop", "web");
        let of = |programmed: Condition| {
            let report = GatewayReport {
                conditions: vec![Condition::holds("Accepted", "Accepted", "")],
                ..GatewayReport::default()
            };
            let reports = Reports {
                gateways: Map::unit(name.clone(), report.into()),
                ..Reports::default()
            };
            let without = Condition::fails("Programmed", NO_RESOURCES, "no node");
            let facts = StatusFacts {
                programmed: BTreeMap::from([(name.clone(), programmed)]),
                without_envoys: BTreeMap::from([(name.clone(), without)]),
                ..StatusFacts::default()
            };
            match gateway(&reports, &name, &facts) {
                Some(DesiredStatus::Whole { mut conditions, .. }) => conditions.pop().expect("one").reason,
                _ => panic!("a status"),
            }
        };
        assert_eq!(of(Condition::fails("Programmed", "Pending", "")), NO_RESOURCES);
        assert_eq!(of(Condition::fails("Programmed", "Invalid", "")), "Invalid");
        assert_eq!(of(Condition::holds("Programmed", "Programmed", "")), "Programmed");
    }

    /// With only this Gateway's rules.
    fn of_gateway(name: &str) -> PolicyReport {
        let ancestor_ref = ParentRef {
            kind: "Gateway".to_owned(),
            name: name.to_owned(),
            ..ParentRef::default()
        };
        PolicyReport {
            ancestors: vec![AncestorReport {
                ancestor_ref,
                conditions: vec![Condition::holds("Accepted", "Accepted", "")],
            }],
            ..PolicyReport::default()
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of Gateways")]
    fn what_one_gateway_acknowledged_made_the_statuses_of_all_again() {
        const GATEWAYS: [&str; 3] = ["a", "b", "c"];
        let name = |name: &str| ObjectName::new("shop", name);
        let session_policy = |name: &str| SessionPolicyName {
            kind: SessionPolicyKind::BackendLbPolicy,
            name: ObjectName::new("shop", name),
        };
        let report = |gateway: &str| Arc::new(of_gateway(gateway));
        let reports = Reports {
            gateways: GATEWAYS
                .map(|gateway| (name(gateway), Arc::default()))
                .into_iter()
                .collect(),
            http_routes: GATEWAYS
                .map(|route| (name(route), Arc::default()))
                .into_iter()
                .collect(),
            session_policies: GATEWAYS
                .map(|of| (session_policy(of), report(of)))
                .into_iter()
                .collect(),
            backends: GATEWAYS.map(|of| (name(of), report(of))).into_iter().collect(),
            backend_tls_policies: GATEWAYS.map(|of| (name(of), report(of))).into_iter().collect(),
            ..Reports::default()
        };
        let mut facts = StatusFacts {
            programmed: GATEWAYS
                .map(|gateway| (name(gateway), Condition::fails("Programmed", "Pending", "")))
                .into(),
            ..StatusFacts::default()
        };
        let mut desired = DesiredStatuses::new();
        let nothing = (&Reports::default(), &StatusFacts::default());
        assert_eq!(
            catch_up(&mut desired, nothing, (&reports, &facts)).len(),
            5 * GATEWAYS.len()
        );
        let mut after = |change: &dyn Fn(&mut StatusFacts)| {
            let before = facts.clone();
            change(&mut facts);
            let changed = catch_up(&mut desired, (&reports, &before), (&reports, &facts));
            let mut fresh = DesiredStatuses::new();
            catch_up(&mut fresh, nothing, (&reports, &facts));
            let digests = |desired: &DesiredStatuses| {
                let all = desired.iter().flat_map(|(kind, of_kind)| {
                    of_kind
                        .iter()
                        .map(move |(name, of)| (*kind, name.clone(), of.as_ref().map(|(digest, _)| *digest)))
                });
                all.collect::<Vec<_>>()
            };
            assert!(digests(&desired) == digests(&fresh), "{changed:?}");
            changed
                .into_iter()
                .map(|(kind, name)| format!("{kind} {}", name.name))
                .collect::<Vec<_>>()
        };
        let of_b = ["Gateway b", "XBackend b", "BackendTLSPolicy b", "BackendLBPolicy b"];
        let is_of_b = |changed: Vec<String>| {
            assert_eq!(changed.iter().map(String::as_str).collect::<BTreeSet<_>>(), of_b.into());
        };
        let programmed = || Condition::holds("Programmed", "Programmed", "");
        is_of_b(after(&|facts| drop(facts.programmed.insert(name("b"), programmed()))));
        is_of_b(after(&|facts| drop(facts.programmed.remove(&name("b")))));
        is_of_b(after(&|facts| {
            let pending = Condition::fails("Programmed", "x", "");
            facts.without_envoys.insert(name("b"), pending);
        }));
        assert_eq!(
            after(&|facts| drop(facts.without_service.insert(name("c"), "no".to_owned()))),
            ["XBackend c"]
        );
        assert_eq!(
            after(&|facts| drop(facts.stuck.insert(name("c"), "no".to_owned()))),
            [""; 0]
        );
    }

    #[test]
    fn an_xbackend_without_its_service_says_which_role_is_missing() {
        let name = ObjectName::new("shop", "blue");
        let report = of_gateway("web");
        let gateway = ObjectName::new("shop", "web");
        let programmed = Condition::holds("Programmed", "Programmed", "");
        let mut facts = StatusFacts {
            programmed: BTreeMap::from([(gateway, programmed.clone())]),
            services_role: "limpet-xbackends:limpet-system".to_owned(),
            ..StatusFacts::default()
        };
        let conditions = |facts: &StatusFacts| {
            let Some(DesiredStatus::Entries(mut entries)) = backend(&name, &report, facts) else {
                panic!("a status");
            };
            entries.remove(0).conditions
        };
        assert_eq!(conditions(&facts)[1], programmed);
        facts.without_service = [(name.clone(), "services is forbidden".to_owned())].into();
        let found = conditions(&facts);
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].kind, found[1].reason), ("Programmed", SERVICE_REFUSED));
        assert!(
            found[1].message.contains(
                "services is forbidden. Bind the ClusterRole limpet-xbackends:limpet-system in this namespace"
            )
        );
    }
}
