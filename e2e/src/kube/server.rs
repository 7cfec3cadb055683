//! A running API server.

use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use hyper::Method;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::certificates::Certificates;
use super::daemon::Daemon;
use super::{Client, Network, User};
use crate::{Tls, tools};

/// A kube-apiserver with RBAC and its own etcd, at its own address, until it is dropped.
#[derive(Debug)]
pub struct ApiServer {
    process: Option<Daemon>,
    etcd: Daemon,
    address: SocketAddr,
    etcd_address: SocketAddr,
    certificates: Certificates,
    tls: Tls,
    admin: User,
    has_kubelets: bool,
    directory: TempDir,
    _network: Network,
}

/// A request to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditedRequest {
    /// The verb, such as `list`.
    pub verb: String,
    /// The path and query.
    pub uri: String,
    /// The time since midnight.
    pub at: Duration,
}

const AUDIT_LOG: &str = "audit.log";

const SERVICES: &str = "10.67.0.0/16";

/// The names of an API server in pods; the address is the first of `SERVICES`.
const NAMES_IN_PODS: [&str; 3] = ["10.67.0.1", "kubernetes.default", "kubernetes.default.svc"];

/// One line for each request of a service account.
const AUDIT_POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [ResponseStarted, ResponseComplete, Panic]
rules:
- {level: Metadata, userGroups: ['system:serviceaccounts']}
- {level: None}
";

impl ApiServer {
    /// Starts etcd and an empty API server, and waits until it is ready.
    ///
    /// # Errors
    /// If they do not start.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// As [`ApiServer::start`], with kubelets, and with these users (name and group).
    pub(super) async fn start_with(components: &[(&str, &str)]) -> Result<Self> {
        let network = Network::claim()?;
        let ip = network.next()?;
        let directory = TempDir::with_prefix("limpet-e2e-")?;
        let etcd_address = SocketAddr::new(ip, 2379);
        let admin = User {
            name: "admin".to_owned(),
            token: "admin-of-the-test-bed".to_owned(),
        };
        let mut users = vec![(admin.clone(), "system:masters")];
        users.extend(components.iter().map(|(name, group)| (component(name), *group)));
        let line = |(user, group): &(User, &str)| format!("{},{},{},{group}\n", user.token, user.name, user.name);
        std::fs::write(
            directory.path().join("users.csv"),
            users.iter().map(line).collect::<String>(),
        )?;
        std::fs::write(directory.path().join("audit.yaml"), AUDIT_POLICY)?;
        let own = ip.to_string();
        let names = [&[own.as_str()], NAMES_IN_PODS.as_slice()].concat();
        let certificates = Certificates::make(&names, directory.path())?;
        let mut server = Self {
            process: None,
            etcd: start_etcd(ip, etcd_address, directory.path())?,
            address: SocketAddr::new(ip, 6443),
            etcd_address,
            tls: Tls::new(&certificates.authority, &own)?,
            certificates,
            admin,
            has_kubelets: !components.is_empty(),
            directory,
            _network: network,
        };
        server.start_again().await?;
        Ok(server)
    }

    /// Checks that both run: without etcd, the API server answers with timeouts.
    pub(super) fn ensure_running(&self) -> Result<()> {
        self.etcd.ensure_running()?;
        self.process.iter().try_for_each(Daemon::ensure_running)
    }

    /// Kills the API server until [`ApiServer::start_again`]. The data stay.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts the API server again, with the same address and data.
    ///
    /// # Errors
    /// If it runs, or does not start.
    pub async fn start_again(&mut self) -> Result<()> {
        ensure!(self.process.is_none(), "this API server is already running");
        let mut process = self.launch()?;
        let client = self.admin();
        process
            .until_ready(async || client.call(Method::GET, "/readyz?verbose", "", None).await.ok())
            .await?;
        self.process = Some(process);
        Ok(())
    }

