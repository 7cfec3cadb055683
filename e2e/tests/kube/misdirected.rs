//! Requests on connections for another HTTPS listener: a client may use one for all names of its certificate. The cases
//! of the Gateway API's conformance test `HTTPRouteHTTPSListenerDetectMisdirectedRequests`.

use anyhow::{Context, Result};
use hyper::Method;
use limpet_e2e::kube::{Cluster, Controller, Namespace, Release};
use limpet_e2e::{Answer, Connection, Request, Tls, poll};
use serde_json::{Value, json};

use crate::certificates::Authority;
use crate::site::condition;

const PORT: u16 = 8443;
const LISTENERS: [(&str, Option<&str>); 4] = [
    ("any", None),
    ("second", Some("second-example.org")),
    ("wildcard", Some("*.wildcard.org")),
    ("fourth", Some("fourth-example.wildcard.org")),
];
/// The connection's name, the request's host, and the listener whose route answers, or the status.
const CASES: [(&str, &str, Result<&str, u16>); 20] = [
    ("example.org", "example.org", Ok("any")),
    ("example.org", "second-example.org", Err(421)),
    ("example.org", "second-example.org:8443", Err(421)),
    ("example.org", "unknown-example.org", Err(404)),
    ("second-example.org", "second-example.org", Ok("second")),
    ("second-example.org", "SECOND-EXAMPLE.ORG:8443", Ok("second")),
    ("second-example.org", "second-example.org.", Ok("second")),
    ("second-example.org", "second-example.org.:8443", Ok("second")),
    ("example.org", "second-example.org.", Err(421)),
    ("second-example.org", "example.org", Err(421)),
    ("second-example.org", "unknown-example.org", Err(421)),
    (
        "third-example.wildcard.org",
        "third-example.wildcard.org",
        Ok("wildcard"),
    ),
    (
        "third-example.wildcard.org",
        "fith-example.wildcard.org",
        Ok("wildcard"),
    ),
    ("third-example.wildcard.org", "fourth-example.wildcard.org", Err(421)),
    ("third-example.wildcard.org", "second-example.org", Err(421)),
    ("third-example.wildcard.org", "unknown-example.org", Err(421)),
    (
        "fourth-example.wildcard.org",
        "fourth-example.wildcard.org",
        Ok("fourth"),
    ),
    ("fourth-example.wildcard.org", "fith-example.wildcard.org", Err(421)),
    ("unknown-example.org", "example.org", Ok("any")),
    ("unknown-example.org", "unknown-example.org", Err(404)),
];

/// For each listener a pod, a Service, and a route for requests of all kinds.
async fn site(namespace: &Namespace) -> Result<Vec<limpet_e2e::kube::Pod>> {
    let tls = json!({"certificateRefs": [{"name": "all"}]});
    let listener = |(name, hostname): (&str, Option<&str>)| {
        let mut listener = json!({"name": name, "port": PORT, "protocol": "HTTPS", "tls": tls});
        if let Some(hostname) = hostname {
            listener["hostname"] = json!(hostname);
        }
        listener
    };
    let gateway = json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "web"},
        "spec": {"gatewayClassName": namespace.name(), "listeners": LISTENERS.map(listener)},
    });
    namespace.apply_object(&gateway).await?;
    let mut pods = Vec::new();
    for (name, _) in LISTENERS {
        pods.push(namespace.pod(name, &[("app", name)]).await?);
        namespace.service(name, &[("app", name)]).await?;
        for kind in ["HTTPRoute", "GRPCRoute"] {
            let rule = match kind {
                "HTTPRoute" => json!({"matches": [{"path": {"value": "/web"}}]}),
                _ => json!({"matches": [{"method": {"service": "limpet.test.Echo"}}]}),
            };
            let mut route = json!({
                "apiVersion": "gateway.networking.k8s.io/v1",
                "kind": kind,
                "metadata": {"name": name},
                "spec": {"parentRefs": [{"name": "web", "sectionName": name}], "rules": [rule]},
            });
            route["spec"]["rules"][0]["backendRefs"] = json!([{"name": name, "port": 80}]);
            if name == "any" {
                route["spec"]["hostnames"] = json!(["example.org"]);
            }
            namespace.apply_object(&route).await?;
        }
    }
    Ok(pods)
}

async fn certificate(namespace: &Namespace) -> Result<Authority> {
    let authority = Authority::new("all")?;
    let names = [
        "example.org",
        "second-example.org",
        "unknown-example.org",
        "*.wildcard.org",
    ];
    let certificate = authority.sign_all(&names)?;
    namespace.apply_object(&certificate.secret("all")).await?;
    namespace.bind("limpet-certificates").await?;
    Ok(authority)
}

fn outcome(answer: &Answer) -> Result<&str, u16> {
    answer.backend().ok_or(answer.status)
}

#[tokio::test]
async fn a_request_for_another_listeners_host_is_misdirected() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("misdirected").await?;
    namespace.gateway_class().await?;
    let _pods = site(&namespace).await?;
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let authority = certificate(&namespace).await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;
    let programmed = |object: &Value| condition(&object["status"]["conditions"], "Programmed") == "True/Programmed";
    namespace.until("acknowledgement", "Gateway", "web", programmed).await?;

    let address = controller.address(PORT);
    let open = async |name: &str, http2| {
        let tls = Tls::new(&authority.certificate, name)?;
        Connection::open_tls(address, &tls, http2).await
    };
    for name in [
        "example.org",
        "second-example.org",
        "third-example.wildcard.org",
        "fourth-example.wildcard.org",
    ] {
        poll::until(name, async || {
            let mut connection = open(name, false).await.ok()?;
            let answer = connection
                .send(Request::get(address, "/web").header("host", name))
                .await;
            answer.ok()?.backend().map(drop)
        })
        .await?;
    }
    for (name, host, expected) in CASES {
        for http2 in [false, true] {
            // The connection has served its own host before, as a browser's.
            let mut connection = open(name, http2).await?;
            connection
                .send(Request::get(address, "/web").header("host", name))
                .await?;
            let answer = connection
                .send(Request::get(address, "/web").header("host", host))
                .await?;
            assert_eq!(outcome(&answer), expected, "{name} {host}, HTTP/2: {http2}");
        }
        let call = Request::get(address, "/limpet.test.Echo/Say")
            .method(Method::POST)
            .header("content-type", "application/grpc")
            .header("host", host);
        let answer = open(name, true).await?.send(call).await?;
        match expected {
            Ok(listener) => assert_eq!(answer.backend(), Some(listener), "{name} {host}"),
            // Envoy answers a call with 200 and the status of the call.
            Err(status) => {
                let status = if status == 404 { "12" } else { "2" };
                assert_eq!(
                    answer.header("grpc-status").context("no status")?,
                    status,
                    "{name} {host}"
                );
                assert_eq!(answer.backend(), None, "{name} {host}");
            }
        }
    }
    Ok(())
}
