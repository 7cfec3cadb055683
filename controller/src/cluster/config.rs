//! The controller's configuration file, which `limpet controller` and `limpet render` read.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum as _;
use kube::Client;
use serde::Deserialize;

use crate::cluster::cli::TargetKind;
use crate::cluster::reconcile::certificates::AuthorityConfig;
use crate::cluster::reconcile::keyring::KeyringConfig;
use crate::envoy_config::{config_file, object_file};
use crate::exit::CommandFailure;
use limpet_core::config::schema::{default_clock_skew, default_max_idle};
use limpet_core::time::GatewayDuration;
use limpet_model::{
    ADMIN_PORT, CONTROLLER_NAME, ContourPorts, ContourSettings, GatewayOwner, ManagedEnvoys, READY_PORT, SessionFields,
    SessionLimits, Settings, check_defaults, check_envoy_defaults,
};
use limpet_outputs::ControlPlane;
use limpet_outputs::envoy::{EnvoyEnvironment, EnvoyOptions, EnvoysNamespace, ManagedOptions};
use limpet_outputs::envoy_gateway::EnvoyGatewayOptions;
use limpet_outputs::istio::IstioOptions;
use limpet_xds::{ServerSecurity, TlsFiles, TlsInMemory};

/// The entry of the controller's ConfigMap with its configuration.
pub(crate) const IN_CONFIG_MAP: &str = "controller.yaml";

/// What `envoy.connectTimeout` may be. A shorter one gives up healthy pods that are busy for a moment. Clients have
/// given up before a longer one ends.
const CONNECT_TIMEOUTS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// The reference of all fields is `docs/reference/controller-configuration.md`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The `controllerName` of our GatewayClasses and of our entries in statuses; by default, each output has its own.
    pub(crate) controller_name: Option<String>,
    /// The `controllerName`s of the GatewayClasses of the control plane that gets objects; if empty, its well-known
    /// ones.
    pub(crate) gateway_controllers: Vec<String>,
    pub(crate) istio: IstioOptions,
    pub(crate) envoy_gateway: EnvoyGatewayOptions,
    /// How long proxies need to get what a control plane was given. The control plane does not report it.
    pub(crate) propagation_time: GatewayDuration,
    /// Reporting of sessions.
    pub(crate) sessions: SessionsConfig,
    /// Defaults for what objects do not say of sessions.
    pub(crate) session_defaults: SessionFields,
    /// The longest timeout of a session. It bounds how long a key has to retire.
    pub(crate) max_session_life: GatewayDuration,
    /// The most entries of an object's table of clients (`source`), in every Envoy.
    pub(crate) max_source_entries: u32,
    /// The namespaces whose objects are read; if empty, all.
    pub(crate) namespaces: Vec<String>,
    /// If `IngressRoute`s are read: how.
    pub(crate) contour: Option<ContourSettings>,
    /// Options for all Envoys.
    pub(crate) envoy: EnvoyOptions,
    pub(crate) keyring: KeyringConfig,
    /// The name of the ConfigMap with the fences, in the controller's own namespace.
    pub(crate) fences: String,
    /// The idle bound of sessions without a timeout (the filter's `maxIdle`).
    pub(crate) max_idle: Option<GatewayDuration>,
    /// How far the clocks of Envoys may differ (the filter's `clockSkew`).
    pub(crate) clock_skew: GatewayDuration,
    pub(crate) xds: XdsConfig,
    pub(crate) http: HttpConfig,
    /// Which of several replicas writes.
    pub(crate) leader_election: LeaderConfig,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct XdsConfig {
    /// Where the server listens.
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsConfig>,
    /// Allows plain text on any address.
    pub(crate) plain_text: bool,
}

/// Mutual TLS: files in PEM, which are read again when they change, or the controller's own authority.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct TlsConfig {
    /// The server's certificate, and the chain up to its authority.
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    /// The authorities that sign the clients' certificates.
    client_ca: Option<PathBuf>,
    authority: Option<AuthorityConfig>,
}

/// Where the certificates of mutual TLS come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TlsSource<'a> {
    Files(TlsFiles),
    Authority(&'a AuthorityConfig),
}

