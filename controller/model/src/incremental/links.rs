//! What an object shares with others, or reads of them, by the object itself and not by a result of a build.
//!
//! A link too many costs time. A missing one makes the result wrong: add a link where the build of one object looks at
//! another one.

use limpet_api::{
    BackendTlsPolicySpec, GatewayListener, GatewaySpec, Kind, Meta, Object, ObjectName, ObjectRef, ParentRef, Text,
};

use crate::contour;
use crate::gateways::envoys_service;
use crate::grants::GrantedReferences;
use crate::graph::Hostname;
use crate::references::selector_service;
use crate::routes::{allows, gateway_name};
use crate::session_fields::{ScopeName, SessionScope, scope};
use crate::{Objects, SessionPolicyKind, SessionPolicyName, Settings};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum IslandMember {
    /// Every `GatewayClass` and `ReferenceGrant`, all at once.
    Classes,
    /// `IngressRoute`s, all at once: any may delegate to any, and all share the room for routes.
    Contour,
    Object(ObjectRef),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum IslandLink {
    /// A name that rules lead to and policies target, of whatever kind.
    Backend(ObjectName),
    /// The Service of this name and its policies of TLS, as `IngressRoute`s read them: routes that lead there do not
    /// concern these.
    Reached(ObjectName),
    /// Routes of this name, as targets of policies.
    Route(ObjectName),
    /// A Gateway, as a parent and as a target of policies. It is built before all others.
    Gateway(ObjectName),
    Host(ObjectName, Hostname),
    /// A name that sessions are shared by, in whatever namespace.
    Scope(ScopeName),
    /// Every backend of a namespace, which a policy with an unreadable target may mean.
    AnyBackend(Text),
    /// The labels of a namespace.
    Namespace(Text),
    /// The grants of a namespace.
    Grants(Text),
    Secret(ObjectName),
    Authorities(ObjectName),
    /// Where the pods of a Service are ready.
    Readiness(ObjectName),
    Nodes,
    Deployments,
    /// Whether another controller has Gateways.
    OthersGateways,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkKind {
    /// All members that join or may be joined there are built together.
    Joins,
    /// As [`Self::Joins`], if a member joins.
    MayBeJoined,
    /// It is built again if a member changes that joins, but not joined itself.
    Reads,
}

/// In order, each link once.
pub(super) type IslandLinks = Vec<(IslandLink, LinkKind)>;

/// `None` if the member does not exist. What a route may not refer or attach to joins nothing, because any route may
/// name it; so its links change with grants, labels of namespaces and its Gateways.
pub(super) fn links(
    member: &IslandMember,
    objects: &Objects,
    settings: &Settings,
    references: &GrantedReferences<'_>,
) -> Option<IslandLinks> {
    let mut links = match member {
        IslandMember::Classes => vec![(IslandLink::Deployments, LinkKind::Reads)],
        IslandMember::Contour => of_contour(objects, settings)?,
        IslandMember::Object(object) => of_object(object, objects, settings, references)?,
    };
    // Its former sessions may be built in its place.
    if let IslandMember::Object(object) = member
        && let Some(former) = objects.with_former(object)
    {
        links.extend(of_object(object, &former, settings, references).unwrap_or_default());
    }
    // The strongest hold of a link comes first.
    links.sort_unstable();
    links.dedup_by(|next, kept| next.0 == kept.0);
    Some(links)
}

fn of_object(
    object: &ObjectRef,
    objects: &Objects,
    settings: &Settings,
    references: &GrantedReferences<'_>,
) -> Option<IslandLinks> {
    let name = &object.name;
    Some(match object.kind {
        Kind::HttpRoute => {
            let hostnames = &objects.http_routes.get(name)?.spec.hostnames;
            of_route(object, hostnames, objects, settings, references)?
        }
        Kind::GrpcRoute => {
            let hostnames = &objects.grpc_routes.get(name)?.spec.hostnames;
            of_route(object, hostnames, objects, settings, references)?
        }
        Kind::Service => {
            objects.services.get(name)?;
            let reached = settings.contour.is_some().then(|| IslandLink::Reached(name.clone()));
            let links = [IslandLink::Backend(name.clone())].into_iter().chain(reached);
            links.map(|link| (link, LinkKind::Joins)).collect()
        }
        Kind::XBackend => {
            objects.backends.get(name)?;
            let own = IslandLink::Backend(name.clone());
            let made = IslandLink::Backend(selector_service(name));
            vec![(own, LinkKind::Joins), (made, LinkKind::Joins)]
        }
        Kind::BackendLbPolicy => of_policy(SessionPolicyKind::BackendLbPolicy, name, objects)?,
        Kind::XBackendTrafficPolicy => of_policy(SessionPolicyKind::XBackendTrafficPolicy, name, objects)?,
        Kind::BackendTlsPolicy => of_tls_policy(name, &objects.backend_tls_policies.get(name)?.spec, settings),
        Kind::Gateway => of_gateway(objects.gateways.get(name)?, objects, settings),
        _ => return None,
    })
}

fn of_route(
    route: &ObjectRef,
    hostnames: &[String],
    objects: &Objects,
    settings: &Settings,
    permitted: &GrantedReferences<'_>,
) -> Option<IslandLinks> {
    let references = objects.route(route)?;
    let namespace = &route.name.namespace;
    let mut links = vec![
        (IslandLink::Route(route.name.clone()), LinkKind::MayBeJoined),
        (IslandLink::Namespace(namespace.clone()), LinkKind::Reads),
    ];
    let by_default = match &settings.session_defaults.scope {
        Some(SessionScope::Name(name)) => Some(name.clone()),
        _ => None,
    };
    let scopes = by_default.into_iter().chain(scope_name(references.meta));
    links.extend(scopes.map(|name| (IslandLink::Scope(name), LinkKind::Joins)));
    for parent in references.parents {
        match gateway_name(namespace, parent) {
            Some(name) => {
                if let Some(gateway) = objects.gateways.get(&name) {
                    let is_allowed = |listener: &_| allows(listener, &name.namespace, namespace, objects);
                    links.extend(hosts(&name, gateway, parent, hostnames, is_allowed));
                }
                links.push((IslandLink::Gateway(name), LinkKind::Reads));
            }
            None => links.push((IslandLink::OthersGateways, LinkKind::Reads)),
        }
    }
    let from = references.referrer();
    for backend in references.referenced_backends() {
        let of = backend.namespace.as_deref().unwrap_or(namespace);
        if let Some(name) = permitted.permitted_backend(from, backend) {
            links.push((IslandLink::Backend(name), LinkKind::Joins));
            links.push((IslandLink::AnyBackend(of.into()), LinkKind::MayBeJoined));
        }
        if of != namespace {
            links.push((IslandLink::Grants(of.into()), LinkKind::Reads));
        }
    }
    Some(links)
}

/// `is_allowed`: whether the route may attach to a listener.
fn hosts<'a>(
    name: &'a ObjectName,
    gateway: &'a Object<GatewaySpec>,
    parent: &'a ParentRef,
    hostnames: &'a [String],
    is_allowed: impl Fn(&GatewayListener) -> bool + 'a,
) -> impl Iterator<Item = (IslandLink, LinkKind)> + 'a {
    let listeners = gateway.spec.listeners.iter();
    let named = listeners.filter(move |listener| {
        parent.section_name.as_ref().is_none_or(|name| *name == listener.name)
            && parent.port.is_none_or(|port| port == listener.port)
            && is_allowed(listener)
    });
    named.flat_map(move |listener| {
        let of_listener = Hostname::parse(listener.hostname.as_deref());
        let all = hostnames.is_empty().then(|| of_listener.clone());
        let of_both = hostnames
            .iter()
            .filter_map(move |hostname| of_listener.intersection(&Hostname::parse(Some(hostname))));
        let link = move |hostname| (IslandLink::Host(name.clone(), hostname), LinkKind::Joins);
        all.into_iter().chain(of_both).map(link)
    })
}

