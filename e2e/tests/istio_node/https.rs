//! HTTPS at the gateway, whose certificate Istio distributes.

use anyhow::{Result, ensure};
use limpet_e2e::{Connection, Tls, poll};
use serde_json::json;

use crate::site::{COOKIE, Site, host};

#[tokio::test]
async fn sessions_hold_over_https() -> Result<()> {
    let site = Site::start("https", &json!({})).await?;
    let made = rcgen::generate_simple_self_signed([host(site.name)])?;
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "kubernetes.io/tls",
        "metadata": {"name": "shop"},
        "stringData": {"tls.crt": certificate, "tls.key": key},
    });
    site.client.apply_object(&secret).await?;
    let listeners = json!({"spec": {"listeners": [
        {"name": "http", "protocol": "HTTP", "port": 80},
        {
            "name": "https",
            "protocol": "HTTPS",
            "port": 443,
            "tls": {"mode": "Terminate", "certificateRefs": [{"name": "shop"}]},
        },
    ]}});
    site.client.merge("Gateway", "web", &listeners).await?;
    site.sessions().await?;

    let mut address = site.address;
    address.set_port(443);
    let tls = Tls::new(&certificate, &host(site.name))?;
    for http2 in [false, true] {
        let mut visitor = site.visitor();
        let begun = async || {
            let mut connection = Connection::open_tls(address, &tls, http2).await.ok()?;
            let first = connection.send(site.request_at(address)).await.ok()?;
            first.set_cookie(COOKIE).map(|cookie| (connection, first, cookie))
        };
        let (mut connection, first, cookie) = poll::until("a session over HTTPS", begun).await?;
        let secure = cookie.attributes.iter().any(|attribute| attribute == "Secure");
        ensure!(secure, "HTTP/2 {http2}: {:?}", cookie.attributes);
        visitor.take(&first);
        for _ in 0..10 {
            let answer = connection.send(visitor.bring(site.request_at(address))).await?;
            ensure!(answer.backend() == first.backend(), "HTTP/2 {http2}: moved");
            visitor.take(&answer);
        }
        // The same session over plain HTTP: both listeners have the same routes.
        ensure!(
            site.visit(&mut visitor).await?.backend() == first.backend(),
            "HTTP/2 {http2}: moved"
        );
    }
    site.end().await
}
