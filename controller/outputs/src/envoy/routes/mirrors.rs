//! Copies of requests for other clusters.
//!
//! Envoy copies the headers as the router has them. By then the filter has taken the token out, and the headers that
//! steer are removed. A copy is balanced like any new request: it does not inherit where the session is led.

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
