//! Copies of requests for other clusters, with the headers as the router has them: without the token and the headers
//! that steer. A copy is balanced like any new request.

use envoy_types::pb::envoy::config::core::v3::RuntimeFractionalPercent;
use envoy_types::pb::envoy::config::route::v3::route_action::RequestMirrorPolicy;
use envoy_types::pb::envoy::r#type::v3::FractionalPercent;
use envoy_types::pb::envoy::r#type::v3::fractional_percent::DenominatorType;

use limpet_model::graph::Mirror;

pub(super) fn policy(mirror: &Mirror) -> RequestMirrorPolicy {
    RequestMirrorPolicy {
        cluster: mirror.cluster.to_string(),
        runtime_fraction: Some(RuntimeFractionalPercent {
            default_value: Some(FractionalPercent {
                numerator: mirror.per_million,
                denominator: DenominatorType::Million.into(),
            }),
            ..RuntimeFractionalPercent::default()
        }),
        // Otherwise Envoy appends `-shadow` to the host, which a backend may not know.
        disable_shadow_host_suffix_append: true,
        ..RequestMirrorPolicy::default()
    }
}
