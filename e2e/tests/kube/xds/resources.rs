//! An Envoy's resources: a listener with TLS, a discovered filter, routes to one cluster.

use std::net::SocketAddr;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, EdsClusterConfig};
use envoy_types::pb::envoy::config::common::mutation_rules::v3::HeaderMutation;
use envoy_types::pb::envoy::config::common::mutation_rules::v3::header_mutation::Action as Mutation;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::data_source::Specifier;
use envoy_types::pb::envoy::config::core::v3::{
    Address, AggregatedConfigSource, ApiVersion, ConfigSource, DataSource, ExtensionConfigSource, HeaderValue,
    HeaderValueOption, SocketAddress, TransportSocket, TypedExtensionConfig, address, socket_address, transport_socket,
};
use envoy_types::pb::envoy::config::endpoint::v3::lb_endpoint::HostIdentifier;
use envoy_types::pb::envoy::config::endpoint::v3::{ClusterLoadAssignment, Endpoint, LbEndpoint, LocalityLbEndpoints};
use envoy_types::pb::envoy::config::listener::v3::{Filter, FilterChain, Listener, filter};
use envoy_types::pb::envoy::config::route::v3::route_action::ClusterSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::config::route::v3::{
    DirectResponseAction, Route, RouteAction, RouteConfiguration, RouteMatch, VirtualHost, route,
};
use envoy_types::pb::envoy::extensions::filters::http::header_mutation::v3::{
    HeaderMutation as HeaderMutationFilter, Mutations,
};
use envoy_types::pb::envoy::extensions::filters::http::router::v3::Router;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3::{
    HttpConnectionManager, HttpFilter, Rds, http_connection_manager::RouteSpecifier, http_filter,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, Secret, TlsCertificate, secret,
};
use envoy_types::pb::envoy::r#type::matcher::v3::RegexMatcher;
use envoy_types::pb::google::protobuf::{Any, BoolValue, Duration};
use limpet_resources::{Resource, ResourceType};
use prost::{Message, Name};

use crate::certificates::Certificate;

fn any<M: Message + Name>(message: &M) -> Any {
    Any {
        type_url: M::type_url(),
        value: message.encode_to_vec(),
    }
}

fn resource(resource_type: ResourceType, name: &str, message: &impl Message) -> Resource {
    Resource::new(resource_type, name, message.encode_to_vec())
}

/// For a resource that is discovered over the stream of the one that names it.
fn ads() -> ConfigSource {
    ConfigSource {
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        resource_api_version: ApiVersion::V3 as i32,
        ..ConfigSource::default()
    }
}

/// Its endpoints are discovered. `connect_timeout` is in seconds.
pub(super) fn cluster(name: &str, connect_timeout: u8) -> Resource {
    let cluster = Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
        eds_cluster_config: Some(EdsClusterConfig {
            eds_config: Some(ads()),
            ..EdsClusterConfig::default()
        }),
        connect_timeout: Some(Duration {
            seconds: i64::from(connect_timeout),
            nanos: 0,
        }),
        ..Cluster::default()
    };
    resource(ResourceType::Cluster, name, &cluster)
}

/// Envoy refuses it, because it has no source of endpoints.
pub(super) fn bad_cluster(name: &str) -> Resource {
    let cluster = Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)),
        ..Cluster::default()
    };
    resource(ResourceType::Cluster, name, &cluster)
}

pub(super) fn endpoints(cluster: &str, addresses: &[SocketAddr]) -> Resource {
    let endpoint = |each: &SocketAddr| LbEndpoint {
        host_identifier: Some(HostIdentifier::Endpoint(Endpoint {
            address: Some(address(*each)),
            ..Endpoint::default()
        })),
        ..LbEndpoint::default()
    };
    let assignment = ClusterLoadAssignment {
        cluster_name: cluster.to_owned(),
        endpoints: vec![LocalityLbEndpoints {
            lb_endpoints: addresses.iter().map(endpoint).collect(),
            ..LocalityLbEndpoints::default()
        }],
        ..ClusterLoadAssignment::default()
    };
    resource(ResourceType::ClusterLoadAssignment, cluster, &assignment)
}

fn address(address: SocketAddr) -> Address {
    let socket = SocketAddress {
        address: address.ip().to_string(),
        port_specifier: Some(socket_address::PortSpecifier::PortValue(address.port().into())),
        ..SocketAddress::default()
    };
    Address {
        address: Some(address::Address::SocketAddress(socket)),
    }
}

/// All requests reach one cluster. With `strict`, Envoy refuses them if it does not exist.
pub(super) fn routes(name: &str, cluster: &str, strict: bool) -> Resource {
    let action = RouteAction {
        cluster_specifier: Some(ClusterSpecifier::Cluster(cluster.to_owned())),
        ..RouteAction::default()
    };
    let all = Route {
        r#match: Some(RouteMatch {
            path_specifier: Some(PathSpecifier::Prefix("/".to_owned())),
            ..RouteMatch::default()
        }),
        action: Some(route::Action::Route(action)),
        ..Route::default()
    };
    let routes = RouteConfiguration {
        name: name.to_owned(),
        virtual_hosts: vec![VirtualHost {
            name: "all".to_owned(),
            domains: vec!["*".to_owned()],
            routes: vec![all],
            ..VirtualHost::default()
        }],
        validate_clusters: Some(BoolValue { value: strict }),
        ..RouteConfiguration::default()
    };
    resource(ResourceType::RouteConfiguration, name, &routes)
}

