//! Sessions in a header (check 23), in gRPC metadata, over WebSockets and over server-sent events.
//!
//! `XBackend` on a `GRPCRoute`: at least 50 calls of a session reach the same pod, by cookie in metadata and by header.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Pod, Release};
use limpet_e2e::protocols::{Chat, Echo, EchoClient, Note, Session, Socket};
use limpet_e2e::{Answer, Carrier, Protocol, poll, raw_get};
use serde_json::{Value, json};

use super::destinations::{backend, reference};
use super::dialect::lb_policy;
use super::site::{GatewaySite, prefixed, rule};

/// With this label `app`; they speak gRPC and WebSocket.
async fn pods(site: &GatewaySite, app: &str) -> Result<Vec<Pod>> {
    let protocols: [Arc<dyn Protocol>; 2] = [Arc::new(Echo), Arc::new(Chat)];
    let mut pods = Vec::new();
    for number in 1..=3 {
        let name = format!("{app}-{number}");
        let labels = [("app", app)];
        pods.push(site.namespace.pod_speaking(&name, &labels, &protocols).await?);
    }
    Ok(pods)
}

/// Calls of `limpet.test.Echo` whose metadata have this kind.
fn calls(name: &str, kind: &str, backend: &Value) -> Value {
    let matched = json!({
        "method": {"service": "limpet.test.Echo"},
        "headers": [{"name": "x-kind", "value": kind}],
    });
    json!({
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "GRPCRoute",
        "metadata": {"name": name},
        "spec": {"parentRefs": [{"name": "web"}], "rules": [{"matches": [matched], "backendRefs": [backend]}]},
    })
}

async fn say(client: &mut EchoClient, kind: &str, session: &mut Session) -> Result<Note> {
    let mut call = session.call(Note::new("hello"))?;
    call.metadata_mut().insert("x-kind", kind.parse()?);
    session.taken(client.say(call).await?)
}

async fn until_called(client: &mut EchoClient, kind: &str, carrier: Carrier) -> Result<()> {
    let begins = async || say(client, kind, &mut Session::new(carrier)).await.ok();
    poll::until("calls to begin sessions", begins).await.map(drop)
}

#[tokio::test]
async fn check_23_sessions_in_a_header() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let _pods = pods(site, "check-23").await?;
    site.namespace.service("check-23", &[("app", "check-23")]).await?;
    let persistence = json!({"sessionName": "X-Session", "type": "Header"});
    let policy = lb_policy("check-23", &["check-23"], &persistence);
    site.namespace.apply_object(&policy).await?;
    // One rule, and so one session, for all protocols.
    let mut everything = rule("/chat", &[("check-23", 1)]);
    let paths = ["/chat", "/events", "/check-23"];
    everything["matches"] = paths
        .map(|path| json!({"path": {"type": "PathPrefix", "value": path}}))
        .to_vec()
        .into();
    site.route("check-23", &[everything]).await?;
    let reference = json!({"name": "check-23", "port": 80});
    site.namespace
        .apply_object(&calls("check-23", "check-23", &reference))
        .await?;
    let begins = |answer: &Answer| answer.header("x-session").is_some();
    site.until("sessions to begin", "/check-23", begins).await?;

    let at = site.controller.address(8080);
    let first = site.get("/check-23").send().await?;
    let token = first.header("x-session").context("no token")?;
    let backend = first.backend().context("no backend")?;
    assert!(first.set_cookies().is_empty());
    for name in ["x-session", "X-SESSION", "X-Session"] {
        for _ in 0..4 {
            let answer = raw_get(at, "/check-23", &[(name, token.as_bytes())]).await?;
            let found = (answer.all("x-backend"), answer.all("x-session"));
            assert_eq!(found, (vec![backend.as_bytes()], vec![]), "{name}");
        }
    }

    let mut session = Session::new(Carrier::Header);
    session.answered(&first.headers)?;
    for _ in 0..4 {
        let mut socket = Socket::open(at, &mut session).await?;
        socket.echo("hello").await?;
        socket.close().await?;
        // The stream is cut off after two events. Each names its pod.
        let request = site.get("/events").header("x-cut-after", "2");
        let mut events = session.open(request).await?;
        let mut text = Vec::new();
        while let Ok(Some(piece)) = events.piece().await {
            text.extend_from_slice(&piece);
        }
        let said = String::from_utf8(text)?.matches(&format!("data: {backend}")).count();
        ensure!(said == 2, "{said} events");
    }
    assert_eq!(session.continued, 8);

    // A `GRPCRoute`'s rule has its own sessions.
    let mut client = EchoClient::connect(at).await?;
    until_called(&mut client, "check-23", Carrier::Header).await?;
    let mut session = Session::new(Carrier::Header);
    for _ in 0..10 {
        let note = say(&mut client, "check-23", &mut session).await?;
        assert_eq!(note.backend, session.backend());
    }
    assert_eq!(session.continued, 9);
    Ok(())
}