fn scope_name(meta: &Meta) -> Option<ScopeName> {
    let text = meta.annotations.get("session.limpet.dev/scope")?;
    match scope(text) {
        Ok(SessionScope::Name(name)) => Some(name),
        _ => None,
    }
}

fn of_policy(kind: SessionPolicyKind, policy: &ObjectName, objects: &Objects) -> Option<IslandLinks> {
    let name = policy.clone();
    let object = objects.session_policies.get(&SessionPolicyName { kind, name })?;
    let mut links: IslandLinks = scope_name(&object.meta)
        .map(|name| (IslandLink::Scope(name), LinkKind::Joins))
        .into_iter()
        .collect();
    for target in &object.spec.target_refs {
        let name = ObjectName::new(&policy.namespace, &target.name);
        // Policies apply to neither, but say so where they target one.
        if target.kind == Kind::Gateway.as_str() {
            links.push((IslandLink::Gateway(name.clone()), LinkKind::Reads));
        } else if [Kind::HttpRoute, Kind::GrpcRoute]
            .iter()
            .any(|kind| target.kind == kind.as_str())
        {
            links.push((IslandLink::Route(name.clone()), LinkKind::Joins));
        }
        links.push((IslandLink::Backend(name), LinkKind::Joins));
    }
    Some(links)
}

