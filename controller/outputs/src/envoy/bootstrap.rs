//! The bootstrap configuration of an Envoy.

mod metrics;
mod overload;
mod ready;
mod watched;

pub use overload::OverloadLimits;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use envoy_types::pb::envoy::config::bootstrap::v3::bootstrap::{DynamicResources, StaticResources};
use envoy_types::pb::envoy::config::bootstrap::v3::runtime_layer::LayerSpecifier;
use envoy_types::pb::envoy::config::bootstrap::v3::{Admin, Bootstrap, ClusterManager, LayeredRuntime, RuntimeLayer};
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::cluster::v3::UpstreamConnectionOptions;
use envoy_types::pb::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType};
use envoy_types::pb::envoy::config::core::v3::api_config_source::ApiType;
use envoy_types::pb::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use envoy_types::pb::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use envoy_types::pb::envoy::config::core::v3::{
    ApiConfigSource, ApiVersion, BackoffStrategy, ConfigSource, DataSource, GrpcService, Node, PathConfigSource,
    RetryPolicy, TcpKeepalive, TransportSocket, WatchedDirectory, data_source, transport_socket,
};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, Secret, SubjectAltNameMatcher, TlsCertificate,
    UpstreamTlsContext, secret, subject_alt_name_matcher::SanType,
};
use envoy_types::pb::envoy::service::discovery::v3::DiscoveryResponse;
use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use super::clusters::{http2, one_endpoint};
use super::pack::{ads, duration, number, pack, socket};
use super::preflight;
use limpet_api::ObjectName;
use limpet_model::expression::Expression;

pub(super) const CONTROLLER: &str = "limpet.controller";

/// The name of the secret, and of the file that it is in.
const CERTIFICATE: &str = "xds-certificate.yaml";
const AUTHORITY: &str = "xds-authority.yaml";

/// Options of a bootstrap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapOptions {
    /// The Gateway that the Envoy serves: its `node.cluster`, by which the controller chooses its resources.
    pub gateway: ObjectName,
    /// The `node.id`, unique among the Envoys of the Gateway. If absent, Envoy needs `--service-node`.
    pub node_id: Option<String>,
    /// The controller's host name or address.
    pub controller_host: String,
    /// The port of its xDS server.
    pub controller_port: u16,
    /// Mutual TLS with the controller; plain text if absent.
    pub tls: Option<BootstrapTls>,
    /// The port of Envoy's admin interface, on 127.0.0.1.
    pub admin_port: u16,
    /// The address of Envoy's readiness, for any client.
    pub ready: SocketAddr,
    /// The address of Envoy's statistics for any client, if any. The admin port must be known then.
    pub metrics: Option<SocketAddr>,
    /// Limits of the Envoy.
    pub limits: OverloadLimits,
}

/// The files for mutual TLS with the controller, as paths of the Envoy process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootstrapTls {
    /// Authorities of the controller's certificate (PEM).
    pub trusted_ca: String,
    /// Envoy's certificate (PEM).
    pub certificate_chain: String,
    /// Its private key (PEM).
    pub private_key: String,
    /// The name that the controller's certificate must have; the controller's host if absent.
    pub server_name: Option<String>,
    /// The folder with the files of [`bootstrap_secrets`], which Envoy reads again when they change. Without it, Envoy
    /// reads certificates and key once, at its start.
    pub folder: Option<String>,
}

/// Creates the bootstrap of a Gateway's Envoy. All else comes from the controller.
#[must_use]
pub fn bootstrap(options: &BootstrapOptions) -> Bootstrap {
    Bootstrap {
        node: Some(Node {
            id: options.node_id.clone().unwrap_or_default(),
            cluster: options.gateway.to_string(),
            metadata: Some(preflight::metadata()),
            ..Node::default()
        }),
        admin: Some(Admin {
            // A monitor of an Envoy must see that it is full.
            ignore_global_conn_limit: true,
            ..admin(options.admin_port)
        }),
        overload_manager: Some(overload::manager(options.limits)),
        layered_runtime: Some(runtime(
            [ready::most_connections()]
                .into_iter()
                .chain(options.metrics.map(|_| metrics::most_connections())),
        )),
        // Reports of requests in flight, so that a WebSocket keeps its pod. A controller that counts no sessions takes
        // none.
        cluster_manager: Some(ClusterManager {
            load_stats_config: Some(grpc_of_controller(ApiType::Grpc)),
            ..ClusterManager::default()
        }),
        dynamic_resources: Some(DynamicResources {
            ads_config: Some(ApiConfigSource {
                set_node_on_first_message_only: true,
                ..grpc_of_controller(ApiType::DeltaGrpc)
            }),
            lds_config: Some(ads()),
            cds_config: Some(ads()),
            ..DynamicResources::default()
        }),
        static_resources: Some(StaticResources {
            clusters: [controller(options)]
                .into_iter()
                .chain(options.metrics.map(|_| metrics::cluster(options.admin_port)))
                .collect(),
            listeners: [preflight::listener(), ready::listener(options.ready)]
                .into_iter()
                .chain(options.metrics.map(metrics::listener))
                .collect(),
            ..StaticResources::default()
        }),
        ..Bootstrap::default()
    }
}

