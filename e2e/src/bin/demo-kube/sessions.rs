//! Visible sessions: three pods, twenty clients, and a pod that may go.

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Pod;
use limpet_e2e::{Visitor, poll, tools};
use serde_json::Value;

use crate::setup::Setup;
use crate::steps::{answered, indented, title};

const SERVICE: &str = "cart";
const CLIENTS: usize = 20;

/// The route, with sessions that end after ten idle seconds.
const OBJECTS: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart}
spec:
  parentRefs: [{name: web}]
  rules:
  - matches: [{path: {value: /cart}}]
    backendRefs: [{name: cart, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata: {name: cart}
spec:
  targetRefs: [{group: '', kind: Service, name: cart}]
  sessionPersistence: {sessionName: cart-session, idleTimeout: 10s}
";

pub(crate) async fn drained_by_command(setup: &Setup) -> Result<()> {
    title(
        "Another Service has three pods and twenty clients. `limpet sessions` shows where they live, as Envoy tells \
         it.",
    );
    let pages = setup.controller.http();
    setup.namespace.controller_pod("limpet-controller", pages).await?;
    let _pods = pods(setup).await?;
    let mut clients = clients(setup).await?;
    let counted = async || {
        let (code, text) = limpet(setup, &["sessions", SERVICE, "-o", "json"]).await.ok()?;
        let told: Value = serde_json::from_str(&text).ok()?;
        let pods = told["pods"].as_array()?.iter();
        let sessions = pods.map(|pod| pod["sessions"].as_u64().unwrap_or_default());
        (code == Some(0) && sessions.sum::<u64>() == CLIENTS as u64).then_some(())
    };
    poll::until("Envoy to tell of twenty sessions", counted).await?;
    show(setup, &["sessions", SERVICE]).await?;

    title(
        "`limpet drain` lets one of the pods go: it gets no new sessions, and the command waits until its last one \
        is over. The clients come for five more seconds.",
    );
    let last = async {
        for _ in 0..5 {
            for client in &mut clients {
                client.get("/cart").await?;
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        anyhow::Ok(())
    };
    let (drained, visited) = tokio::join!(show(setup, &["drain", "cart-a", "--wait", "--timeout", "2m"]), last);
    visited?;
    drained?;
    let mut names = Vec::new();
    for _ in 0..10 {
        let answer = setup.visitor().get("/cart").await?;
        names.push(answered(&answer)?.to_owned());
    }
    println!("  new clients:  {}", names.join(" "));
    ensure!(
        !names.iter().any(|name| name == "cart-a"),
        "a pod that drains got a new session"
    );
    Ok(())
}

async fn pods(setup: &Setup) -> Result<Vec<Pod>> {
    let namespace = &setup.namespace;
    namespace.service(SERVICE, &[("app", SERVICE)]).await?;
    let mut pods = Vec::new();
    for name in ["cart-a", "cart-b", "cart-c"] {
        pods.push(namespace.pod(name, &[("app", SERVICE)]).await?);
    }
    println!("  $ kubectl apply -f - <<.\n{}\n    .", indented(OBJECTS));
    namespace.apply(OBJECTS).await?;
    poll::until("the new pods to answer", async || {
        let mut names = std::collections::BTreeSet::new();
        for _ in 0..12 {
            let answer = setup.visitor().get("/cart").await.ok()?;
            answer.set_cookie("cart-session")?;
            names.insert(answered(&answer).ok()?.to_owned());
        }
        (names.len() == pods.len()).then_some(())
    })
    .await?;
    // The first sessions are known, and then over, before the others begin.
    for known in [true, false] {
        poll::until("the first sessions to be over", async || {
            let (_, text) = limpet(setup, &["sessions", SERVICE, "-o", "json"]).await.ok()?;
            let told: Value = serde_json::from_str(&text).ok()?;
            let pods = told["pods"].as_array()?;
            let all = pods.len() == 3 && pods.iter().all(|pod| (pod["sessions"] != 0) == known);
            all.then_some(())
        })
        .await?;
    }
    Ok(pods)
}

async fn clients(setup: &Setup) -> Result<Vec<Visitor>> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = setup.visitor();
        let answer = client.get("/cart").await?;
        answered(&answer)?;
        client.cookie("cart-session").context("the answer sets no cookie")?;
        clients.push(client);
    }
    Ok(clients)
}

async fn show(setup: &Setup, arguments: &[&str]) -> Result<()> {
    let (code, text) = limpet(setup, arguments).await?;
    println!("  $ limpet {}\n{}", arguments.join(" "), indented(text.trim_end()));
    ensure!(code == Some(0), "the command ended with {code:?}");
    Ok(())
}

async fn limpet(setup: &Setup, arguments: &[&str]) -> Result<(Option<i32>, String)> {
    let kubeconfig = setup.kubeconfig()?;
    let kubeconfig = kubeconfig.to_str().context("a path that is not UTF-8")?.to_owned();
    let namespace = setup.namespace.name().to_owned();
    let mut all: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    for (option, value) in [
        ("--kubeconfig", &kubeconfig),
        ("--namespace", &namespace),
        ("--controller", &namespace),
    ] {
        all.extend([option.to_owned(), value.clone()]);
    }
    let run = move || {
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        tools::run_limpet(&all, &[])
    };
    let output = tokio::task::spawn_blocking(run).await??;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}