fn of_tls_policy(policy: &ObjectName, spec: &BackendTlsPolicySpec, settings: &Settings) -> IslandLinks {
    let namespace = &policy.namespace;
    let targets = spec.target_refs.iter().map(|target| &target.name);
    let targets = targets.chain(spec.unclear_targets.iter().flatten());
    let targets = targets.flat_map(|name| {
        let name = ObjectName::new(namespace, name);
        let reached = settings.contour.is_some().then(|| IslandLink::Reached(name.clone()));
        reached.into_iter().chain([IslandLink::Backend(name)])
    });
    let targets = targets.map(|link| (link, LinkKind::Joins));
    let unreadable = spec.unclear_targets.contains(&None);
    let unreadable = unreadable.then(|| (IslandLink::AnyBackend(namespace.clone()), LinkKind::Joins));
    let authorities = spec.validation.ca_certificate_refs.iter();
    let authorities = authorities.map(|reference| {
        let name = ObjectName::new(namespace, &reference.name);
        (IslandLink::Authorities(name), LinkKind::Reads)
    });
    targets.chain(unreadable).chain(authorities).collect()
}

fn of_gateway(gateway: &Object<GatewaySpec>, objects: &Objects, settings: &Settings) -> IslandLinks {
    let namespace = &gateway.meta.namespace;
    let mut links = vec![(IslandLink::Deployments, LinkKind::Reads)];
    let tls = gateway
        .spec
        .listeners
        .iter()
        .filter_map(|listener| listener.tls.as_ref());
    for reference in tls.flat_map(|tls| &tls.certificate_refs) {
        let of = reference.namespace.as_deref().unwrap_or(namespace);
        links.push((
            IslandLink::Secret(ObjectName::new(of, &reference.name)),
            LinkKind::Reads,
        ));
        if of != namespace {
            links.push((IslandLink::Grants(of.into()), LinkKind::Reads));
        }
    }
    if let Some(service) = envoys_service(gateway, objects, settings) {
        links.push((IslandLink::Readiness(service.clone()), LinkKind::Reads));
        links.push((IslandLink::Backend(service), LinkKind::Reads));
        links.push((IslandLink::Nodes, LinkKind::Reads));
    }
    links
}

fn of_contour(objects: &Objects, settings: &Settings) -> Option<IslandLinks> {
    let contour = settings.contour.as_ref()?;
    let mut links = vec![(IslandLink::Gateway(contour.gateway.clone()), LinkKind::Reads)];
    for (name, route) in contour::ours(objects, contour) {
        for service in route.spec.routes.iter().flat_map(|route| &route.services) {
            let service = ObjectName::new(&name.namespace, &service.name);
            links.push((IslandLink::Reached(service), LinkKind::Reads));
            links.push((IslandLink::AnyBackend(name.namespace.clone()), LinkKind::Reads));
        }
    }
    let secrets = contour::contour_secrets(objects, contour).into_iter();
    links.extend(secrets.map(|(_, secret)| (IslandLink::Secret(secret), LinkKind::Reads)));
    Some(links)
}
