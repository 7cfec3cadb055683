//! Parts that many messages share.
#![allow(clippy::unnecessary_wraps, reason = "the fields that these are for are optional")]

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::socket_address::PortSpecifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, Metadata, SocketAddress, address,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{BoolValue, Duration, Struct, UInt32Value, Value};

pub(crate) use envoy_types::util::pack_any as pack;

use limpet_core::envoy::{METADATA_KEY, METADATA_NAMESPACE};

/// The ADS stream.
///
/// An Envoy that starts waits for all of it. By default, it would continue after 15 seconds: with listeners, for
/// example, but without their routes, and so be ready and answer 404.
pub(super) fn ads() -> ConfigSource {
    ConfigSource {
        initial_fetch_timeout: duration(std::time::Duration::ZERO),
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    }
}

pub(crate) fn session(session: &str) -> Metadata {
    metadata(METADATA_NAMESPACE, METADATA_KEY, session)
}

/// One string only: `prost` would encode several entries in any order.
pub(super) fn metadata(filter: &str, key: &str, value: &str) -> Metadata {
    let value = Value {
        kind: Some(Kind::StringValue(value.to_owned())),
    };
    let fields = Struct {
        fields: HashMap::from([(key.to_owned(), value)]),
    };
    Metadata {
        filter_metadata: HashMap::from([(filter.to_owned(), fields)]),
        ..Metadata::default()
    }
}

/// The same map, which `prost` encodes in the order of its keys.
///
/// Every `HashMap` chooses its own order, so a few entries are put into new maps until the order is right. Resources
/// are compared by their bytes, so equal ones would differ otherwise.
pub(super) fn in_order<V>(mut entries: HashMap<String, V>) -> HashMap<String, V> {
    while !entries.keys().is_sorted() {
        entries = entries.into_iter().collect();
    }
    entries
}

pub(super) fn socket(address: &str, port: u16) -> Address {
    let socket = SocketAddress {
        address: address.to_owned(),
        port_specifier: Some(PortSpecifier::PortValue(port.into())),
        ..SocketAddress::default()
    };
    Address {
        address: Some(address::Address::SocketAddress(socket)),
    }
}

pub(super) fn yes() -> Option<BoolValue> {
    Some(BoolValue { value: true })
}

pub(super) fn no() -> Option<BoolValue> {
    Some(BoolValue { value: false })
}

pub(super) fn number(value: u32) -> Option<UInt32Value> {
    Some(UInt32Value { value })
}

pub(super) fn duration(duration: std::time::Duration) -> Option<Duration> {
    Some(Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or_default(),
    })
}