fn grpc_of_controller(api_type: ApiType) -> ApiConfigSource {
    ApiConfigSource {
        api_type: api_type.into(),
        transport_api_version: ApiVersion::V3.into(),
        grpc_services: vec![GrpcService {
            target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                cluster_name: CONTROLLER.to_owned(),
                retry_policy: Some(reconnection()),
                ..EnvoyGrpc::default()
            })),
            ..GrpcService::default()
        }],
        ..ApiConfigSource::default()
    }
}

/// Listens on loopback only: it controls Envoy and has no authentication.
pub(super) fn admin(port: u16) -> Admin {
    Admin {
        address: Some(socket(&Ipv4Addr::LOCALHOST.to_string(), port)),
        ..Admin::default()
    }
}

/// Runtime settings, for which Envoy has no fields: every Envoy's, and more.
pub(super) fn runtime(more: impl IntoIterator<Item = (&'static str, f64)>) -> LayeredRuntime {
    // One larger regular expression makes Envoy refuse all routes of a listener. The model has a lower limit: the room
    // above it is for releases of RE2 that compile an expression to more instructions.
    let program_size = f64::from(Expression::MOST_INSTRUCTIONS / 4 * 5);
    let fields = [("re2.max_program_size.error_level", program_size)]
        .into_iter()
        .chain(more);
    let fields = fields.map(|(name, value)| {
        let kind = Some(Kind::NumberValue(value));
        (name.to_owned(), Value { kind })
    });
    LayeredRuntime {
        layers: vec![RuntimeLayer {
            name: "limpet".to_owned(),
            layer_specifier: Some(LayerSpecifier::StaticLayer(Struct {
                fields: fields.collect(),
            })),
        }],
    }
}

/// Connects to a controller again soon: by default, Envoy would wait for up to half a minute, and lead sessions away
/// from new pods that other Envoys know.
fn reconnection() -> RetryPolicy {
    RetryPolicy {
        retry_back_off: Some(BackoffStrategy {
            base_interval: duration(Duration::from_millis(100)),
            max_interval: duration(Duration::from_secs(1)),
        }),
        ..RetryPolicy::default()
    }
}

fn controller(options: &BootstrapOptions) -> Cluster {
    let (kind, load_assignment) = one_endpoint(CONTROLLER, &options.controller_host, options.controller_port);
    Cluster {
        name: CONTROLLER.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(DiscoveryType::into(kind))),
        // A replica that was just there may not answer any more.
        connect_timeout: duration(Duration::from_secs(2)),
        typed_extension_protocol_options: http2(),
        // Keepalive: notice a controller that vanished, and connect to another one.
        upstream_connection_options: Some(UpstreamConnectionOptions {
            tcp_keepalive: Some(TcpKeepalive {
                keepalive_probes: number(3),
                keepalive_time: number(10),
                keepalive_interval: number(5),
            }),
            ..UpstreamConnectionOptions::default()
        }),
        load_assignment: Some(load_assignment),
        transport_socket: options
            .tls
            .as_ref()
            .map(|tls| transport_socket(tls, &options.controller_host)),
        ..Cluster::default()
    }
}

