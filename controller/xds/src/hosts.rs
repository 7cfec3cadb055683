//! Route configurations with and without their virtual hosts (VHDS). Encoded messages may be put together.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::{AggregatedConfigSource, ApiVersion, ConfigSource};
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, Vhds};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};

use limpet_resources::{Resource, ResourceType};

/// The field `virtual_hosts` of `RouteConfiguration`.
const VIRTUAL_HOSTS: u32 = 2;

/// The route configuration of a virtual host, by the names of both (VHDS). Without one it is no virtual host.
pub(super) fn parent(host: &str) -> Option<&str> {
    host.rsplit_once('/').map(|(routes, _)| routes)
}

pub(super) fn with_hosts<'a>(routes: &Resource, hosts: impl IntoIterator<Item = &'a Arc<Resource>>) -> Resource {
    let mut body = routes.body().to_vec();
    for host in hosts {
        encode_key(VIRTUAL_HOSTS, WireType::LengthDelimited, &mut body);
        encode_varint(host.body().len() as u64, &mut body);
        body.extend_from_slice(host.body());
    }
    Resource::new(ResourceType::RouteConfiguration, Arc::clone(routes.name()), body)
}

/// The route configuration whose virtual hosts come one by one, on the same stream.
pub(super) fn by_host(routes: &Resource) -> Resource {
    let vhds = Vhds {
        config_source: Some(ConfigSource {
            resource_api_version: ApiVersion::V3.into(),
            config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
            ..ConfigSource::default()
        }),
    };
    let more = RouteConfiguration {
        vhds: Some(vhds),
        ..RouteConfiguration::default()
    };
    let body = [routes.body(), &more.encode_to_vec()].concat();
    Resource::new(ResourceType::RouteConfiguration, Arc::clone(routes.name()), body)
}