    /// The API server's process.
    ///
    /// # Errors
    /// If it is not running.
    pub fn process(&self) -> Result<&Daemon> {
        self.process.as_ref().context("this API server is stopped")
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A client with all rights.
    #[must_use]
    pub fn admin(&self) -> Client {
        self.client(self.admin.clone())
    }

    /// A client with the rights of this user.
    #[must_use]
    pub fn client(&self, user: User) -> Client {
        Client::new(self.address, self.tls.clone(), user)
    }

    /// A user with the token of this service account, which is created if needed.
    ///
    /// # Errors
    /// If it cannot be created.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<User> {
        let admin = self.admin().in_namespace(namespace);
        admin
            .apply_object(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}))
            .await?;
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token");
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = admin
            .call(Method::POST, &path, "application/json", Some(&request))
            .await?;
        let token = answer["status"]["token"].as_str().context("no token")?;
        Ok(User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            token: token.to_owned(),
        })
    }

    /// Writes a kubeconfig file for this user, kept as long as the API server.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn kubeconfig(&self, user: &User) -> Result<PathBuf> {
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test-bed",
            "contexts": [{"name": "test-bed", "context": {"cluster": "test-bed", "user": user.name}}],
            "clusters": [{"name": "test-bed", "cluster": {
                "server": format!("https://{}", self.address),
                "certificate-authority-data": BASE64_STANDARD.encode(&self.certificates.authority),
            }}],
            "users": [{"name": user.name, "user": {"token": user.token}}],
        });
        let file = self
            .directory
            .path()
            .join(format!("{}.kubeconfig", user.name.replace(':', "-")));
        std::fs::write(&file, config.to_string())?;
        Ok(file)
    }

    /// Writes a kubeconfig file for a user with all rights.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn admin_kubeconfig(&self) -> Result<PathBuf> {
        self.kubeconfig(&self.admin)
    }

    /// The API server's log.
    ///
    /// # Errors
    /// If it is not running.
    pub fn log(&self) -> Result<String> {
        self.process.as_ref().context("this API server is stopped")?.log()
    }

    /// This user's requests to the API server, in order.
    ///
    /// # Errors
    /// If the audit log cannot be read.
    pub fn requests_of(&self, user: &str) -> Result<Vec<AuditedRequest>> {
        let log = std::fs::read_to_string(self.directory.path().join(AUDIT_LOG))?;
        // The last line may be incomplete.
        let events = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(events
            .filter(|event| event["user"]["username"] == user)
            .map(|event| AuditedRequest {
                verb: text(&event["verb"]),
                uri: text(&event["requestURI"]),
                at: since_midnight(event["requestReceivedTimestamp"].as_str().unwrap_or_default()),
            })
            .collect())
    }

    pub(super) fn directory(&self) -> &Path {
        self.directory.path()
    }

    #[cfg(feature = "node")]
    pub(super) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    #[cfg(feature = "node")]
    pub(super) fn component_kubeconfig(&self, name: &str) -> Result<PathBuf> {
        self.kubeconfig(&component(name))
    }

    fn launch(&self) -> Result<Daemon> {
        let directory = self.directory.path();
        let (ip, certificates) = (self.address.ip().to_string(), &self.certificates);
        let mut command = Command::new(tools::kube("kube-apiserver")?);
        // Otherwise garbage collection takes a sixth of a start's processor time.
        command.env("GOGC", "200");
        let mut flag = |name: &str, value: &dyn AsRef<OsStr>| {
            let mut flag = OsString::from(format!("--{name}="));
            flag.push(value);
            command.arg(flag);
        };
        flag("etcd-servers", &format!("http://{}", self.etcd_address));
        flag("bind-address", &ip);
        flag("advertise-address", &ip);
        flag("secure-port", &self.address.port().to_string());
        flag("service-cluster-ip-range", &SERVICES);
        flag("tls-cert-file", &certificates.server);
        flag("tls-private-key-file", &certificates.server_key);
        flag("cert-dir", &directory);
        flag("token-auth-file", &directory.join("users.csv"));
        flag("audit-policy-file", &directory.join("audit.yaml"));
        flag("audit-log-path", &directory.join(AUDIT_LOG));
        flag("service-account-issuer", &"https://test-bed");
        flag("service-account-key-file", &certificates.token_public_key);
        flag("service-account-signing-key-file", &certificates.token_key);
        if self.has_kubelets {
            flag("authorization-mode", &"Node,RBAC");
            // A node's name is no host name here.
            flag("kubelet-preferred-address-types", &"InternalIP");
        } else {
            flag("authorization-mode", &"RBAC");
            // Otherwise pods wait for the service account `default`, whose controller does not run here.
            flag("disable-admission-plugins", &"ServiceAccount");
        }
        Daemon::start("kube-apiserver", &mut command, directory)
    }
}

fn component(name: &str) -> User {
    User {
        name: name.to_owned(),
        token: format!("token-of-{name}"),
    }
}

fn start_etcd(ip: IpAddr, address: SocketAddr, directory: &Path) -> Result<Daemon> {
    let mut command = Command::new(tools::kube("etcd")?);
    let (clients, peers) = (format!("http://{address}"), format!("http://{ip}:2380"));
    command
        // The data must survive a restart of the API server only.
        .args(["--unsafe-no-fsync", "--log-level=warn", "--name=etcd", "--data-dir"])
        .arg(directory.join("etcd"))
        .args(["--listen-client-urls", &clients, "--advertise-client-urls", &clients])
        .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", &peers])
        .args(["--initial-cluster", &format!("etcd={peers}")]);
    Daemon::start("etcd", &mut command, directory)
}

/// The time in a timestamp such as `2026-11-23T13:10:35.123456Z`.
fn since_midnight(timestamp: &str) -> Duration {
    let time = timestamp
        .split_once('T')
        .map_or("", |(_, time)| time.trim_end_matches('Z'));
    let parts = time.split(':').map(|part| part.parse().unwrap_or_default());
    Duration::from_secs_f64(parts.fold(0.0, |sum: f64, part: f64| sum * 60.0 + part))
}