#[tokio::test]
async fn fifty_calls_of_a_session_reach_one_pod() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let _pods = pods(site, "x-grpc").await?;
    for (kind, carrier, persistence) in [
        (
            "x-grpc-cookie",
            Carrier::Cookie,
            json!({"type": "Cookie", "cookie": {"name": "limpet-session"}}),
        ),
        (
            "x-grpc-header",
            Carrier::Header,
            json!({"type": "Header", "header": {"name": "x-session"}}),
        ),
    ] {
        let backend = backend(kind, "x-grpc", &persistence);
        site.namespace.apply_object(&backend).await?;
        let route = calls(kind, kind, &reference(kind, 1));
        site.namespace.apply_object(&route).await?;
        // Each connection may reach another worker or Envoy.
        for _ in 0..4 {
            let mut client = EchoClient::connect(site.controller.address(8080)).await?;
            until_called(&mut client, kind, carrier).await?;
        }
        let mut session = Session::new(carrier);
        for _ in 0..=50 {
            let mut client = EchoClient::connect(site.controller.address(8080)).await?;
            let note = say(&mut client, kind, &mut session).await?;
            ensure!(note.backend == session.backend(), "{kind}: {note:?}");
        }
        ensure!(session.continued == 50, "{kind}: {session:?}");
    }
    Ok(())
}

/// Envoy speaks HTTP/1.1 to the Service for the one rule, and HTTP/2 for the other.
#[tokio::test]
async fn a_page_and_its_grpc_calls_share_a_session() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let name = "page-and-calls";
    let _pods = pods(site, name).await?;
    site.namespace.service(name, &[("app", name)]).await?;
    let mut policy = lb_policy(name, &[name], &json!({"sessionName": "X-Session", "type": "Header"}));
    policy["metadata"]["annotations"] = prefixed(&json!({"scope": "service"}));
    site.namespace.apply_object(&policy).await?;
    let path = format!("/{name}");
    site.route(name, &[rule(&path, &[(name, 1)])]).await?;
    let reference = json!({"name": name, "port": 80});
    site.namespace.apply_object(&calls(name, name, &reference)).await?;
    site.until("sessions to begin", &path, |answer| {
        answer.header("x-session").is_some()
    })
    .await?;
    let mut client = EchoClient::connect(site.controller.address(8080)).await?;
    until_called(&mut client, name, Carrier::Header).await?;

    for _ in 0..10 {
        let mut session = Session::new(Carrier::Header);
        session.answered(&site.get(&path).send().await?.headers)?;
        let note = say(&mut client, name, &mut session).await?;
        ensure!(
            note.backend == session.backend() && session.continued == 1,
            "{session:?}"
        );

        let mut session = Session::new(Carrier::Header);
        let note = say(&mut client, name, &mut session).await?;
        let answer = session.open(site.get(&path)).await?;
        drop(answer);
        ensure!(
            note.backend == session.backend() && session.continued == 1,
            "{session:?}"
        );
    }
    Ok(())
}
