//! xDS certificates end, or are replaced, while an Envoy runs.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_api::ObjectName;
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Proxy, Release};
use limpet_e2e::{poll, tools};
use limpet_model::{envoys_certificate, envoys_uri};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::wire::Wire;
use super::{crowd, nothing_happened, objects, redirect, until_programmed, until_redirected, until_sessions, updates};
use crate::certificates::{Authority, Certificate};
use crate::kept::until_event;
use crate::mounted;

const HOST: &str = "controller.limpet";
const SERVER: &str = "limpet_xds_certificate_expiry_seconds{certificate=\"server\"}";
const CLIENT: &str = "limpet_xds_certificate_expiry_seconds{certificate=\"client\"}";

fn mount(folder: &Path, version: &str, authority: &str, made: &Certificate) -> Result<()> {
    let files = [
        ("ca.crt", authority),
        ("tls.crt", &made.certificate),
        ("tls.key", &made.key),
    ];
    mounted::mount(folder, version, &files)
}

/// Its Envoy reaches the controller by mutual TLS and a wire. The certificates are in the folders `server` and
/// `client`.
struct TlsSite {
    namespace: Namespace,
    controller: Controller,
    envoy: Proxy,
    wire: Wire,
    _pods: [Pod; 2],
}

impl TlsSite {
    /// `host` is the name in the server's certificate.
    async fn start(namespace: Namespace, cluster: &Cluster, folder: &Path, host: &str) -> Result<Self> {
        let pods = objects(&namespace).await?;
        let files = |of: &str, name: &str| folder.join(of).join(name).display().to_string();
        let controller = Controller::start(cluster.server(), &namespace, |config| {
            let files = |name: &str| files("server", name);
            let tls = json!({"certificate": files("tls.crt"), "key": files("tls.key"), "clientCa": files("ca.crt")});
            config["xds"] = json!({"address": config["xds"]["address"], "tls": tls});
        })
        .await?;
        let way = SocketAddr::new(namespace.next_address()?, 18000);
        let wire = Wire::lay(way, controller.xds()).await?;

        let (gateway, way) = (format!("{}/web", namespace.name()), way.to_string());
        let files = |name: &str| files("client", name);
        let etc = folder.join("etc").display().to_string();
        let (ca, certificate, key) = (files("ca.crt"), files("tls.crt"), files("tls.key"));
        let mut arguments = vec!["controller", "bootstrap", "--gateway", &gateway, "--xds", &way];
        arguments.extend(["--node-id", "one", "--admin-port", "0", "--server-name", host]);
        arguments.extend(["--ca", &ca, "--certificate", &certificate, "--key", &key]);
        arguments.extend(["--write", &etc]);
        let output = tools::run_limpet(&arguments, &[])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let kek = controller.key_encryption_key();
        let bootstrap = fs::read_to_string(folder.join("etc/envoy.yaml"))?;
        let mut envoy = Proxy::start(&bootstrap, &[(&kek.variable, &kek.key)]).await?;
        envoy.until_ready().await?;
        until_sessions(&controller).await?;
        until_programmed(&namespace, "web", "True/Programmed").await?;
        Ok(Self {
            namespace,
            controller,
            envoy,
            wire,
            _pods: pods,
        })
    }

    async fn seconds_left(&self, metric: &str) -> Result<f64> {
        Ok(self.controller.metric(metric).await?.parse()?)
    }

    async fn until_left(&self, metric: &str, is_right: impl Fn(f64) -> bool) -> Result<()> {
        let left = async || self.seconds_left(metric).await.ok().filter(|left| is_right(*left));
        poll::until(&format!("another value of {metric}"), left).await.map(drop)
    }

    async fn reconnect(&mut self) -> Result<()> {
        self.wire.cut().await;
        self.until_programmed("False/Pending").await?;
        self.wire.mend().await
    }

    async fn until_programmed(&self, expected: &str) -> Result<Value> {
        until_programmed(&self.namespace, "web", expected).await
    }

    /// Waits until Envoy has a change that is made now.
    async fn until_changed(&self, name: &str) -> Result<()> {
        self.namespace.apply(&redirect(name)).await?;
        until_redirected(&self.controller, &format!("/{name}"), true).await
    }
}

