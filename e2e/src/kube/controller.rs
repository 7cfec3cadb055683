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

/// The service account there, and its roles.
const ACCOUNT: &str = "limpet-controller";

/// `limpet controller`, as the service account of `controller/deploy/rbac.yaml`, for one namespace. It ends with its value.
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

/// Who gets what the controller makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Envoys, over xDS.
    Envoy,
    /// Istio.
    Istio,
    /// Envoy Gateway.
    EnvoyGateway,
}

impl Output {
    /// As the command line has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Envoy => "envoy",
            Self::Istio => "istio",
            Self::EnvoyGateway => "envoy-gateway",
        }
    }

    /// Its folder in `controller/deploy`, and the namespace that this installs into.
    fn deployed(self) -> (&'static str, &'static str) {
        match self {
            Self::Envoy => ("", "limpet-system"),
            Self::Istio => ("istio", "limpet-istio"),
            Self::EnvoyGateway => ("envoy-gateway", "limpet-envoy-gateway"),
        }
    }
}

impl Controller {
    /// Installs the roles, starts it, and waits until it is ready. It serves the classes of [`Namespace::gateway_class`]. `change` may
    /// change its configuration.
    ///
    /// # Errors
    /// When it does not come up; the message has the end of its log.
    pub async fn start(server: &ApiServer, namespace: &Namespace, change: impl FnOnce(&mut Value)) -> Result<Self> {
        let mut controller = Self::prepare(server, namespace, change).await?;
        controller.launch()?;
        controller.until_ready().await?;
        Ok(controller)
    }

    /// As [`Controller::start`], without starting it.
    ///
    /// # Errors
    /// When the roles are refused.
    pub async fn prepare(server: &ApiServer, namespace: &Namespace, change: impl FnOnce(&mut Value)) -> Result<Self> {
        Self::prepare_for(Output::Envoy, server, namespace, change).await
    }

