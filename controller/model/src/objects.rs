use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use imbl::OrdMap;
use serde::Serialize;

use super::certificate::{Authorities, Certificate};
use super::endpoints::Readiness;
use super::grant_index::GrantIndex;
use super::maps::{Map, changed};
use super::memory::Memory;
use super::parameters_room::ParametersRoom;
use limpet_api::{
    BackendRef, BackendTlsPolicySpec, CertificateDelegationSpec, DecodeError, EnvoyDeploymentSpec, GatewayClassSpec,
    GatewaySpec, GrpcRouteSpec, HttpRouteSpec, IngressRouteSpec, Kind, Meta, Object, ObjectName, ObjectRef, ParentRef,
    ReferenceGrantSpec, RouteFilter, ServiceSpec, SessionPolicySpec, Text, XBackendSpec,
};

/// The objects that a graph is built from, from an API server or files. A copy costs nothing.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// By name.
    pub gateway_classes: Map<Text, Object<GatewayClassSpec>>,
    /// Classes that are gone, and are kept because Gateways name them.
    pub gone_classes: BTreeSet<Text>,
    /// `Gateway`.
    pub gateways: Map<ObjectName, Object<GatewaySpec>>,
    /// `HTTPRoute`.
    pub http_routes: Map<ObjectName, Object<HttpRouteSpec>>,
    /// `GRPCRoute`.
    pub grpc_routes: Map<ObjectName, Object<GrpcRouteSpec>>,
    /// `ReferenceGrant`.
    pub reference_grants: Map<ObjectName, Object<ReferenceGrantSpec>>,
    /// `Service`.
    pub services: Map<ObjectName, Object<ServiceSpec>>,
    /// Session policies of both kinds.
    pub session_policies: Map<SessionPolicyName, Object<SessionPolicySpec>>,
    /// `XBackend`.
    pub backends: Map<ObjectName, Object<XBackendSpec>>,
    /// `BackendTLSPolicy`.
    pub backend_tls_policies: Map<ObjectName, Object<BackendTlsPolicySpec>>,
    /// `ConfigMap`s that such policies name: the certificates of authorities in them, or why there are none.
    pub authorities: OrdMap<ObjectName, Result<Authorities, String>>,
    /// Authorities known from before: why they cannot be read now.
    pub kept_authorities: OrdMap<ObjectName, String>,
    /// `EnvoyDeployment`.
    pub envoy_deployments: Map<ObjectName, Object<EnvoyDeploymentSpec>>,
    /// `IngressRoute`.
    pub ingress_routes: Map<ObjectName, Object<IngressRouteSpec>>,
    /// `TLSCertificateDelegation`.
    pub certificate_delegations: Map<ObjectName, Object<CertificateDelegationSpec>>,
    /// Secrets that listeners and `IngressRoute`s name: their certificates, or why they are not valid.
    pub certificates: OrdMap<ObjectName, Result<Certificate, String>>,
    /// Certificates known from before: why they cannot be read now.
    pub kept_certificates: OrdMap<ObjectName, String>,
    /// Where the pods of each Service that leads to Envoys are ready. A Service that is missing was not looked at yet.
    pub readiness: OrdMap<ObjectName, Readiness>,
    /// The IP addresses of the nodes with Envoys of a node port, or why they are not known.
    pub nodes: OrdMap<ObjectName, Result<Vec<String>, String>>,
    /// Namespaces with their labels.
    pub namespaces: OrdMap<Text, BTreeMap<String, String>>,
    /// What is remembered of the objects.
    pub memory: Memory,
    /// Routes that Envoys refused.
    pub quarantined: OrdMap<ObjectRef, Quarantined>,
    /// Objects whose former sessions count, because the present ones cannot be followed. A build finds them out.
    pub(crate) stand_ins: BTreeMap<ObjectRef, StandIn>,
    /// What all grants permit, where `reference_grants` are not all.
    pub(crate) grants: Option<Arc<GrantIndex>>,
    pub(crate) parameters_room: Option<Arc<ParametersRoom>>,
}

/// A route that Envoys refused, although it passed all checks here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// Its `metadata.generation`.
    pub generation: i64,
    /// Envoy's error message.
    pub words: String,
    /// What becomes of its requests.
    pub serves: RouteReplacement,
}