impl TlsConfig {
    fn source(&self) -> Result<TlsSource<'_>, String> {
        let Self {
            certificate,
            key,
            client_ca,
            authority,
        } = self;
        match (certificate, key, client_ca, authority) {
            (Some(certificate), Some(key), Some(client_ca), None) => Ok(TlsSource::Files(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                client_ca: client_ca.clone(),
            })),
            (None, None, None, Some(authority)) => Ok(TlsSource::Authority(authority)),
            _ => Err("xds.tls: expected either authority, or certificate, key and clientCa".to_owned()),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct HttpConfig {
    pub(crate) address: SocketAddr,
    /// Whether `/debug` shows what is published.
    pub(crate) debug_page: bool,
}

/// Reporting of sessions: where they live, and which pods may go.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct SessionsConfig {
    /// If false, nothing is counted, and pods are not read, so none drains by its annotation or says what it costs to
    /// delete it.
    pub(crate) enabled: bool,
}

/// Which of several replicas writes.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct LeaderConfig {
    /// If false, every replica writes.
    pub(crate) enabled: bool,
    /// The namespace of the Lease; by default the service account's or the kubeconfig's.
    pub(crate) namespace: Option<String>,
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
            sessions: SessionsConfig::default(),
            session_defaults: SessionFields::default(),
            max_session_life: SessionLimits::default().life,
            max_source_entries: SessionLimits::default().source_entries,
            namespaces: Vec::new(),
            contour: None,
            envoy: EnvoyOptions::default(),
            keyring: KeyringConfig::default(),
            fences: "limpet-fences".to_owned(),
            max_idle: None,
            clock_skew: default_clock_skew(),
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
            debug_page: true,
        }
    }
}

impl Default for SessionsConfig {
    fn default() -> Self {
        Self { enabled: true }
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
    /// The namespace of the Lease, and of everything that the controller keeps for itself.
    pub(crate) fn namespace<'a>(&'a self, client: &'a Client) -> &'a str {
        self.namespace.as_deref().unwrap_or(client.default_namespace())
    }

    /// A `ClusterRole` of the chart. It names its objects alike: `NAME-controller`, `NAME-xbackends:NAMESPACE`.
    pub(crate) fn cluster_role(&self, role: &str, namespace: &str) -> String {
        let release = self.name.strip_suffix("-controller").unwrap_or("limpet");
        format!("{release}-{role}:{namespace}")
    }
}

impl Config {
    /// Reads a configuration for this target.
    ///
    /// # Errors
    /// If it is invalid, with the path of each field of a wrong type, or of one with a wrong value.
    pub(crate) fn read(file: &str, target: TargetKind) -> Result<Self, CommandFailure> {
        Self::of(file, &config_file::read(file)?, target)
    }

    /// As [`Config::read`], from the text of a file.
    ///
    /// # Errors
    /// As [`Config::read`].
    pub(crate) fn parse(file: &str, text: &str, target: TargetKind) -> Result<Self, CommandFailure> {
        Self::of(file, &config_file::parse(file, text)?, target)
    }

    fn of(file: &str, value: &serde_json::Value, target: TargetKind) -> Result<Self, CommandFailure> {
        if let Some(instead) = object_file::instead(value, IN_CONFIG_MAP) {
            return Err(CommandFailure(format!("{file}: {instead}")));
        }
        let config: Self =
            limpet_core::config::read(value.to_string().as_bytes(), "configuration").map_err(|error| {
                let problems = error.problems.iter().map(|problem| format!("{file}: {problem}"));
                CommandFailure(problems.collect::<Vec<_>>().join("\nerror: "))
            })?;
        config
            .check()
            .and_then(|()| check_managed(value))
            .and_then(|()| config.check_contour(target))
            .map_err(|message| CommandFailure(format!("{file}: {message}")))?;
        Ok(config)
    }

    /// As [`Config::read`], of a file that was read, for a controller that serves. Commands that serve nothing take any
    /// addresses.
    ///
    /// # Errors
    /// If it is invalid, with the path of the field.
    pub(crate) fn to_serve(file: &str, value: &serde_json::Value, target: TargetKind) -> Result<Self, CommandFailure> {
        let config = Self::of(file, value, target)?;
        config
            .check_addresses(target)
            .map_err(|message| CommandFailure(format!("{file}: {message}")))?;
        Ok(config)
    }

    /// The addresses that a controller listens on, with their fields.
    pub(crate) fn addresses_to_listen_on(&self, target: TargetKind) -> Vec<(&'static str, SocketAddr)> {
        let mut all = vec![("http.address", self.http.address)];
        if target == TargetKind::Envoy {
            all.push(("xds.address", self.xds.address));
        }
        all
    }