    /// As [`Controller::prepare`], for another control plane, whose proxies have their key-encryption key from the environment, as Envoys
    /// have. Its classes are those of that control plane.
    ///
    /// # Errors
    /// When the roles are refused.
    pub async fn prepare_for(
        output: Output,
        server: &ApiServer,
        namespace: &Namespace,
        change: impl FnOnce(&mut Value),
    ) -> Result<Self> {
        install(output, server, namespace).await?;
        let user = server.service_account(namespace.name(), ACCOUNT).await?;
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
            // Every test's Envoys have ports of their own.
            "envoy": {"filter": filter()?, "listenAddress": ip, "keyEncryptionKeyEnv": key_encryption_key.variable},
            "keyring": {
                "file": keyring.path(),
                "keyEncryptionKey": {"id": key_encryption_key.id, "env": key_encryption_key.variable},
            },
        });
        change(&mut config);
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

    /// Adds to the environment of the next start.
    pub fn environment(&mut self, variable: &str, value: &str) {
        self.environment.push((variable.to_owned(), value.to_owned()));
    }

    /// Has its log written as JSON from the next start on.
    pub fn log_as_json(&mut self) {
        self.arguments = vec!["--log-format".to_owned(), "json".to_owned()];
    }

    /// Starts it, without waiting.
    ///
    /// # Errors
    /// When it can not be started.
    pub fn launch(&mut self) -> Result<()> {
        let file = self.directory.path().join("controller.yaml");
        std::fs::write(&file, self.config.to_string())?;
        let mut command = Command::new(tools::limpet()?);
        command
            .args(["controller", "--output", self.output.name()])
            .arg("--config")
            .arg(file)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(&self.arguments)
            .env(&self.key_encryption_key.variable, &self.key_encryption_key.key)
            // As its Deployment says: a name that no other replica has, and the same one when it is started again.
            .env("POD_NAME", format!("controller-{}", self.http.ip()))
            .envs(self.environment.iter().map(|(variable, value)| (variable, value)));
        self.starts += 1;
        let name = format!("controller-{}", self.starts);
        self.process = Some(Daemon::start(&name, &mut command, self.directory.path())?);
        Ok(())
    }

    /// Waits until it has published the first complete state.
    ///
    /// # Errors
    /// When that does not happen; the message has the end of its log.
    pub async fn until_ready(&mut self) -> Result<()> {
        let http = self.http;
        let process = self.process.as_mut().context("not started")?;
        let ready = async || get(http, "/readyz").await.ok().filter(|answer| answer.status == 200);
        process.until_ready(ready).await.map(drop)
    }

    /// Kills it at once, as a node that fails does.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Ends it as Kubernetes does, by SIGTERM, and waits until it has ended.
    ///
    /// # Errors
    /// When it does not end, or not well.
    pub async fn end(&mut self) -> Result<()> {
        let process = self.process.take().context("not started")?;
        process.terminate().await
    }

    /// The process, to be stopped for a while.
    ///
    /// # Errors
    /// When it does not run.
    pub fn process(&self) -> Result<&Daemon> {
        self.process.as_ref().context("not started")
    }

    /// A stock Envoy of a Gateway, with the bootstrap that `limpet controller bootstrap` prints. It may not have its configuration yet.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn envoy(&self, gateway: &str, node_id: &str) -> Result<Proxy> {
        self.envoy_by(gateway, node_id, self.xds).await
    }

    /// As [`Controller::envoy`], with another way to the xDS server.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn envoy_by(&self, gateway: &str, node_id: &str, xds: SocketAddr) -> Result<Proxy> {
        let KeyEncryptionKey { variable, key, .. } = &self.key_encryption_key;
        self.envoy_at(gateway, node_id, xds, &[(variable, key)]).await
    }

    /// As [`Controller::envoy`], with this in its environment, and no other key-encryption key.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn envoy_with(&self, gateway: &str, node_id: &str, environment: &[(&str, &str)]) -> Result<Proxy> {
        self.envoy_at(gateway, node_id, self.xds, environment).await
    }

    /// As [`Controller::envoy_with`], with another way to the xDS server.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn envoy_at(
        &self,
        gateway: &str,
        node_id: &str,
        xds: SocketAddr,
        environment: &[(&str, &str)],
    ) -> Result<Proxy> {
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
        ];
        let arguments: Vec<&str> = ["controller", "bootstrap"].into_iter().chain(arguments).collect();
        let output = tools::run_limpet(&arguments, &[])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Proxy::start(&String::from_utf8(output.stdout)?, environment).await
    }

    /// Where a Gateway's Envoy listens on this port.
    #[must_use]
    pub fn address(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.http.ip(), port)
    }

    /// The key-encryption key of its Envoys, where a test starts one of its own.
    #[must_use]
    pub fn key_encryption_key(&self) -> &KeyEncryptionKey {
        &self.key_encryption_key
    }

    /// The keyring that it reads.
    #[must_use]
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Where it serves xDS.
    #[must_use]
    pub fn xds(&self) -> SocketAddr {
        self.xds
    }

    /// Where it serves metrics and health.
    #[must_use]
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// What one of its pages says: `/metrics`, `/healthz` or `/readyz`.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn page(&self, path: &str) -> Result<Answer> {
        get(self.http, path).await
    }

    /// The value of a metric as it is written, by its name with labels as `/metrics` has it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn metric(&self, name: &str) -> Result<String> {
        let answer = self.page("/metrics").await?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(str::to_owned)
            .with_context(|| format!("no metric {name} in\n{text}"))
    }

    /// All it has said since it was started last.
    ///
    /// # Errors
    /// When it does not run.
    pub fn log(&self) -> Result<String> {
        self.process()?.log()
    }
}

/// The build of the filter under test, as the controller's configuration has it.
fn filter() -> Result<Value> {
    Ok(match Build::tested()? {
        Build::Wasm => json!({"wasm": {"file": tools::wasm()?}}),
        Build::Module => json!({"module": {"file": tools::module()?}}),
    })
}

async fn get(address: SocketAddr, path: &str) -> Result<Answer> {
    let mut connection = Connection::open(address, false).await?;
    connection.send(Request::get(address, path)).await
}

/// Applies the roles, with a namespace in the place of the one that they are installed into, and binds those of the whole cluster under its name.
async fn install(output: Output, server: &ApiServer, namespace: &Namespace) -> Result<()> {
    let (folder, system) = output.deployed();
    let file = tools::checkout()
        .join("controller/deploy")
        .join(folder)
        .join("rbac.yaml");
    let yaml = std::fs::read_to_string(&file).with_context(|| format!("can not read {}", file.display()))?;
    for mut object in manifest::objects(&yaml.replace(system, namespace.name()))? {
        if object["kind"] == "ClusterRoleBinding" {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            object["metadata"]["name"] = format!("{name}-{}", namespace.name()).into();
        }
        server.admin().apply_object(&object).await?;
    }
    Ok(())
}
