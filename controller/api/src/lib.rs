//! The Kubernetes objects that Limpet reads, limited to the fields that it reads.
//!
//! One type per kind covers the shapes of all releases; the fields of an object tell which shape it has. Fields that
//! the type does not have are listed in [`Object::unread`], so that they can be reported instead of being ignored
//! silently.

mod backend;
mod backend_tls_policy;
mod decode;
mod envoy_deployment;
mod error;
mod gateway;
mod grpc_route;
mod http_route;
mod ingress_route;
mod kind;
mod meta;
mod reference_grant;
mod route;
mod service;
mod session;

pub use backend::{BackendPort, BackendTlsSettings, EndpointSelector, XBackendSpec};
pub use backend_tls_policy::{
    BackendTlsPolicySpec, BackendValidation, CaCertificateRef, PolicySubjectAltName, TlsPolicyTarget,
};
pub use decode::{Spec, object, readable};
pub use envoy_deployment::{
    Autoscaling, Container, EnvoyDeploymentSpec, EnvoyFilterBuild, EnvoyPod, EnvoyService, Patches, ServiceRef,
    ServiceType, TrafficPolicy,
};
pub use error::DecodeError;
pub use gateway::{
    AddressRequest, AllowedRoutes, GatewayClassSpec, GatewayListener, GatewaySpec, GatewayTls, Infrastructure, KindRef,
    LabelSelector, ListenerTls, ParametersRef, Requirement, RouteNamespaces, SecretRef,
};
pub use grpc_route::{GrpcMatch, GrpcMethodMatch, GrpcRouteSpec, GrpcRule};
pub use http_route::{HttpMatch, HttpPathMatch, HttpRouteRetry, HttpRouteSpec, HttpRule, Timeouts};
pub use ingress_route::{
    CertificateDelegation, CertificateDelegationSpec, Delegate, IngressHealthCheck, IngressHost, IngressRouteSpec,
    IngressRule, IngressService, IngressTls, RetryPolicy, StickyConnection, StickyCookie, StickyHeader, StickySession,
    TimeoutPolicy,
};
pub use kind::Kind;
pub use meta::{Meta, Object, ObjectName, ObjectRef, Text};
pub use reference_grant::{GrantFrom, GrantTo, ReferenceGrantSpec};
pub use route::{
    BackendRef, CorsFilter, Fraction, Header, HeaderModifier, NamedMatch, ParentRef, PathModifier, RequestMirror,
    RequestRedirect, RouteFilter, UrlRewrite,
};
pub use service::{Ingress, ServicePort, ServiceSpec};
pub use session::{CookieSettings, HeaderSettings, PolicyTarget, SessionPersistence, SessionPolicySpec};

/// The API group of the Gateway API.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// The API group of Limpet's own kinds.
pub const LIMPET_GROUP: &str = "limpet.dev";
/// The API group of Contour's `IngressRoute`.
pub const CONTOUR_GROUP: &str = "contour.heptio.com";
/// The API group of the Gateway API's experiments.
pub const GATEWAY_X_GROUP: &str = "gateway.networking.x-k8s.io";
