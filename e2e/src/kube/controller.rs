//! The controller under test.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::daemon::Daemon;
use super::{ApiServer, Namespace, Proxy, manifest};
use crate::{Answer, Build, Connection, KeyEncryptionKey, Keyring, Request, tools};

/// The service account in `controller/deploy`.
const ACCOUNT: &str = "limpet-controller";

/// `limpet controller` for one namespace, with the roles of `controller/deploy/rbac.yaml`, until it is dropped.
#[derive(Debug)]
pub struct Controller {
    process: Option<Daemon>,
    output: Output,
    config: Value,
    kubeconfig: PathBuf,
    environment: Vec<(String, String)>,
    arguments: Vec<String>,
    directory: TempDir,
    starts: u32,
    xds: SocketAddr,
    http: SocketAddr,
    keyring: Keyring,
    key_encryption_key: KeyEncryptionKey,
}

/// The control plane that gets the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Envoys over xDS.
    Envoy,
    /// Istio.
    Istio,
    /// Envoy Gateway.
    EnvoyGateway,
}

impl Output {
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::Istio => "istio",
            Self::EnvoyGateway => "envoy-gateway",
        }
    }

    fn deployed(self) -> (&'static str, &'static str) {
        match self {
            Self::Envoy => ("", "limpet-system"),
            Self::Istio => ("istio", "limpet-istio"),
            Self::EnvoyGateway => ("envoy-gateway", "limpet-envoy-gateway"),
        }
    }
}

