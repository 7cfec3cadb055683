use limpet_api::Kind;

/// The kinds without which there is nothing to serve.
pub(super) const REQUIRED: [Kind; 3] = [Kind::Gateway, Kind::GatewayClass, Kind::HttpRoute];

pub(crate) fn versions(kind: Kind) -> &'static [&'static str] {
    kind.versions()
}

pub(super) trait KindExt {
    /// The readable versions, the best first.
    fn versions(self) -> &'static [&'static str];

    /// The plural of a kind without a CRD. CRDs have their own plural.
    fn built_in(self) -> Option<&'static str>;

    /// Whether its objects must not count as absent while they are served only in other versions: targets of a policy
    /// for TLS would get plain text.
    fn must_be_read(self) -> bool;

    /// Objects in one page of a list. EndpointSlices have up to 1,000 endpoints, so few of them are held in the API's
    /// own form.
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