/// Answers for this domain with this status. With `is_bad`, Envoy refuses it.
pub(super) fn host(name: &str, domain: &str, status: u32, is_bad: bool) -> Resource {
    let path = if is_bad {
        let regex = "(".to_owned();
        PathSpecifier::SafeRegex(RegexMatcher {
            regex,
            ..RegexMatcher::default()
        })
    } else {
        PathSpecifier::Prefix("/".to_owned())
    };
    let host = VirtualHost {
        name: name.to_owned(),
        domains: vec![domain.to_owned()],
        routes: vec![Route {
            r#match: Some(RouteMatch {
                path_specifier: Some(path),
                ..RouteMatch::default()
            }),
            action: Some(route::Action::DirectResponse(DirectResponseAction {
                status,
                ..DirectResponseAction::default()
            })),
            ..Route::default()
        }],
        ..VirtualHost::default()
    };
    resource(ResourceType::VirtualHost, name, &host)
}

pub(super) fn no_hosts(name: &str) -> Resource {
    let routes = RouteConfiguration {
        name: name.to_owned(),
        ..RouteConfiguration::default()
    };
    resource(ResourceType::RouteConfiguration, name, &routes)
}

pub(super) fn plain_listener(name: &str) -> Resource {
    listening(name, &manager(name, name, Vec::new()), None)
}

/// A manager with these routes, and these filters before the router.
fn manager(stat_prefix: &str, routes: &str, mut filters: Vec<HttpFilter>) -> HttpConnectionManager {
    let config = http_filter::ConfigType::TypedConfig(any(&Router::default()));
    filters.push(http_filter("router", config));
    HttpConnectionManager {
        stat_prefix: stat_prefix.to_owned(),
        route_specifier: Some(RouteSpecifier::Rds(Rds {
            config_source: Some(ads()),
            route_config_name: routes.to_owned(),
        })),
        http_filters: filters,
        ..HttpConnectionManager::default()
    }
}

fn http_filter(name: &str, config: http_filter::ConfigType) -> HttpFilter {
    HttpFilter {
        name: name.to_owned(),
        config_type: Some(config),
        ..HttpFilter::default()
    }
}

fn listening(name: &str, manager: &HttpConnectionManager, tls: Option<&DownstreamTlsContext>) -> Resource {
    let listener = Listener {
        name: name.to_owned(),
        address: Some(address(SocketAddr::from(([127, 0, 0, 1], 0)))),
        filter_chains: vec![FilterChain {
            filters: vec![Filter {
                name: "http".to_owned(),
                config_type: Some(filter::ConfigType::TypedConfig(any(manager))),
            }],
            transport_socket: tls.map(|tls| TransportSocket {
                name: "tls".to_owned(),
                config_type: Some(transport_socket::ConfigType::TypedConfig(any(tls))),
            }),
            ..FilterChain::default()
        }],
        ..Listener::default()
    };
    resource(ResourceType::Listener, name, &listener)
}

/// Adds `x-filter` with this value to each response.
pub(super) fn filter(name: &str, says: &str) -> Resource {
    let typed_config = Some(any(&says_so(says)));
    let name = name.to_owned();
    let message = TypedExtensionConfig { name, typed_config };
    resource(ResourceType::ExtensionConfig, &message.name, &message)
}

fn says_so(says: &str) -> HeaderMutationFilter {
    let header = HeaderValueOption {
        header: Some(HeaderValue {
            key: "x-filter".to_owned(),
            value: says.to_owned(),
            ..HeaderValue::default()
        }),
        ..HeaderValueOption::default()
    };
    HeaderMutationFilter {
        mutations: Some(Mutations {
            response_mutations: vec![HeaderMutation {
                action: Some(Mutation::Append(header)),
            }],
            ..Mutations::default()
        }),
        ..HeaderMutationFilter::default()
    }
}

pub(super) fn secret(name: &str, certificate: &Certificate) -> Resource {
    let inline = |text: &str| {
        Some(DataSource {
            specifier: Some(Specifier::InlineString(text.to_owned())),
            ..DataSource::default()
        })
    };
    let secret = Secret {
        name: name.to_owned(),
        r#type: Some(secret::Type::TlsCertificate(TlsCertificate {
            certificate_chain: inline(&certificate.certificate),
            private_key: inline(&certificate.key),
            ..TlsCertificate::default()
        })),
    };
    resource(ResourceType::Secret, name, &secret)
}

/// On a free port, with the routes, the secret and the filter of these names.
pub(super) fn listener(name: &str, routes: &str, secret: &str, filter: &str) -> Resource {
    let discovered = ExtensionConfigSource {
        config_source: Some(ads()),
        type_urls: vec![HeaderMutationFilter::type_url()],
        ..ExtensionConfigSource::default()
    };
    let discovered = http_filter(filter, http_filter::ConfigType::ConfigDiscovery(discovered));
    let tls = DownstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            tls_certificate_sds_secret_configs: vec![SdsSecretConfig {
                name: secret.to_owned(),
                sds_config: Some(ads()),
            }],
            ..CommonTlsContext::default()
        }),
        ..DownstreamTlsContext::default()
    };
    listening(name, &manager("web", routes, vec![discovered]), Some(&tls))
}