impl Controller {
    /// Installs the roles, starts the controller for the classes of [`Namespace::gateway_class`], and waits until it is
    /// ready.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(server: &ApiServer, namespace: &Namespace, change: impl FnOnce(&mut Value)) -> Result<Self> {
        let mut controller = Self::prepare(server, namespace, change).await?;
        controller.launch()?;
        controller.until_ready().await?;
        Ok(controller)
    }

    /// As [`Controller::start`], without starting the controller.
    ///
    /// # Errors
    /// If the roles are refused.
    pub async fn prepare(server: &ApiServer, namespace: &Namespace, change: impl FnOnce(&mut Value)) -> Result<Self> {
        Self::prepare_for(Output::Envoy, server, namespace, change).await
    }

    /// As [`Controller::prepare`], for another control plane, whose proxies have the key-encryption key in their
    /// environment.
    ///
    /// # Errors
    /// If the roles are refused.
    pub async fn prepare_for(
        output: Output,
        server: &ApiServer,
        namespace: &Namespace,
        change: impl FnOnce(&mut Value),
    ) -> Result<Self> {
        let ip = namespace.next_address()?;
        let (xds, http) = (SocketAddr::new(ip, 18000), SocketAddr::new(ip, 18080));
        let keyring = Keyring::generate()?;
        let key_encryption_key = KeyEncryptionKey::generate(1)?;
        let mut config = json!({
            "controllerName": namespace.controller_name(),
            "namespaces": [namespace.name()],
            "xds": {"address": xds, "plainText": true},
            "http": {"address": http},
            "leaderElection": {"namespace": namespace.name()},
            // Each test has its own address, so its Envoys can use any port.
            "envoy": {
                "filter": filter(Build::tested()?)?,
                "listenAddress": ip,
                "keyEncryptionKeyEnv": key_encryption_key.variable,
            },
            "keyring": {
                "file": keyring.path(),
                "keyEncryptionKey": {"id": key_encryption_key.id, "env": key_encryption_key.variable},
            },
        });
        change(&mut config);
        install(output, server, namespace, &config).await?;
        let user = server.service_account(namespace.name(), ACCOUNT).await?;
        Ok(Self {
            process: None,
            output,
            config,
            kubeconfig: server.kubeconfig(&user)?,
            environment: Vec::new(),
            arguments: Vec::new(),
            directory: TempDir::with_prefix("limpet-e2e-")?,
            starts: 0,
            xds,
            http,
            keyring,
            key_encryption_key,
        })
    }

    /// Adds an environment variable to the next start.
    pub fn environment(&mut self, variable: &str, value: &str) {
        self.environment.push((variable.to_owned(), value.to_owned()));
    }

    /// Changes the configuration of the next start.
    pub fn reconfigure(&mut self, change: impl FnOnce(&mut Value)) {
        change(&mut self.config);
    }

    /// Lets the controller log JSON from the next start on.
    pub fn log_as_json(&mut self) {
        self.arguments = vec!["--log-format".to_owned(), "json".to_owned()];
    }

    /// Starts the controller, which need not be ready then.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn launch(&mut self) -> Result<()> {
        let file = self.directory.path().join("controller.yaml");
        std::fs::write(&file, self.config.to_string())?;
        let mut command = Command::new(tools::limpet()?);
        command
            .args(["controller", "--target", self.output.name()])
            .arg("--config")
            .arg(file)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(&self.arguments)
            .env(&self.key_encryption_key.variable, &self.key_encryption_key.key)
            // A unique name that a restart keeps, as in the Deployment.
            .env("POD_NAME", format!("controller-{}", self.http.ip()))
            .envs(self.environment.iter().map(|(variable, value)| (variable, value)));
        self.starts += 1;
        let name = format!("controller-{}", self.starts);
        self.process = Some(Daemon::start(&name, &mut command, self.directory.path())?);
        Ok(())
    }

    /// Waits until the controller has published its first complete state.
    ///
    /// # Errors
    /// If it does not.
    pub async fn until_ready(&mut self) -> Result<()> {
        let http = self.http;
        let process = self.process.as_mut().context("not started")?;
        let ready = async || get(http, "/readyz").await.ok().filter(|answer| answer.status == 200);
        process.until_ready(ready).await.map(drop)
    }

    /// Kills the controller without a grace period.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Ends the controller with SIGTERM, and waits until it has ended.
    ///
    /// # Errors
    /// If it fails.
    pub async fn end(&mut self) -> Result<()> {
        let process = self.process.take().context("not started")?;
        process.terminate().await
    }

    /// The controller's process.
    ///
    /// # Errors
    /// If it is not running.
    pub fn process(&self) -> Result<&Daemon> {
        self.process.as_ref().context("not started")
    }

    /// Starts a stock Envoy for a Gateway with the bootstrap of `limpet controller bootstrap`; it may not have its
    /// configuration yet.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn envoy(&self, gateway: &str, node_id: &str) -> Result<Proxy> {
        self.envoy_by(gateway, node_id, self.xds).await
    }

    /// As [`Controller::envoy`], with this xDS server.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn envoy_by(&self, gateway: &str, node_id: &str, xds: SocketAddr) -> Result<Proxy> {
        let KeyEncryptionKey { variable, key, .. } = &self.key_encryption_key;
        self.envoy_at(gateway, node_id, xds, &[(variable, key)]).await
    }

    /// As [`Controller::envoy`], with these environment variables in place of the key-encryption key.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn envoy_with(&self, gateway: &str, node_id: &str, environment: &[(&str, &str)]) -> Result<Proxy> {
        self.envoy_at(gateway, node_id, self.xds, environment).await
    }

    /// As [`Controller::envoy_with`], with so many worker threads.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn envoy_with_workers(
        &self,
        gateway: &str,
        node_id: &str,
        environment: &[(&str, &str)],
        workers: u8,
    ) -> Result<Proxy> {
        let bootstrap = self.bootstrap(gateway, node_id, self.xds)?;
        Proxy::start_with_workers(&bootstrap, environment, workers).await
    }

    /// As [`Controller::envoy_with`], with this xDS server.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn envoy_at(
        &self,
        gateway: &str,
        node_id: &str,
        xds: SocketAddr,
        environment: &[(&str, &str)],
    ) -> Result<Proxy> {
        let bootstrap = self.bootstrap(gateway, node_id, xds)?;
        Proxy::start(&bootstrap, environment).await
    }

    /// As [`Controller::envoy`], with the state-of-the-world protocol.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn envoy_of_the_world(&self, gateway: &str, node_id: &str) -> Result<Proxy> {
        let KeyEncryptionKey { variable, key, .. } = &self.key_encryption_key;
        let bootstrap = self.bootstrap(gateway, node_id, self.xds)?;
        let changed = bootstrap.replace("DELTA_GRPC", "GRPC");
        ensure!(changed != bootstrap, "no DELTA_GRPC in {bootstrap}");
        Proxy::start(&changed, &[(variable, key)]).await
    }

    fn bootstrap(&self, gateway: &str, node_id: &str, xds: SocketAddr) -> Result<String> {
        let namespace = self.config["namespaces"][0].as_str().context("no namespace")?;
        let (gateway, xds) = (format!("{namespace}/{gateway}"), xds.to_string());
        let arguments = [
            "--gateway",
            &gateway,
            "--xds",
            &xds,
            "--node-id",
            node_id,
            "--admin-port",
            "0",
            // Several Envoys share the machine's addresses.
            "--ready-port",
            "0",
        ];
        let arguments: Vec<&str> = ["controller", "bootstrap"].into_iter().chain(arguments).collect();
        let output = tools::run_limpet(&arguments, &[])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    }

    /// The address of a Gateway's listener.
    #[must_use]
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.http.ip(), port)
    }

    /// The Envoys' key-encryption key.
    #[must_use]
    pub fn key_encryption_key(&self) -> &KeyEncryptionKey {
        &self.key_encryption_key
    }

    /// The controller's keyring.
    #[must_use]
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// The address of the xDS server.
    #[must_use]
    pub fn xds(&self) -> SocketAddr {
        self.xds
    }

    /// The address of metrics and health.
    #[must_use]
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// The controller's answer at `/metrics`, `/healthz` or `/readyz`.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn page(&self, path: &str) -> Result<Answer> {
        get(self.http, path).await
    }

    /// The value of a metric as written; `name` includes the labels.
    ///
    /// # Errors
    /// If there is no such metric.
    pub async fn metric(&self, name: &str) -> Result<String> {
        let answer = self.page("/metrics").await?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(str::to_owned)
            .with_context(|| format!("no metric {name} in\n{text}"))
    }

    /// The log since the last start.
    ///
    /// # Errors
    /// If the controller is not running.
    pub fn log(&self) -> Result<String> {
        self.process()?.log()
    }
}

