//! The differences between two states of the objects. The time depends only on them.

use std::collections::BTreeSet;

use limpet_api::{Kind, ObjectName, ObjectRef};

use super::links::{IslandLink, IslandMember};
use crate::maps::changed;
use crate::{Memory, Objects, SessionPolicyName};

#[derive(Debug, Default)]
pub(super) struct ObjectChanges {
    pub(super) members: BTreeSet<IslandMember>,
    /// What is no member.
    pub(super) links: BTreeSet<IslandLink>,
    pub(super) gateways: BTreeSet<ObjectName>,
}

impl ObjectChanges {
    /// `remembered`: what the build of `before` remembers.
    pub(super) fn between(before: &Objects, after: &Objects, remembered: &Memory) -> Self {
        let mut changes = Self::default();
        macro_rules! of_kind {
            ($map:ident, $kind:expr) => {
                for name in changed(&before.$map, &after.$map) {
                    changes.object($kind, name);
                }
            };
        }
        of_kind!(http_routes, Kind::HttpRoute);
        of_kind!(grpc_routes, Kind::GrpcRoute);
        of_kind!(services, Kind::Service);
        of_kind!(backends, Kind::XBackend);
        of_kind!(backend_tls_policies, Kind::BackendTlsPolicy);
        of_kind!(gateways, Kind::Gateway);
        for SessionPolicyName { kind, name } in changed(&before.session_policies, &after.session_policies) {
            changes.object((*kind).into(), name);
        }
        let gateways = changed(&before.gateways, &after.gateways);
        changes.gateways.extend(gateways.cloned());
        macro_rules! links {
            ($map:ident, $link:expr) => {
                let names = changed(&before.$map, &after.$map);
                changes.links.extend(names.map($link));
            };
        }
        links!(namespaces, |name| IslandLink::Namespace(name.clone()));
        links!(reference_grants, |name| IslandLink::Grants(name.namespace.clone()));
        links!(certificates, |name| IslandLink::Secret(name.clone()));
        links!(kept_certificates, |name| IslandLink::Secret(name.clone()));
        links!(authorities, |name| IslandLink::Authorities(name.clone()));
        links!(kept_authorities, |name| IslandLink::Authorities(name.clone()));
        links!(readiness, |name| IslandLink::Readiness(name.clone()));
        links!(nodes, |_| IslandLink::Nodes);
        links!(envoy_deployments, |_| IslandLink::Deployments);
        if before.reference_grants != after.reference_grants || before.gateway_classes != after.gateway_classes {
            changes.members.insert(IslandMember::Classes);
        }
        if before.ingress_routes != after.ingress_routes
            || before.certificate_delegations != after.certificate_delegations
            // The Services' policies say so, and not the objects here.
            || before.authorities != after.authorities
            || before.kept_authorities != after.kept_authorities
        {
            changes.members.insert(IslandMember::Contour);
        }
        let quarantined = changed(&before.quarantined, &after.quarantined);
        let remembered = before.memory.changed(&after.memory, remembered);
        for object in quarantined.chain(&remembered) {
            if object.kind == Kind::IngressRoute {
                changes.members.insert(IslandMember::Contour);
            } else {
                changes.object(object.kind, &object.name);
            }
        }
        changes
    }

    fn object(&mut self, kind: Kind, name: &ObjectName) {
        let name = name.clone();
        self.members.insert(IslandMember::Object(ObjectRef { kind, name }));
    }
}
