//! The controller's configuration file, which `limpet controller` and `limpet render` read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use limpet_core::time::GatewayDuration;
use serde::Deserialize;

use crate::Failure;
use crate::cluster::cli::OutputKind;
use crate::cluster::reconcile::keyring::KeyringConfig;
use crate::envoy_config::config_file;
use limpet_model::{CONTROLLER_NAME, Gateways, SessionDefaults, Settings, check_defaults};
use limpet_outputs::ControlPlane;
use limpet_outputs::envoy::EnvoyOptions;
use limpet_outputs::envoy_gateway::EnvoyGatewayOptions;
use limpet_outputs::istio::IstioOptions;

/// All of it. `docs/controller.md` says what each field does.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The `controllerName` of our GatewayClasses, and of our entries in statuses; each output has its own where there is none.
    pub(crate) controller_name: Option<String>,
    /// The `controllerName`s of the GatewayClasses of the control plane that gets objects; those that it is known for where there are none.
    pub(crate) gateway_controllers: Vec<String>,
    /// What objects for Istio are like.
    pub(crate) istio: IstioOptions,
    /// What objects for Envoy Gateway are like.
    pub(crate) envoy_gateway: EnvoyGatewayOptions,
    /// How long it takes until proxies have what a control plane was given, since it does not tell.
    pub(crate) propagation_time: GatewayDuration,
    /// What sessions are like where no object says anything else.
    pub(crate) session_defaults: SessionDefaults,
    /// The namespaces whose objects are read; all where there are none.
    pub(crate) namespaces: Vec<String>,
    /// Where Gateways can be reached, for their status: IP addresses or hostnames.
    pub(crate) addresses: Vec<String>,
    /// What Envoys have in common.
    pub(crate) envoy: EnvoyOptions,
    /// The keys of tokens.
    pub(crate) keyring: KeyringConfig,
    /// The ConfigMap with the fences, in the controller's own namespace.
    pub(crate) fences: String,
    /// The idle bound of sessions without a timeout (the filter's `maxIdle`).
    pub(crate) max_idle: Option<GatewayDuration>,
    /// How far the clocks of Envoys may differ (the filter's `clockSkew`).
    pub(crate) clock_skew: Option<GatewayDuration>,
    /// The xDS server.
    pub(crate) xds: XdsConfig,
    /// Metrics and health.
    pub(crate) http: HttpConfig,
    /// Who of several replicas writes.
    pub(crate) leader_election: LeaderConfig,
}

/// The xDS server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct XdsConfig {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Mutual TLS.
    pub(crate) tls: Option<TlsConfig>,
    /// Plain text, on any address.
    pub(crate) plain_text: bool,
}

/// The files of mutual TLS, in PEM. They are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct TlsConfig {
    /// The server's certificate, and the chain up to its authority.
    pub(crate) certificate: PathBuf,
    /// Its key.
    pub(crate) key: PathBuf,
    /// The authorities of the clients' certificates.
    pub(crate) client_ca: PathBuf,
}

/// Metrics and health.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpConfig {
    /// Where they are served.
    pub(crate) address: SocketAddr,
}

/// Who of several replicas writes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct LeaderConfig {
    /// Whether they agree on one. Otherwise each writes.
    pub(crate) enabled: bool,
    /// The Lease's namespace; that of the service account or the kubeconfig where there is none.
    pub(crate) namespace: Option<String>,
    /// The Lease's name.
    pub(crate) name: String,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            controller_name: None,
            gateway_controllers: Vec::new(),
            istio: IstioOptions::default(),
            envoy_gateway: EnvoyGatewayOptions::default(),
            propagation_time: Duration::from_secs(5).into(),
            session_defaults: SessionDefaults::default(),
            namespaces: Vec::new(),
            addresses: Vec::new(),
            envoy: EnvoyOptions::default(),
            keyring: KeyringConfig::default(),
            fences: "limpet-fences".to_owned(),
            max_idle: None,
            clock_skew: None,
            xds: XdsConfig::default(),
            http: HttpConfig::default(),
            leader_election: LeaderConfig::default(),
        }
    }
}

impl Default for XdsConfig {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 18000),
            tls: None,
            plain_text: false,
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            address: SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 18080),
        }
    }
}

impl Default for LeaderConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            namespace: None,
            name: "limpet-controller".to_owned(),
        }
    }
}