/// The value of `envoy.filter` in the controller's configuration for a build of the filter.
///
/// # Errors
/// If it was not built.
pub fn filter(build: Build) -> Result<Value> {
    Ok(match build {
        Build::Wasm => json!({"wasm": {"file": tools::wasm()?}}),
        Build::Module => json!({"module": {"file": tools::module()?}}),
    })
}

async fn get(address: SocketAddr, path: &str) -> Result<Answer> {
    let mut connection = Connection::open(address, false).await?;
    connection.send(Request::get(address, path)).await
}

/// Applies the roles that this configuration needs, in `namespace` in place of the files' own, also in the names of
/// cluster roles.
async fn install(output: Output, server: &ApiServer, namespace: &Namespace, config: &Value) -> Result<()> {
    let managed = !config["envoy"]["managed"].is_null();
    let (folder, system) = output.deployed();
    let folder = if config["contour"].is_null() { folder } else { "contour" };
    let file = tools::checkout()
        .join("controller/deploy")
        .join(folder)
        .join("rbac.yaml");
    let yaml = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let envoys = json!(namespace.cluster_role("limpet-envoys"));
    for object in manifest::objects(&yaml.replace(system, namespace.name()))? {
        if managed || object["kind"] != "RoleBinding" || object["metadata"]["name"] != envoys {
            server.admin().apply_object(&object).await?;
        }
    }
    Ok(())
}