fn changed<'a>(gateway: &'a Value, condition: &str) -> Option<&'a Value> {
    let mut conditions = gateway["status"]["conditions"].as_array()?.iter();
    let found = conditions.find(|one| one["type"] == condition)?;
    Some(&found["lastTransitionTime"])
}

#[tokio::test]
async fn an_envoy_reconnects_with_a_new_certificate() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("renewed").await?;
    let folder = TempDir::with_prefix("limpet-e2e-")?;
    let [server, client] = ["server", "client"].map(|name| folder.path().join(name));
    let (old, new) = (Authority::new("old")?, Authority::new("new")?);
    let uri = envoys_uri(&ObjectName::new(namespace.name(), "web"));
    let sign = |by: &Authority| by.sign_all(&[HOST, &uri]);
    for side in [&server, &client] {
        mount(side, "1", &old.certificate, &sign(&old)?)?;
    }
    let mut site = TlsSite::start(namespace, cluster, folder.path(), HOST).await?;
    let crowd = crowd(&site.controller).await?;

    // Neither side accepts the other's old certificate any more.
    for side in [&server, &client] {
        mount(side, "2", &new.certificate, &sign(&new)?)?;
    }
    site.reconnect().await?;
    site.until_changed("renewed").await?;
    site.until_programmed("True/Programmed").await?;
    nothing_happened(crowd).await
}

/// The wire lasts, so only the server ends the connection.
#[tokio::test]
async fn a_renewed_certificate_is_shown_before_anybody_is_warned() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("shown").await?;
    let folder = TempDir::with_prefix("limpet-e2e-")?;
    let [server, client] = ["server", "client"].map(|name| folder.path().join(name));
    let authority = Authority::new("short")?;
    let uri = envoys_uri(&ObjectName::new(namespace.name(), "web"));
    let names = [HOST, &uri];
    mount(&server, "1", &authority.certificate, &authority.sign_all(&names)?)?;
    // The server asks for another one after 70 of 100 seconds, and warns after 75.
    let [ago, left] = [40, 60].map(Duration::from_secs);
    mount(
        &client,
        "1",
        &authority.certificate,
        &authority.sign_within(&names, ago, left)?,
    )?;
    let site = TlsSite::start(namespace, cluster, folder.path(), HOST).await?;
    let crowd = crowd(&site.controller).await?;
    mount(&client, "2", &authority.certificate, &authority.sign_all(&names)?)?;
    let before = updates(&site.envoy).await?;
    let programmed = site.until_programmed("True/Programmed").await?;
    site.until_left(CLIENT, |left| left < 60.0).await?;

    let is_new = async || site.seconds_left(CLIENT).await.ok().filter(|left| *left > 60.0);
    poll::until_within(2 * left, "the new certificate", is_new).await?;
    let log = site.controller.log()?;
    ensure!(log.contains("its certificate may have been renewed"), "{log}");
    ensure!(!log.contains("a certificate of xDS must be renewed"), "{log}");
    assert_eq!(updates(&site.envoy).await?, before, "Envoy got a new configuration");
    let still = site.until_programmed("True/Programmed").await?;
    let [since, still_since] = [&programmed, &still].map(|gateway| changed(gateway, "Programmed"));
    assert_eq!(since, still_since, "Programmed was False for a moment");
    site.until_changed("shown").await?;
    nothing_happened(crowd).await
}

