//! Cluster specifiers of the dynamic module, in place of a route for each destination of a split.

use envoy_types::pb::envoy::config::core::v3::TypedExtensionConfig;
use envoy_types::pb::envoy::config::route::v3::ClusterSpecifierPlugin;
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::extensions::router::cluster_specifiers::dynamic_modules::v3::DynamicModuleClusterSpecifier;
use envoy_types::pb::google::protobuf::StringValue;

use crate::envoy::code::module_config;
use crate::envoy::options::{EnvoyOptions, FilterBuild, Splits};
use crate::envoy::pack::pack;
use limpet_core::Specifier;
use limpet_core::config::schema::{SpecifierConfig, SpecifierDestinationConfig};
use limpet_core::envoy::{FILTER_NAME, UNAVAILABLE_CLUSTER};
use limpet_model::graph::{Destination, Forward, Target};

/// `None` if the rule needs a route for each destination.
pub(super) fn of(forward: &Forward, options: &EnvoyOptions) -> Option<ClusterSpecifier> {
    let (FilterBuild::Module(module), Splits::Specifier) = (&options.filter, options.splits) else {
        return None;
    };
    let destinations = &forward.destinations;
    let is_plain =
        |destination: &Destination| destination.request_headers.is_empty() && destination.response_headers.is_empty();
    let leads_somewhere =
        |destination: &Destination| destination.weight > 0 && matches!(destination.target, Target::Cluster(_));
    if !destinations.iter().all(is_plain) || !destinations.iter().any(leads_somewhere) {
        return None;
    }
    let config = config(destinations);
    // It refuses what tokens cannot tell apart: two destinations of one base.
    Specifier::new(&config).ok()?;
    // It has no maps, so it serializes.
    let text = serde_json::to_string(&config).unwrap_or_default();
    let specifier = DynamicModuleClusterSpecifier {
        dynamic_module_config: Some(module_config(module)),
        specifier_name: FILTER_NAME.to_owned(),
        specifier_config: Some(pack(StringValue { value: text })),
        ..DynamicModuleClusterSpecifier::default()
    };
    Some(ClusterSpecifier::InlineClusterSpecifierPlugin(ClusterSpecifierPlugin {
        extension: Some(TypedExtensionConfig {
            name: FILTER_NAME.to_owned(),
            typed_config: Some(pack(specifier)),
        }),
        ..ClusterSpecifierPlugin::default()
    }))
}

fn config(destinations: &[Destination]) -> SpecifierConfig {
    let mut config = SpecifierConfig {
        destinations: Vec::new(),
    };
    let mut invalid: u32 = 0;
    for destination in destinations {
        match &destination.target {
            Target::Cluster(cluster) => config.destinations.push(SpecifierDestinationConfig {
                cluster: cluster.to_string(),
                weight: destination.weight,
            }),
            Target::Invalid { .. } => invalid = invalid.saturating_add(destination.weight),
        }
    }
    if invalid > 0 {
        config.destinations.push(SpecifierDestinationConfig {
            cluster: UNAVAILABLE_CLUSTER.to_owned(),
            weight: invalid,
        });
    }
    config
}
