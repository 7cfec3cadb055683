//! Virtual hosts as separate resources, so that a change sends only its host. Each route is encoded once, for its
//! virtual hosts and for the preflight: encoded messages may be put together.

use envoy_types::pb::envoy::config::route::v3::{RouteConfiguration, VirtualHost};
use prost::Message as _;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::resource;
use limpet_resources::{Resource, ResourceType};

/// The field `routes` of `VirtualHost`.
const ROUTES: u32 = 3;

pub(super) struct EncodedRoutes {
    frame: RouteConfiguration,
    hosts: Vec<EncodedHost>,
}

pub(super) struct EncodedHost {
    /// Without its routes and domains.
    rest: VirtualHost,
    domains: Vec<String>,
    pub(super) routes: Vec<EncodedRoute>,
}

/// A route, as a field of its virtual host.
#[derive(Clone)]
pub(super) struct EncodedRoute {
    pub(super) name: String,
    pub(super) field: Vec<u8>,
}

impl EncodedRoutes {
    pub(super) fn of(mut configuration: RouteConfiguration) -> Self {
        let hosts = std::mem::take(&mut configuration.virtual_hosts);
        Self {
            frame: configuration,
            hosts: hosts.into_iter().map(EncodedHost::of).collect(),
        }
    }

    pub(super) fn routes(&self) -> impl Iterator<Item = &EncodedRoute> {
        self.hosts.iter().flat_map(|host| &host.routes)
    }

    /// The route configuration without virtual hosts, and its virtual hosts, one for each domain.
    pub(super) fn apart(&self) -> Vec<Resource> {
        let hosts = self.hosts.iter().flat_map(|host| host.apart(&self.frame.name));
        let mut all: Vec<Resource> = hosts.collect();
        let frame = resource(ResourceType::RouteConfiguration, &self.frame.name, &self.frame);
        all.push(frame);
        all
    }
}

/// The name of a domain's virtual host. A domain never moves to another one: Envoy refuses a domain that two have, even
/// for a moment between two changes.
pub(super) fn host_name(configuration: &str, domain: &str) -> String {
    format!("{configuration}/{domain}")
}

impl EncodedHost {
    /// As a resource for each domain.
    pub(super) fn apart(&self, configuration: &str) -> impl Iterator<Item = Resource> {
        self.domains.iter().map(move |domain| {
            let fields = self.routes.iter().map(|route| &*route.field);
            virtual_host(&host_name(configuration, domain), domain, fields, &self.rest)
        })
    }

    pub(super) fn of(mut host: VirtualHost) -> Self {
        let encoded = |route: envoy_types::pb::envoy::config::route::v3::Route| {
            let mut field = Vec::new();
            encode_key(ROUTES, WireType::LengthDelimited, &mut field);
            encode_varint(route.encoded_len() as u64, &mut field);
            field.extend_from_slice(&route.encode_to_vec());
            EncodedRoute {
                name: route.name,
                field,
            }
        };
        let routes = std::mem::take(&mut host.routes).into_iter().map(encoded).collect();
        host.name.clear();
        Self {
            domains: std::mem::take(&mut host.domains),
            rest: host,
            routes,
        }
    }
}

/// Encodes name and domain, these routes, and `rest`, in the order of the fields.
pub(super) fn virtual_host<'a>(
    name: &str,
    domain: &str,
    routes: impl IntoIterator<Item = &'a [u8]>,
    rest: &VirtualHost,
) -> Resource {
    let named = VirtualHost {
        name: name.to_owned(),
        domains: vec![domain.to_owned()],
        ..VirtualHost::default()
    };
    let mut body = named.encode_to_vec();
    routes.into_iter().for_each(|route| body.extend_from_slice(route));
    body.extend_from_slice(&rest.encode_to_vec());
    Resource::new(ResourceType::VirtualHost, name, body)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

    use envoy_types::pb::envoy::config::route::v3::Route;

    use super::*;
    use crate::envoy::preflight;

    fn routes(names: &[&str]) -> Vec<Route> {
        let route = |name: &&str| Route {
            name: (*name).to_owned(),
            ..Route::default()
        };
        names.iter().map(route).collect()
    }

    #[test]
    fn what_is_put_together_is_what_encoding_it_gives() {
        let hosts = [
            (
                "a",
                vec!["a.example", "b.example"],
                routes(&["httproute/shop/one/1", "httproute/shop/two/1"]),
            ),
            (
                "c",
                vec!["c.example"],
                routes(&["httproute/shop/one/2", "httproute/shop/one/1", ""]),
            ),
        ];
        let whole = |name: &str, domain: &str, routes: Vec<Route>| VirtualHost {
            name: name.to_owned(),
            domains: vec![domain.to_owned()],
            routes,
            include_request_attempt_count: true,
            ..VirtualHost::default()
        };
        let configuration = RouteConfiguration {
            name: "web".to_owned(),
            virtual_hosts: hosts
                .iter()
                .map(|(name, domains, routes)| VirtualHost {
                    domains: domains.iter().map(ToString::to_string).collect(),
                    ..whole(name, "", routes.clone())
                })
                .collect(),
            ..RouteConfiguration::default()
        };
        let encoded = EncodedRoutes::of(configuration);
        let apart = encoded.apart();
        let expected = [("a.example", 0), ("b.example", 0), ("c.example", 1)];
        assert_eq!(apart.len(), expected.len() + 1);
        for (made, (domain, host)) in apart.iter().zip(expected) {
            let name = format!("web/{domain}");
            assert_eq!(&**made.name(), name);
            assert_eq!(made.body(), whole(&name, domain, hosts[host].2.clone()).encode_to_vec());
        }
        let frame = RouteConfiguration::decode(apart[3].body()).unwrap();
        assert_eq!((&*frame.name, frame.virtual_hosts.len()), ("web", 0));

        let units = preflight::units(encoded.routes());
        let expected = [
            (
                "httproute/shop/one",
                routes(&["httproute/shop/one/1", "httproute/shop/one/2"]),
            ),
            ("httproute/shop/two", routes(&["httproute/shop/two/1"])),
        ];
        assert_eq!(units.len(), expected.len());
        for (unit, (name, routes)) in units.iter().zip(expected) {
            let host = VirtualHost {
                include_request_attempt_count: false,
                ..whole(name, name, routes)
            };
            assert_eq!((&**unit.name(), unit.body()), (name, &*host.encode_to_vec()));
        }
    }
}
