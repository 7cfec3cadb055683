//! Certificates of HTTPS listeners: missing rights, and Secrets that change.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Release};
use limpet_e2e::{Connection, Request, Tls, poll};
use serde_json::{Value, json};

use super::{crowd, message, nothing_happened, objects, until_sessions};
use crate::certificates::Authority;
use crate::site::condition;

const HOST: &str = "shop.example";

/// Waits for this `ResolvedRefs` of the listener `https`. Returns its message.
async fn until_resolved(namespace: &Namespace, expected: &str) -> Result<String> {
    let conditions = |object: &Value| {
        let listeners = object["status"]["listeners"].as_array();
        let found = listeners
            .into_iter()
            .flatten()
            .find(|listener| listener["name"] == "https");
        found.map_or(Value::Null, |listener| listener["conditions"].clone())
    };
    let is_so = |object: &Value| condition(&conditions(object), "ResolvedRefs") == expected;
    let gateway = namespace.until(expected, "Gateway", "web", is_so).await?;
    Ok(message(&conditions(&gateway), "ResolvedRefs").to_owned())
}

/// Fails unless this authority signed the server's certificate.
async fn ask(controller: &Controller, trusts: &Authority) -> Result<()> {
    let (address, tls) = (controller.address(8443), Tls::new(&trusts.certificate, HOST)?);
    let mut connection = Connection::open_tls(address, &tls, false).await?;
    let answer = connection.send(Request::get(address, "/")).await?;
    ensure!(answer.status == 200, "{}", answer.status);
    answer.backend().map(drop).context("no backend")
}

#[tokio::test]
async fn a_certificate_needs_a_right_and_may_change() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("https").await?;
    let _pods = objects(&namespace).await?;
    let (old, new) = (Authority::new("old")?, Authority::new("new")?);
    namespace.apply_object(&old.sign(HOST)?.secret("shop")).await?;
    let listeners = json!({"spec": {"listeners": [
        {"name": "http", "port": 8080, "protocol": "HTTP"},
        {"name": "https", "port": 8443, "protocol": "HTTPS", "tls": {"certificateRefs": [{"name": "shop"}]}},
    ]}});
    namespace.merge("Gateway", "web", &listeners).await?;
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    until_sessions(&controller).await?;
    let crowd = crowd(&controller).await?;

    let words = until_resolved(&namespace, "False/InvalidCertificateRef").await?;
    let name = format!("{}/shop", namespace.name());
    assert!(words.contains("spec.listeners[1].tls.certificateRefs[0]"), "{words}");
    assert!(
        words.contains(&format!("grant list and watch on the Secret {name}")),
        "{words}"
    );
    // In its own namespace, the controller may list Secrets and not watch them.
    poll::until("the certificate as it was listed", async || {
        ask(&controller, &old).await.ok()
    })
    .await?;

    namespace.bind("limpet-certificates").await?;
    until_resolved(&namespace, "True/ResolvedRefs").await?;
    ask(&controller, &old).await.context("the certificate")?;
    assert!(ask(&controller, &new).await.is_err());

    namespace.apply_object(&new.sign(HOST)?.secret("shop")).await?;
    poll::until("the other certificate", async || ask(&controller, &new).await.ok()).await?;
    assert!(ask(&controller, &old).await.is_err());

    // A Secret without a certificate affects no listener, until it is gone.
    let garbage = json!({"stringData": {"tls.crt": "none"}});
    namespace.merge("v1/Secret", "shop", &garbage).await?;
    let words = until_resolved(&namespace, "False/InvalidCertificateRef").await?;
    assert!(words.contains("tls.crt: expected a certificate in PEM"), "{words}");
    ask(&controller, &new).await.context("the last valid certificate")?;
    namespace.delete("v1/Secret", "shop").await?;
    let refuses = async || ask(&controller, &new).await.is_err().then_some(());
    poll::until("no certificate", refuses).await?;
    assert!(!controller.log()?.contains("PRIVATE KEY"));
    nothing_happened(crowd).await
}