impl LeaderConfig {
    /// Where the Lease is, and all that the controller keeps.
    pub(crate) fn namespace<'a>(&'a self, client: &'a Client) -> &'a str {
        self.namespace.as_deref().unwrap_or(client.default_namespace())
    }
}

impl Config {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with it, with the field's path.
    pub(crate) fn read(file: &str) -> Result<Self, Failure> {
        let value = config_file::read(file)?;
        let config: Self = serde_path_to_error::deserialize(value).map_err(|error| {
            let path = error.path().to_string();
            let at = if path == "." {
                String::new()
            } else {
                format!("{path}: ")
            };
            Failure(format!("{file}: {at}{}", error.inner()))
        })?;
        config
            .check()
            .map_err(|message| Failure(format!("{file}: {message}")))?;
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        let Self {
            controller_name,
            gateway_controllers,
            session_defaults,
            namespaces,
            xds,
            ..
        } = self;
        // The API's own pattern for a `controllerName`.
        let is_wrong = |name: &str| {
            let (domain, path) = name.split_once('/').unwrap_or_default();
            domain.is_empty() || path.is_empty()
        };
        if controller_name.as_deref().is_some_and(is_wrong) {
            return Err("controllerName: expected a domain and a path, like limpet.dev/controller".to_owned());
        }
        if let Some(index) = gateway_controllers.iter().position(|name| is_wrong(name)) {
            return Err(format!(
                "gatewayControllers[{index}]: expected a domain and a path, like istio.io/gateway-controller"
            ));
        }
        check_defaults(session_defaults)?;
        if namespaces.iter().any(String::is_empty) {
            return Err("namespaces: expected names, or an empty list for all namespaces".to_owned());
        }
        if xds.tls.is_some() && xds.plain_text {
            return Err("xds.plainText: expected false, or no xds.tls".to_owned());
        }
        Ok(())
    }

    /// The control plane that gets objects, if it is not Envoys that get resources.
    pub(crate) fn control_plane(&self, output: OutputKind) -> Option<ControlPlane> {
        match output {
            OutputKind::Envoy => None,
            OutputKind::Istio => Some(ControlPlane::Istio(self.istio.clone())),
            OutputKind::EnvoyGateway => Some(ControlPlane::EnvoyGateway(self.envoy_gateway.clone())),
        }
    }

    /// What graphs are built with.
    pub(crate) fn settings(&self, output: OutputKind) -> Settings {
        let own_name = match output {
            OutputKind::Envoy => CONTROLLER_NAME,
            OutputKind::Istio => "limpet.dev/istio",
            OutputKind::EnvoyGateway => "limpet.dev/envoy-gateway",
        };
        let gateways = |plane: ControlPlane| {
            let known = plane.gateway_controllers().iter().map(|name| (*name).to_owned());
            Gateways::Of(if self.gateway_controllers.is_empty() {
                known.collect()
            } else {
                self.gateway_controllers.iter().cloned().collect()
            })
        };
        Settings {
            controller_name: self.controller_name.clone().unwrap_or_else(|| own_name.to_owned()),
            gateways: self.control_plane(output).map(gateways).unwrap_or_default(),
            session_defaults: self.session_defaults.clone(),
        }
    }

    /// Where and how xDS is served.
    pub(crate) fn xds_options(&self) -> limpet_xds::Options {
        let XdsConfig {
            address,
            tls,
            plain_text,
        } = &self.xds;
        let security = match tls {
            Some(tls) => limpet_xds::Security::MutualTls(limpet_xds::TlsFiles {
                certificate: tls.certificate.clone(),
                key: tls.key.clone(),
                client_ca: tls.client_ca.clone(),
            }),
            None if *plain_text => limpet_xds::Security::PlaintextAnywhere,
            None => limpet_xds::Security::PlaintextOnLoopback,
        };
        limpet_xds::Options {
            address: *address,
            security,
        }
    }

    /// The addresses, with the types that the Gateway API has for them.
    pub(crate) fn addresses(&self) -> Vec<(&'static str, String)> {
        let typed = |address: &String| {
            let is_ip = address.parse::<IpAddr>().is_ok();
            (if is_ip { "IPAddress" } else { "Hostname" }, address.clone())
        };
        self.addresses.iter().map(typed).collect()
    }
}
