use std::fmt;

use limpet_api::{GATEWAY_GROUP, GATEWAY_X_GROUP};

/// The kinds that are read, in the order in which logs and metrics name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    BackendLbPolicy,
    EndpointSlice,
    Gateway,
    GatewayClass,
    GrpcRoute,
    HttpRoute,
    Namespace,
    ReferenceGrant,
    Service,
    XBackend,
    XBackendTrafficPolicy,
}

impl Kind {
    pub(crate) const ALL: [Self; 11] = [
        Self::BackendLbPolicy,
        Self::EndpointSlice,
        Self::Gateway,
        Self::GatewayClass,
        Self::GrpcRoute,
        Self::HttpRoute,
        Self::Namespace,
        Self::ReferenceGrant,
        Self::Service,
        Self::XBackend,
        Self::XBackendTrafficPolicy,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::BackendLbPolicy => "BackendLBPolicy",
            Self::EndpointSlice => "EndpointSlice",
            Self::Gateway => "Gateway",
            Self::GatewayClass => "GatewayClass",
            Self::GrpcRoute => "GRPCRoute",
            Self::HttpRoute => "HTTPRoute",
            Self::Namespace => "Namespace",
            Self::ReferenceGrant => "ReferenceGrant",
            Self::Service => "Service",
            Self::XBackend => "XBackend",
            Self::XBackendTrafficPolicy => "XBackendTrafficPolicy",
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The API group; empty for the core group.
    pub(crate) fn group(self) -> &'static str {
        match self {
            Self::Namespace | Self::Service => "",
            Self::EndpointSlice => "discovery.k8s.io",
            Self::XBackend | Self::XBackendTrafficPolicy => GATEWAY_X_GROUP,
            _ => GATEWAY_GROUP,
        }
    }

    /// The versions that can be read, the best first.
    pub(crate) fn versions(self) -> &'static [&'static str] {
        match self {
            Self::EndpointSlice | Self::Namespace | Self::Service => &["v1"],
            Self::Gateway | Self::GatewayClass | Self::HttpRoute | Self::ReferenceGrant => &["v1", "v1beta1"],
            Self::GrpcRoute => &["v1", "v1alpha2"],
            Self::BackendLbPolicy => &["v1alpha2"],
            Self::XBackend | Self::XBackendTrafficPolicy => &["v1alpha1"],
        }
    }

    /// The plural of a built-in kind. Other kinds come and go with their CRDs, and discovery tells their plurals.
    pub(crate) fn built_in(self) -> Option<&'static str> {
        match self {
            Self::EndpointSlice => Some("endpointslices"),
            Self::Namespace => Some("namespaces"),
            Self::Service => Some("services"),
            _ => None,
        }
    }

    /// Whether the kind is for sessions alone, so that no other controller reports on its objects.
    pub(crate) fn is_session_policy(self) -> bool {
        matches!(
            self,
            Self::BackendLbPolicy | Self::XBackendTrafficPolicy | Self::XBackend
        )
    }

    pub(crate) fn is_namespaced(self) -> bool {
        !matches!(self, Self::GatewayClass | Self::Namespace)
    }

    /// How many objects a page of a list has. An EndpointSlice has up to 1,000 endpoints, so few of them are held
    /// undecoded.
    pub(crate) fn page_size(self) -> u32 {
        match self {
            Self::EndpointSlice => 50,
            _ => 200,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