    fn check_addresses(&self, target: TargetKind) -> Result<(), String> {
        if target != TargetKind::Envoy {
            return Ok(());
        }
        let limpet_xds::ServerOptions { address, security } = self.xds_options(&TlsInMemory::default());
        if !security.permits(address) {
            return Err(format!(
                "xds.address: {address} is not a loopback address, and secrets are served: \
                 expected xds.tls, or xds.plainText: true where something else protects the network"
            ));
        }
        if overlap(address, self.http.address) {
            return Err(format!(
                "xds.address: {address} is taken by http.address, {}",
                self.http.address
            ));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        let Self {
            controller_name,
            gateway_controllers,
            session_defaults,
            namespaces,
            max_idle,
            max_session_life,
            xds,
            ..
        } = self;
        // The pattern that the API has for a `controllerName`.
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
        if self.max_source_entries == 0 {
            return Err("maxSourceEntries: expected at least 1".to_owned());
        }
        check_defaults(session_defaults, self.session_limits())?;
        for (field, duration) in [("maxIdle", *max_idle), ("maxSessionLife", Some(*max_session_life))] {
            if duration.is_some_and(|duration| duration.get().is_zero()) {
                return Err(format!("{field}: expected a duration greater than zero"));
            }
        }
        if let Some(max_idle) = max_idle.filter(|max_idle| max_idle > max_session_life) {
            return Err(format!(
                "maxIdle: expected at most {max_session_life}, which is maxSessionLife, found {max_idle}"
            ));
        }
        let connect_timeout = self.envoy.connect_timeout;
        if !CONNECT_TIMEOUTS.contains(&connect_timeout.get()) {
            return Err(format!(
                "envoy.connectTimeout: expected a duration from 10ms to 1m, found {connect_timeout}"
            ));
        }
        if namespaces.iter().any(String::is_empty) {
            return Err("namespaces: expected names, or an empty list for all namespaces".to_owned());
        }
        if let Some(managed) = &self.envoy.managed {
            let names = managed.infrastructure.check();
            names.map_err(|message| format!("envoy.managed.infrastructure.{message}"))?;
        }
        if xds.tls.is_some() && xds.plain_text {
            return Err("xds.plainText: expected false, or no xds.tls".to_owned());
        }
        if let Some(TlsSource::Authority(authority)) = xds.tls.as_ref().map(TlsConfig::source).transpose()? {
            authority
                .check()
                .map_err(|message| format!("xds.tls.authority.{message}"))?;
        }
        Ok(())
    }

    /// No other control plane has a Gateway for what is no object of the Gateway API.
    fn check_contour(&self, target: TargetKind) -> Result<(), String> {
        let Some(contour) = &self.contour else {
            return Ok(());
        };
        if target != TargetKind::Envoy {
            let target = target.to_possible_value();
            let target = target.as_ref().map_or("", |value| value.get_name());
            return Err(format!(
                "contour: expected it only with --target envoy, found --target {target}"
            ));
        }
        if contour.ingress_class.is_empty() {
            return Err("contour.ingressClass: expected the name of a class".to_owned());
        }
        if contour.root_namespaces.contains("") {
            return Err("contour.rootNamespaces: expected names, or an empty list for all namespaces".to_owned());
        }
        let ContourPorts { http, https } = contour.ports;
        for (field, port) in [("http", http), ("https", https)] {
            if [ADMIN_PORT, READY_PORT].contains(&port.get()) {
                return Err(format!(
                    "contour.ports.{field}: expected another port than {port}, which is Envoy's own"
                ));
            }
        }
        if http == https {
            return Err(format!(
                "contour.ports.https: expected another port than contour.ports.http, found {https}"
            ));
        }
        Ok(())
    }

    /// The control plane that gets objects; `None`: Envoys get resources.
    pub(crate) fn control_plane(&self, target: TargetKind) -> Option<ControlPlane> {
        match target {
            TargetKind::Envoy => None,
            TargetKind::Istio => Some(ControlPlane::Istio(self.istio.clone())),
            TargetKind::EnvoyGateway => Some(ControlPlane::EnvoyGateway(self.envoy_gateway.clone())),
        }
    }

    pub(crate) fn settings(&self, target: TargetKind) -> Settings {
        let own_name = match target {
            TargetKind::Envoy => CONTROLLER_NAME,
            TargetKind::Istio => "limpet.dev/istio",
            TargetKind::EnvoyGateway => "limpet.dev/envoy-gateway",
        };
        let gateways = |plane: ControlPlane| {
            let known = plane.gateway_controllers().iter().map(|name| (*name).to_owned());
            GatewayOwner::Of(if self.gateway_controllers.is_empty() {
                known.collect()
            } else {
                self.gateway_controllers.iter().cloned().collect()
            })
        };
        Settings {
            controller_name: self.controller_name.clone().unwrap_or_else(|| own_name.to_owned()),
            gateways: self.control_plane(target).map(gateways).unwrap_or_default(),
            namespaces: self.namespaces.iter().cloned().collect(),
            managed: self.managed(target),
            session_defaults: self.session_defaults.clone(),
            contour: self.contour.clone(),
            session_limits: self.session_limits(),
        }
    }

    fn session_limits(&self) -> SessionLimits {
        SessionLimits {
            life: self.max_session_life,
            source_entries: self.max_source_entries,
        }
    }

    /// How Envoys are kept, if they are.
    fn managed(&self, target: TargetKind) -> Option<ManagedEnvoys> {
        let options = self.envoy.managed.as_ref().filter(|_| target == TargetKind::Envoy)?;
        let own = || options.surroundings.namespace.clone();
        Some(ManagedEnvoys {
            namespace: (options.namespace == EnvoysNamespace::Controller).then(own),
            defaults: options.defaults.clone(),
            infrastructure: options.infrastructure.clone(),
        })
    }

    /// Takes in the namespace of everything that the controller keeps for itself.
    pub(crate) fn complete(&mut self, namespace: &str) {
        let surroundings = EnvoyEnvironment {
            namespace: namespace.to_owned(),
            xds_port: self.xds.address.port(),
            tls: !self.xds.plain_text,
            key_encryption_keys: self
                .keyring
                .file
                .is_none()
                .then(|| self.keyring.key_encryption_key_secret.clone()),
        };
        if let Some(ManagedOptions {
            surroundings: known, ..
        }) = &mut self.envoy.managed
        {
            *known = surroundings;
        }
    }

    /// The idle bound of sessions without a timeout.
    pub(crate) fn max_idle(&self) -> GatewayDuration {
        let unsaid = || self.max_session_life.min(default_max_idle());
        self.max_idle.unwrap_or_else(unsaid)
    }

    /// The controller's own authority for xDS, if it has one.
    pub(crate) fn authority(&self) -> Option<&AuthorityConfig> {
        match self.xds.tls.as_ref()?.source() {
            Ok(TlsSource::Authority(authority)) => Some(authority),
            _ => None,
        }
    }

    /// `tls` gets the certificates of our own authority.
    pub(crate) fn xds_options(&self, tls: &TlsInMemory) -> limpet_xds::ServerOptions {
        let security = match self.xds.tls.as_ref().and_then(|tls| tls.source().ok()) {
            Some(TlsSource::Files(files)) => ServerSecurity::MutualTls(files),
            Some(TlsSource::Authority(_)) => ServerSecurity::MutualTlsInMemory(tls.clone()),
            None if self.xds.plain_text => ServerSecurity::PlaintextAnywhere,
            None => ServerSecurity::PlaintextOnLoopback,
        };
        limpet_xds::ServerOptions {
            address: self.xds.address,
            security,
        }
    }
}

/// The defaults have an object's fields, so the rules for objects hold for them.
fn check_managed(config: &serde_json::Value) -> Result<(), String> {
    let defaults = config.pointer("/envoy/managed/defaults");
    defaults.map_or(Ok(()), check_envoy_defaults).map_err(|message| {
        let field = message.strip_prefix("spec").unwrap_or(&message);
        format!("envoy.managed.defaults{field}")
    })
}

/// Whether only one of these can be listened on.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    // The unspecified address of IPv6 covers all of IPv4, too.
    let covers = |all: SocketAddr, one: SocketAddr| {
        all.ip() == one.ip() || all.ip().is_unspecified() && (all.is_ipv6() || one.is_ipv4())
    };
    one.port() == other.port() && one.port() != 0 && (covers(one, other) || covers(other, one))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_roles_have_the_names_that_the_chart_gives() {
        for (name, expected) in [
            ("limpet-controller", "limpet-xbackends:limpet-system"),
            // The release `second`.
            ("second-limpet-controller", "second-limpet-xbackends:limpet-system"),
            // Not the chart's.
            ("leader", "limpet-xbackends:limpet-system"),
        ] {
            let config = LeaderConfig {
                name: name.to_owned(),
                ..LeaderConfig::default()
            };
            assert_eq!(config.cluster_role("xbackends", "limpet-system"), expected);
        }
    }
}