/// What is served in place of a route that Envoys refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RouteReplacement {
    /// A former version of the route, which is among the objects under its name.
    Former,
    /// Its matches, with status 500.
    Status500,
    /// Nothing, because Envoys also refused its matches. Its hosts stay its own.
    Nothing,
}

/// The fault of an object whose former sessions stay in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandIn {
    /// The `metadata.generation` of what stays in effect; `None`: it had no sessions.
    pub generation: Option<i64>,
    /// The problems, each with its field's path.
    pub problems: String,
}

impl fmt::Display for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, problems } = self;
        write!(f, "{problems}; the sessions of its last valid version")?;
        match *generation {
            Some(generation) if generation > 0 => write!(f, " (generation {generation})")?,
            Some(_) => {}
            None => f.write_str(", which said nothing of them,")?,
        }
        f.write_str(" stay in effect")
    }
}

impl Objects {
    /// Takes in the changed grants of these namespaces. From then on, nothing looks at all grants, and each further
    /// change has to be taken in.
    pub fn catch_up_grants(&mut self, namespaces: &BTreeSet<Text>) {
        let Some(grants) = &mut self.grants else {
            self.grants = Some(Arc::new(GrantIndex::new(&self.reference_grants)));
            return;
        };
        let index = Arc::make_mut(grants);
        for namespace in namespaces {
            index.catch_up(namespace, &self.reference_grants);
        }
    }

    /// Objects that could not be read, with the path of the field and what was expected there.
    #[must_use]
    pub fn malformed(&self) -> BTreeMap<ObjectRef, &DecodeError> {
        let nothing = Self::default();
        let all = self.malformed_since(&nothing).into_iter();
        all.filter_map(|(object, error)| Some((object, error?))).collect()
    }