/// What `docs/how-to/operate-the-controller.md` says of certificates that ended.
#[tokio::test]
async fn expired_certificates_stop_changes_and_no_session() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("expired").await?;
    let folder = TempDir::with_prefix("limpet-e2e-")?;
    let [server, client] = ["server", "client"].map(|name| folder.path().join(name));
    let authority = Authority::new("short")?;
    let left = Duration::from_secs(40);
    let uri = envoys_uri(&ObjectName::new(namespace.name(), "web"));
    let names = [HOST, &uri];
    for side in [&server, &client] {
        mount(side, "1", &authority.certificate, &authority.sign_until(&names, left)?)?;
    }
    let mut site = TlsSite::start(namespace, cluster, folder.path(), HOST).await?;
    let crowd = crowd(&site.controller).await?;

    // The warning comes before.
    let pod = format!("controller-{}", site.controller.http().ip());
    let file = server.join("tls.crt").display().to_string();
    until_event(&site.namespace, "Pod", &pod, "CertificateEnds", &file).await?;
    until_event(&site.namespace, "Pod", &pod, "CertificateEnds", "of the node one of").await?;
    let log = site.controller.log()?;
    ensure!(log.contains("a certificate of xDS must be renewed"), "{log}");

    // Connections stay, and get changes.
    site.until_left(SERVER, |left| left < 15.0).await?;
    site.until_left(SERVER, |left| left < 0.0).await?;
    site.until_left(CLIENT, |left| left < 0.0).await?;
    site.until_changed("after-the-end").await?;
    site.until_programmed("True/Programmed").await?;

    // New connections are refused. Envoy serves with what it has.
    site.reconnect().await?;
    mount(&server, "2", &authority.certificate, &authority.sign_all(&names)?)?;
    // With its new certificate, the server learns that the client's ended.
    let told = async || {
        site.controller
            .log()
            .ok()?
            .contains("the handshake failed")
            .then_some(())
    };
    poll::until("a handshake that fails", told).await?;
    site.until_left(SERVER, |left| left > 0.0).await?;
    crowd.rounds(3).await?;
    ensure!(
        site.seconds_left(CLIENT).await.is_err(),
        "a client with an old certificate is connected"
    );

    mount(&client, "2", &authority.certificate, &authority.sign_all(&names)?)?;
    site.until_changed("renewed").await?;
    site.until_programmed("True/Programmed").await?;
    site.until_left(CLIENT, |left| left > 0.0).await?;
    nothing_happened(crowd).await
}

/// The authority and the certificate in the Secrets of the server and of Envoy, by `certificates.sh`.
fn made_by_script(folder: &Path, namespace: &str) -> Result<[(String, Certificate); 2]> {
    let made = Command::new(tools::checkout().join("controller/deploy/certificates.sh"))
        .arg(folder)
        .arg(format!("{namespace}/web"))
        .env("NAMESPACE", namespace)
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let secrets: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(made.stdout)?)?;
    let of = |name: &str| -> Result<(String, Certificate)> {
        let secret = secrets.iter().find(|secret| secret["metadata"]["name"] == name);
        let texts: BTreeMap<_, _> = mounted::texts(secret.with_context(|| format!("no Secret {name}"))?)?
            .into_iter()
            .collect();
        let certificate = Certificate {
            certificate: texts["tls.crt"].clone(),
            key: texts["tls.key"].clone(),
        };
        Ok((texts["ca.crt"].clone(), certificate))
    };
    let client = envoys_certificate(&ObjectName::new(namespace, "web"));
    Ok([of("limpet-xds-server")?, of(&client)?])
}

#[tokio::test]
async fn a_renewal_by_the_script_interrupts_nothing() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("script").await?;
    let folder = TempDir::with_prefix("limpet-e2e-")?;
    let [server, client, authority] = ["server", "client", "authority"].map(|name| folder.path().join(name));
    let first = made_by_script(&authority, namespace.name())?;
    for (side, (ca, made)) in [&server, &client].into_iter().zip(&first) {
        mount(side, "1", ca, made)?;
    }
    let host = format!("limpet-controller.{}", namespace.name());
    let mut site = TlsSite::start(namespace, cluster, folder.path(), &host).await?;
    let crowd = crowd(&site.controller).await?;

    // The authority's certificate is renewed, as if it ended soon, with the same key.
    fs::remove_file(authority.join("ca.crt"))?;
    let second = made_by_script(&authority, site.namespace.name())?;
    for ((old_ca, old), (new_ca, new)) in first.iter().zip(&second) {
        assert_ne!((old_ca, &old.certificate), (new_ca, &new.certificate));
    }
    // In turn, as by kubelets: new and old certificates meet in both directions.
    for (side, (ca, made), name) in [(&server, &second[0], "server"), (&client, &second[1], "client")] {
        mount(side, "2", ca, made)?;
        site.reconnect().await?;
        site.until_changed(&format!("renewed-{name}")).await?;
        site.until_programmed("True/Programmed").await?;
    }
    nothing_happened(crowd).await
}
