//! The objects that a build of an island needs.

use imbl::OrdMap;
use limpet_api::{Kind, ObjectName, ObjectRef};

use super::links::{IslandLink, IslandMember};
use super::partition::{Island, Partition};
use crate::{Objects, SessionPolicyKind, SessionPolicyName};

/// The members of an island and what they read. `others`: a Gateway of another controller, if any.
pub(super) fn restricted(all: &Objects, partition: &Partition, island: Island, others: Option<&ObjectName>) -> Objects {
    let mut part = Objects {
        gateway_classes: all.gateway_classes.clone(),
        gone_classes: all.gone_classes.clone(),
        authorities: all.authorities.clone(),
        kept_authorities: all.kept_authorities.clone(),
        envoy_deployments: all.envoy_deployments.clone(),
        certificates: all.certificates.clone(),
        kept_certificates: all.kept_certificates.clone(),
        readiness: all.readiness.clone(),
        nodes: all.nodes.clone(),
        namespaces: all.namespaces.clone(),
        memory: all.memory.clone(),
        quarantined: all.quarantined.clone(),
        grants: all.grants.clone(),
        parameters_room: all.parameters_room.clone(),
        ..Objects::default()
    };
    for member in partition.members(island) {
        match &**member {
            IslandMember::Classes => part.reference_grants.clone_from(&all.reference_grants),
            IslandMember::Contour => {
                part.ingress_routes.clone_from(&all.ingress_routes);
                part.certificate_delegations.clone_from(&all.certificate_delegations);
                add_read_by_contour(&mut part, all, partition);
            }
            IslandMember::Object(object) => {
                add(&mut part, all, object);
                if object.kind == Kind::Gateway {
                    for service in backends(partition, member) {
                        copy(&mut part.services, &all.services, service);
                    }
                }
            }
        }
        for link in partition.links_of(member) {
            if let IslandLink::Gateway(name) = link {
                copy(&mut part.gateways, &all.gateways, name);
            }
        }
    }
    if let Some(name) = others {
        copy(&mut part.gateways, &all.gateways, name);
    }
    part
}

fn backends<'p>(partition: &'p Partition, member: &IslandMember) -> impl Iterator<Item = &'p ObjectName> {
    partition.links_of(member).filter_map(|link| match link {
        IslandLink::Backend(name) => Some(name),
        _ => None,
    })
}

fn add_read_by_contour(part: &mut Objects, all: &Objects, partition: &Partition) {
    for link in partition.links_of(&IslandMember::Contour) {
        if let IslandLink::Reached(name) = link {
            copy(&mut part.services, &all.services, name);
        }
        if let IslandLink::Reached(_) | IslandLink::AnyBackend(_) = link {
            for holder in partition.holders(link) {
                if let IslandMember::Object(object) = &**holder
                    && object.kind == Kind::BackendTlsPolicy
                {
                    add(part, all, object);
                }
            }
        }
    }
}

fn add(part: &mut Objects, all: &Objects, object: &ObjectRef) {
    let name = &object.name;
    let policy = |kind| SessionPolicyName {
        kind,
        name: name.clone(),
    };
    match object.kind {
        Kind::HttpRoute => copy(&mut part.http_routes, &all.http_routes, name),
        Kind::GrpcRoute => copy(&mut part.grpc_routes, &all.grpc_routes, name),
        Kind::Service => copy(&mut part.services, &all.services, name),
        Kind::XBackend => copy(&mut part.backends, &all.backends, name),
        Kind::BackendTlsPolicy => copy(&mut part.backend_tls_policies, &all.backend_tls_policies, name),
        Kind::Gateway => copy(&mut part.gateways, &all.gateways, name),
        Kind::BackendLbPolicy => {
            let name = policy(SessionPolicyKind::BackendLbPolicy);
            copy(&mut part.session_policies, &all.session_policies, &name);
        }
        Kind::XBackendTrafficPolicy => {
            let name = policy(SessionPolicyKind::XBackendTrafficPolicy);
            copy(&mut part.session_policies, &all.session_policies, &name);
        }
        _ => {}
    }
}

fn copy<K: Ord + Clone, V: Clone>(to: &mut OrdMap<K, V>, from: &OrdMap<K, V>, key: &K) {
    if let Some(value) = from.get(key) {
        to.insert(key.clone(), value.clone());
    }
}