    /// Why objects that have changed since `before` cannot be read; `None`: one can, or is gone.
    #[must_use]
    pub fn malformed_since(&self, before: &Self) -> Vec<(ObjectRef, Option<&DecodeError>)> {
        fn of<'a, N: Ord, S: PartialEq + 'a>(
            object_ref: impl Fn(&N) -> ObjectRef,
            before: &Map<N, Object<S>>,
            now: &'a Map<N, Object<S>>,
        ) -> Vec<(ObjectRef, Option<&'a DecodeError>)> {
            let error = |key: &N| now.get(key)?.malformed.as_ref();
            let changed = changed(before, now);
            changed.map(|key| (object_ref(key), error(key))).collect()
        }
        let kind = |kind: Kind| {
            move |name: &ObjectName| ObjectRef {
                kind,
                name: name.clone(),
            }
        };
        let class = |name: &Text| ObjectRef {
            kind: Kind::GatewayClass,
            name: ObjectName::new("", name),
        };
        let policy = |policy: &SessionPolicyName| ObjectRef {
            kind: policy.kind.into(),
            name: policy.name.clone(),
        };
        [
            of(class, &before.gateway_classes, &self.gateway_classes),
            of(kind(Kind::Gateway), &before.gateways, &self.gateways),
            of(kind(Kind::HttpRoute), &before.http_routes, &self.http_routes),
            of(kind(Kind::GrpcRoute), &before.grpc_routes, &self.grpc_routes),
            of(
                kind(Kind::ReferenceGrant),
                &before.reference_grants,
                &self.reference_grants,
            ),
            of(kind(Kind::Service), &before.services, &self.services),
            of(policy, &before.session_policies, &self.session_policies),
            of(kind(Kind::XBackend), &before.backends, &self.backends),
            of(
                kind(Kind::BackendTlsPolicy),
                &before.backend_tls_policies,
                &self.backend_tls_policies,
            ),
            of(
                kind(Kind::EnvoyDeployment),
                &before.envoy_deployments,
                &self.envoy_deployments,
            ),
            of(kind(Kind::IngressRoute), &before.ingress_routes, &self.ingress_routes),
            of(
                kind(Kind::TlsCertificateDelegation),
                &before.certificate_delegations,
                &self.certificate_delegations,
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The references of a route of either kind.
#[derive(Debug)]
pub struct RouteReferences<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its metadata.
    pub meta: &'a Meta,
    /// Its parents.
    pub parents: &'a [ParentRef],
    /// The backends of all its rules.
    pub backends: Vec<&'a BackendRef>,
    /// The backends that get copies of its requests.
    pub mirrors: Vec<&'a BackendRef>,
}

impl<'a> RouteReferences<'a> {
    /// The references of an `HTTPRoute`.
    #[must_use]
    pub fn of_http(route: &'a Object<HttpRouteSpec>) -> Self {
        let rules = route.spec.rules.iter();
        let rules = rules.map(|rule| (rule.backend_refs.as_slice(), rule.filters.as_slice()));
        Self::new(Kind::HttpRoute, &route.meta, &route.spec.parent_refs, rules)
    }

    /// The references of a `GRPCRoute`.
    #[must_use]
    pub fn of_grpc(route: &'a Object<GrpcRouteSpec>) -> Self {
        let rules = route.spec.rules.iter();
        let rules = rules.map(|rule| (rule.backend_refs.as_slice(), rule.filters.as_slice()));
        Self::new(Kind::GrpcRoute, &route.meta, &route.spec.parent_refs, rules)
    }

    /// `rules`: the backends and the filters of each.
    fn new(
        kind: Kind,
        meta: &'a Meta,
        parents: &'a [ParentRef],
        rules: impl Iterator<Item = (&'a [BackendRef], &'a [RouteFilter])> + Clone,
    ) -> Self {
        Self {
            kind,
            meta,
            parents,
            backends: rules.clone().flat_map(|(backends, _)| backends).collect(),
            mirrors: rules.flat_map(|(_, filters)| mirrors(filters)).collect(),
        }
    }

    /// Whether both attach to the same parents, and reach the same backends.
    #[must_use]
    pub fn has_same_references(&self, other: &Self) -> bool {
        (self.parents, &self.backends, &self.mirrors) == (other.parents, &other.backends, &other.mirrors)
    }

    /// All backends that its requests or copies of them reach.
    pub fn referenced_backends(self) -> impl Iterator<Item = &'a BackendRef> {
        self.backends.into_iter().chain(self.mirrors)
    }
}

fn mirrors(filters: &[RouteFilter]) -> impl Iterator<Item = &BackendRef> {
    let mirrors = filters.iter().filter_map(|filter| filter.request_mirror.as_ref());
    mirrors.map(|mirror| &mirror.backend_ref)
}

impl Objects {
    /// The references of all routes.
    pub fn routes(&self) -> impl Iterator<Item = RouteReferences<'_>> {
        let http = self.http_routes.values().map(|route| RouteReferences::of_http(route));
        http.chain(self.grpc_routes.values().map(|route| RouteReferences::of_grpc(route)))
    }

    pub(super) fn route(&self, route: &ObjectRef) -> Option<RouteReferences<'_>> {
        match route.kind {
            Kind::HttpRoute => self
                .http_routes
                .get(&route.name)
                .map(|route| RouteReferences::of_http(route)),
            Kind::GrpcRoute => self
                .grpc_routes
                .get(&route.name)
                .map(|route| RouteReferences::of_grpc(route)),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum RuleBackend {
    /// A Service.
    Service(ObjectName),
    /// An XBackend.
    XBackend(ObjectName),
}

/// A session policy's kind and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionPolicyName {
    /// Its kind.
    pub kind: SessionPolicyKind,
    /// Its namespace and name.
    pub name: ObjectName,
}

/// The kinds of session policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionPolicyKind {
    /// gateway.networking.k8s.io/v1alpha2, releases 1.1.0 to 1.2.1.
    BackendLbPolicy,
    /// gateway.networking.x-k8s.io/v1alpha1, releases 1.3.0 on.
    XBackendTrafficPolicy,
}

impl SessionPolicyName {
    pub(super) fn object_ref(&self) -> ObjectRef {
        ObjectRef {
            kind: self.kind.into(),
            name: self.name.clone(),
        }
    }
}

impl From<SessionPolicyKind> for Kind {
    fn from(kind: SessionPolicyKind) -> Self {
        match kind {
            SessionPolicyKind::BackendLbPolicy => Self::BackendLbPolicy,
            SessionPolicyKind::XBackendTrafficPolicy => Self::XBackendTrafficPolicy,
        }
    }
}

impl Serialize for SessionPolicyName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for SessionPolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Kind::from(self.kind), self.name)
    }
}
