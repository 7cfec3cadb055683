use std::sync::Arc;

use anyhow::Result;
use limpet_api::ObjectName;
use limpet_e2e::{Connection, Tls};
use limpet_model::Certificate;
use limpet_model::graph::Listener;
use zeroize::Zeroizing;

use super::GraphSite;
use super::graphs::{listener, listening, to, with_session};

/// Self-signed, and as an authority in PEM.
fn certificate(host: &str) -> Result<(Certificate, String)> {
    let made = rcgen::generate_simple_self_signed([host.to_owned()])?;
    let chain = made.cert.pem();
    let certificate = Certificate {
        chain: Arc::from(chain.as_bytes()),
        key: Arc::new(Zeroizing::new(made.signing_key.serialize_pem().into_bytes())),
    };
    Ok((certificate, chain))
}

#[tokio::test]
async fn the_server_name_selects_the_listener_and_sessions_stay() -> Result<()> {
    let with_tls = |name: &str, hostname: &str, cluster: &str| Listener {
        certificates: Some(vec![ObjectName::new("shop", name)]),
        ..listener(name, hostname, vec![with_session("", "web", vec![to(cluster, 1)])])
    };
    let listeners = vec![
        with_tls("one", "one.example.com", "v1"),
        with_tls("rest", "*.example.com", "v2"),
    ];
    let mut graph = listening([(443, listeners)].into());
    let mut roots = Vec::new();
    for (name, host) in [("one", "one.example.com"), ("rest", "*.example.com")] {
        let (certificate, root) = certificate(host)?;
        graph
            .certificates
            .insert(ObjectName::new("shop", name), certificate.into());
        roots.push(root);
    }
    let site = GraphSite::start(&graph).await?;
    let address = site.envoy.listener("https-443")?;
    for (host, root, service) in [
        ("one.example.com", &roots[0], "v1"),
        ("two.example.com", &roots[1], "v2"),
    ] {
        for http2 in [false, true] {
            let tls = Tls::new(root, host)?;
            let mut connection = Connection::open_tls(address, &tls, http2).await?;
            let get = || site.get("https-443", "/").map(|request| request.header("host", host));
            let first = connection.send(get()?).await?;
            let cookie = first
                .set_cookie("web")
                .map(|cookie| (cookie.value.clone(), cookie.attributes.contains("Secure")));
            let Some((token, secure)) = cookie else {
                anyhow::bail!("{host}: the answer sets no cookie: {first:?}");
            };
            assert!(secure, "{host}");
            assert!(
                first.backend().is_some_and(|backend| backend.starts_with(service)),
                "{host}: {first:?}"
            );
            for _ in 0..10 {
                let next = connection.send(get()?.cookie(format!("web={token}"))).await?;
                assert_eq!(next.backend(), first.backend());
            }
            let nobody = connection.send(site.get("https-443", "/")?).await?;
            assert_eq!(
                nobody.status, 404,
                "{host}: the listener accepts a host that is not its own"
            );
        }
    }
    assert!(
        Connection::open_tls(address, &Tls::new(&roots[0], "elsewhere.org")?, false)
            .await
            .is_err()
    );
    Ok(())
}
