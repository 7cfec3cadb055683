use limpet_api::Kind;

/// The kinds without which there is nothing to serve.
pub(super) const REQUIRED: [Kind; 3] = [Kind::Gateway, Kind::GatewayClass, Kind::HttpRoute];

/// The versions of a kind that can be read, the best first.
pub(crate) fn versions(kind: Kind) -> &'static [&'static str] {
    kind.versions()
}

/// How a kind's objects are asked for.
pub(super) trait KindExt {
    /// The versions that can be read, the best first.
    fn versions(self) -> &'static [&'static str];

    /// The plural of a kind of the API server itself; the others come and go with their CRDs, which tell the plural.
    fn built_in(self) -> Option<&'static str>;

    /// Whether its objects must not count as absent if the API server has them only in other versions. What a policy
    /// for TLS targets would go in plain text.
    fn must_be_read(self) -> bool;

    /// How many objects are listed at once: an EndpointSlice has up to 1,000 endpoints, so few of them are held in the
    /// API's own form.
    fn page_size(self) -> u32;
}

impl KindExt for Kind {
    fn versions(self) -> &'static [&'static str] {
        match self {
            Self::EndpointSlice | Self::Namespace | Self::Service => &["v1"],
            Self::Gateway | Self::GatewayClass | Self::HttpRoute | Self::ReferenceGrant => &["v1", "v1beta1"],
            Self::GrpcRoute => &["v1", "v1alpha2"],
            Self::BackendLbPolicy => &["v1alpha2"],
            Self::BackendTlsPolicy => &["v1", "v1alpha3"],
            Self::IngressRoute | Self::TlsCertificateDelegation => &["v1beta1"],
            Self::EnvoyDeployment | Self::XBackend | Self::XBackendTrafficPolicy => &["v1alpha1"],
        }
    }

    fn built_in(self) -> Option<&'static str> {
        match self {
            Self::EndpointSlice => Some("endpointslices"),
            Self::Namespace => Some("namespaces"),
            Self::Service => Some("services"),
            _ => None,
        }
    }

    fn must_be_read(self) -> bool {
        self == Self::BackendTlsPolicy
    }

    fn page_size(self) -> u32 {
        match self {
            Self::EndpointSlice => 50,
            _ => 200,
        }
    }
}
