//! The preflight: Envoy's answer to the routes of each object, before they go live. See `limpet-xds`.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::Ipv4Addr;

use envoy_types::pb::envoy::config::listener::v3::{FilterChain, Listener};
use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use super::hosts::{EncodedRoute, virtual_host};
use super::listeners::unbound_manager;
use super::pack::{no, socket};
use super::resource;
use crate::used::object_of;
use limpet_resources::{PREFLIGHT, PREFLIGHT_METADATA, Resource, ResourceType};

/// The listener's address, which is never bound. No Gateway's listener or host has this address for documentation (RFC
/// 5737).
const ADDRESS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const PORT: u16 = 1;

/// The preflight's listener. It is in the bootstrap, so that Envoy asks for the preflight before it has any other
/// listener.
pub(super) fn listener() -> Listener {
    Listener {
        name: PREFLIGHT.to_owned(),
        address: Some(socket(&ADDRESS.to_string(), PORT)),
        bind_to_port: no(),
        filter_chains: vec![FilterChain {
            filters: vec![unbound_manager(PREFLIGHT)],
            ..FilterChain::default()
        }],
        ..Listener::default()
    }
}

pub(super) fn metadata() -> Struct {
    let value = Value {
        kind: Some(Kind::BoolValue(true)),
    };
    Struct {
        fields: HashMap::from([(PREFLIGHT_METADATA.to_owned(), value)]),
    }
}

pub(super) fn routes() -> Resource {
    let routes = RouteConfiguration {
        name: PREFLIGHT.to_owned(),
        validate_clusters: no(),
        ..RouteConfiguration::default()
    };
    resource(ResourceType::RouteConfiguration, PREFLIGHT, &routes)
}

/// One unit for each object of routes, under the name that the names of its rules begin with. A route in several
/// virtual hosts is in the unit once.
pub(super) fn units<'a>(routes: impl Iterator<Item = &'a EncodedRoute>) -> Vec<Resource> {
    let mut known: HashSet<&[u8]> = HashSet::new();
    let mut units: BTreeMap<&str, Vec<&[u8]>> = BTreeMap::new();
    for route in routes {
        // Routes of two objects differ, because their names do.
        if let Some(object) = object_of(&route.name)
            && known.insert(&route.field)
        {
            units.entry(object).or_default().push(&route.field);
        }
    }
    let unit = |(object, routes): (&str, Vec<&[u8]>)| virtual_host(object, object, routes, &VirtualHost::default());
    units.into_iter().map(unit).collect()
}

pub(super) fn unit<'a>(object: &str, routes: impl Iterator<Item = &'a EncodedRoute>) -> Option<Resource> {
    let mut known: HashSet<&[u8]> = HashSet::new();
    let fields = routes.map(|route| &*route.field).filter(|field| known.insert(field));
    let fields: Vec<&[u8]> = fields.collect();
    (!fields.is_empty()).then(|| virtual_host(object, object, fields, &VirtualHost::default()))
}
