use std::fmt;

use serde::Serialize;

use super::{CONTOUR_GROUP, GATEWAY_GROUP, GATEWAY_X_GROUP, LIMPET_GROUP};

/// The kinds that are read. Kinds that an object merely names, as a backend reference may, stay text.
///
/// The order is by name, for logs and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A session policy of the Gateway API's releases 1.1.0 to 1.2.1.
    BackendLbPolicy,
    /// TLS towards a backend.
    BackendTlsPolicy,
    /// The endpoints of a Service.
    EndpointSlice,
    /// How the Envoys of Gateways run.
    EnvoyDeployment,
    /// A route of gRPC requests.
    GrpcRoute,
    /// What listens for requests.
    Gateway,
    /// Which controller serves a Gateway.
    GatewayClass,
    /// A route of HTTP requests.
    HttpRoute,
    /// A host of Contour's, or routes that are delegated to it.
    IngressRoute,
    /// Read for its labels, which listeners select routes by.
    Namespace,
    /// Permits references from another namespace.
    ReferenceGrant,
    /// A backend.
    Service,
    /// Permits that `IngressRoute`s of other namespaces use a certificate.
    TlsCertificateDelegation,
    /// A backend with sessions of its own.
    XBackend,
    /// A session policy of the Gateway API's releases from 1.3.0 on.
    XBackendTrafficPolicy,
}

impl Kind {
    /// Every kind, in order.
    pub const ALL: [Self; 15] = [
        Self::BackendLbPolicy,
        Self::BackendTlsPolicy,
        Self::EndpointSlice,
        Self::EnvoyDeployment,
        Self::GrpcRoute,
        Self::Gateway,
        Self::GatewayClass,
        Self::HttpRoute,
        Self::IngressRoute,
        Self::Namespace,
        Self::ReferenceGrant,
        Self::Service,
        Self::TlsCertificateDelegation,
        Self::XBackend,
        Self::XBackendTrafficPolicy,
    ];

    /// The name in the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BackendLbPolicy => "BackendLBPolicy",
            Self::BackendTlsPolicy => "BackendTLSPolicy",
            Self::EndpointSlice => "EndpointSlice",
            Self::EnvoyDeployment => "EnvoyDeployment",
            Self::GrpcRoute => "GRPCRoute",
            Self::Gateway => "Gateway",
            Self::GatewayClass => "GatewayClass",
            Self::HttpRoute => "HTTPRoute",
            Self::IngressRoute => "IngressRoute",
            Self::Namespace => "Namespace",
            Self::ReferenceGrant => "ReferenceGrant",
            Self::Service => "Service",
            Self::TlsCertificateDelegation => "TLSCertificateDelegation",
            Self::XBackend => "XBackend",
            Self::XBackendTrafficPolicy => "XBackendTrafficPolicy",
        }
    }

    /// The API group; empty for the core group.
    #[must_use]
    pub fn group(self) -> &'static str {
        match self {
            Self::Namespace | Self::Service => "",
            Self::EndpointSlice => "discovery.k8s.io",
            Self::EnvoyDeployment => LIMPET_GROUP,
            Self::IngressRoute | Self::TlsCertificateDelegation => CONTOUR_GROUP,
            Self::XBackend | Self::XBackendTrafficPolicy => GATEWAY_X_GROUP,
            Self::BackendLbPolicy
            | Self::BackendTlsPolicy
            | Self::GrpcRoute
            | Self::Gateway
            | Self::GatewayClass
            | Self::HttpRoute
            | Self::ReferenceGrant => GATEWAY_GROUP,
        }
    }

    /// The kind of this group and name, if it is read. Another group's kind of the same name is another kind.
    #[must_use]
    pub fn find(group: &str, name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name && kind.group() == group)
    }

    /// Whether its objects exist only for sessions, so that no other control plane reports on them.
    #[must_use]
    pub fn is_session_policy(self) -> bool {
        matches!(
            self,
            Self::BackendLbPolicy | Self::XBackendTrafficPolicy | Self::XBackend
        )
    }

    /// Whether its objects are in namespaces.
    #[must_use]
    pub fn is_namespaced(self) -> bool {
        !matches!(self, Self::GatewayClass | Self::Namespace)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Kind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_group_and_name() {
        for kind in Kind::ALL {
            assert_eq!(Kind::find(kind.group(), kind.as_str()), Some(kind));
            assert_eq!(Kind::find("example.com", kind.as_str()), None);
        }
        assert_eq!(Kind::find("", "Secret"), None);
    }

    #[test]
    fn kinds_are_in_the_order_of_their_names() {
        assert!(Kind::ALL.is_sorted_by(|one, other| one < other && one.as_str() < other.as_str()));
    }
}