/// The files of Envoy's certificate and the controller's authority, by their names in [`BootstrapTls::folder`]. Envoy
/// watches only discovered files, and notices a new one that is moved into the folder, as a kubelet does with a Secret.
#[must_use]
pub fn bootstrap_secrets(options: &BootstrapOptions) -> Vec<(&'static str, DiscoveryResponse)> {
    let Some(tls) = options.tls.as_ref().filter(|tls| tls.folder.is_some()) else {
        return Vec::new();
    };
    let certificate = TlsCertificate {
        watched_directory: Some(folder_of(&tls.certificate_chain)),
        ..certificate(tls)
    };
    let authority = CertificateValidationContext {
        watched_directory: Some(folder_of(&tls.trusted_ca)),
        ..validation(tls, &options.controller_host)
    };
    let all = [
        (CERTIFICATE, secret::Type::TlsCertificate(certificate)),
        (AUTHORITY, secret::Type::ValidationContext(authority)),
    ];
    let response = |(file, found): (&'static str, secret::Type)| {
        let secret = Secret {
            name: file.to_owned(),
            r#type: Some(found),
        };
        let resources = vec![pack(secret)];
        (
            file,
            DiscoveryResponse {
                resources,
                ..DiscoveryResponse::default()
            },
        )
    };
    all.into_iter().map(response).collect()
}

fn folder_of(file: &str) -> WatchedDirectory {
    let folder = Path::new(file).parent().filter(|folder| !folder.as_os_str().is_empty());
    let path = folder.unwrap_or(Path::new(".")).display().to_string();
    WatchedDirectory {
        path,
        ..WatchedDirectory::default()
    }
}

fn discovered(folder: &str, file: &str) -> SdsSecretConfig {
    SdsSecretConfig {
        name: file.to_owned(),
        sds_config: Some(ConfigSource {
            resource_api_version: ApiVersion::V3.into(),
            config_source_specifier: Some(ConfigSourceSpecifier::PathConfigSource(PathConfigSource {
                path: Path::new(folder).join(file).display().to_string(),
                ..PathConfigSource::default()
            })),
            ..ConfigSource::default()
        }),
    }
}

fn file(path: &str) -> DataSource {
    DataSource {
        specifier: Some(data_source::Specifier::Filename(path.to_owned())),
        ..DataSource::default()
    }
}

fn certificate(tls: &BootstrapTls) -> TlsCertificate {
    TlsCertificate {
        certificate_chain: Some(file(&tls.certificate_chain)),
        private_key: Some(file(&tls.private_key)),
        ..TlsCertificate::default()
    }
}

fn controller_name<'a>(tls: &'a BootstrapTls, host: &'a str) -> (&'a str, SanType) {
    let name = tls.server_name.as_deref().unwrap_or(host);
    match name.parse::<IpAddr>() {
        Ok(_) => (name, SanType::IpAddress),
        Err(_) => (name, SanType::Dns),
    }
}

fn validation(tls: &BootstrapTls, host: &str) -> CertificateValidationContext {
    let (name, san_type) = controller_name(tls, host);
    CertificateValidationContext {
        trusted_ca: Some(file(&tls.trusted_ca)),
        match_typed_subject_alt_names: vec![SubjectAltNameMatcher {
            san_type: san_type.into(),
            matcher: Some(StringMatcher {
                match_pattern: Some(MatchPattern::Exact(name.to_owned())),
                ..StringMatcher::default()
            }),
            ..SubjectAltNameMatcher::default()
        }],
        ..CertificateValidationContext::default()
    }
}

fn transport_socket(tls: &BootstrapTls, host: &str) -> TransportSocket {
    let (name, san_type) = controller_name(tls, host);
    let common = match &tls.folder {
        Some(folder) => CommonTlsContext {
            tls_certificate_sds_secret_configs: vec![discovered(folder, CERTIFICATE)],
            validation_context_type: Some(ValidationContextType::ValidationContextSdsSecretConfig(discovered(
                folder, AUTHORITY,
            ))),
            ..CommonTlsContext::default()
        },
        None => CommonTlsContext {
            tls_certificates: vec![certificate(tls)],
            validation_context_type: Some(ValidationContextType::ValidationContext(validation(tls, host))),
            ..CommonTlsContext::default()
        },
    };
    let context = UpstreamTlsContext {
        common_tls_context: Some(CommonTlsContext {
            alpn_protocols: vec!["h2".to_owned()],
            ..common
        }),
        sni: if san_type == SanType::Dns {
            name.to_owned()
        } else {
            String::new()
        },
        ..UpstreamTlsContext::default()
    };
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(pack(context))),
    }
}
