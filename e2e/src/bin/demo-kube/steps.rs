//! The steps, each announced, done, printed and checked.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use limpet_e2e::{Answer, Visitor, poll};

use crate::keys;
use crate::objects::{self, COOKIE, show_status};
use crate::sessions;
use crate::setup::{SERVICES, Setup};

pub(crate) async fn run(setup: &mut Setup) -> Result<()> {
    let (mut visitor, home) = first_request(setup).await?;
    replays(&mut visitor, &home).await?;
    both_services(setup).await?;
    forged_token(setup, &visitor).await?;
    weights_shifted(setup, &mut visitor, &home).await?;
    pod_drained(setup, &mut visitor, &home).await?;
    let home = pod_deleted(setup, &mut visitor, &home).await?;
    key_rotated(setup, &mut visitor, &home).await?;
    status(setup).await?;
    sessions::drained_by_command(setup).await?;
    println!("\nEvery step did what it says.");
    Ok(())
}

pub(crate) fn print_commands_to_try(setup: &Setup) -> Result<()> {
    let (web, admin) = (setup.address(), setup.envoy.admin().address());
    let (metrics, namespace) = (setup.controller.http(), setup.namespace.name());
    println!("\nEverything keeps running in a separate network namespace. Try these commands in another terminal:\n");
    if let Ok(join) = std::env::var("LIMPET_NAMESPACES") {
        println!("  nsenter {join} bash");
    }
    println!("  export KUBECONFIG={}", setup.kubeconfig()?.display());
    for (what, command) in [
        (
            "the objects",
            format!("kubectl -n {namespace} get gateways,httproutes,backendlbpolicies,pods"),
        ),
        ("other weights", format!("kubectl -n {namespace} edit httproute shop")),
        (
            "another key",
            format!(
                "kubectl -n {namespace} annotate --overwrite secret {} limpet.dev/rotate=again",
                keys::KEYRING
            ),
        ),
        ("a new session with every request", format!("curl -i http://{web}/")),
        (
            "the same session with every request",
            format!("curl -s -c jar -b jar http://{web}/"),
        ),
        (
            "the filter's counters",
            format!("curl -s 'http://{admin}/stats?filter=limpet'"),
        ),
        ("the controller's metrics", format!("curl -s http://{metrics}/metrics")),
    ] {
        println!("\n  # {what}\n  {command}");
    }
    println!("\nCtrl-C ends the demo.");
    Ok(())
}

async fn first_request(setup: &Setup) -> Result<(Visitor, String)> {
    title(
        "A client sends its first request. The weights pick a Service, Envoy picks a pod of it, and the answer sets a \
        cookie.",
    );
    let mut visitor = setup.visitor();
    let answer = visitor.get("/").await?;
    let home = answered(&answer)?.to_owned();
    println!("  $ curl -i http://{}/", setup.address());
    println!("  {}, from pod {home}", answer.status);
    let field = answer.header("set-cookie").context("the answer sets no cookie")?;
    println!("  Set-Cookie: {field}");
    ensure!(answer.status == 200, "the answer has status {}", answer.status);
    let token = token_of(&visitor)?;
    let address = setup.pod(&home)?.address().to_string();
    ensure!(!field.contains(&address), "the cookie shows the pod's address");
    ensure!(keys::of_token(token)? == 1, "the token was not made with key 1");
    Ok((visitor, home))
}

async fn replays(visitor: &mut Visitor, home: &str) -> Result<()> {
    title("The client sends ten more requests with its cookie. The same pod answers each, and sets no cookie.");
    stays(visitor, home, 10).await
}

async fn both_services(setup: &Setup) -> Result<()> {
    title("Forty other clients have no cookie, so the weights pick their Services, 50/50.");
    let mut counts = BTreeMap::new();
    for _ in 0..40 {
        let answer = setup.visitor().get("/").await?;
        *counts.entry(answered(&answer)?.to_owned()).or_insert(0) += 1;
    }
    let counted: Vec<_> = counts.iter().map(|(name, count)| format!("{name}: {count}")).collect();
    println!("  {}", counted.join(", "));
    for service in SERVICES {
        ensure!(
            counts.keys().any(|name| service_of(name) == service),
            "no pod of {service} answered"
        );
    }
    Ok(())
}

async fn forged_token(setup: &Setup, visitor: &Visitor) -> Result<()> {
    title(
        "An attacker changes one bit of the cookie. The filter refuses the token, counts that, and starts a new session.",
    );
    let before = setup.counter("refused.bad_signature").await?;
    let mut forger = setup.visitor();
    forger.keep(COOKIE, &keys::forged(token_of(visitor)?)?);
    let answer = forger.get("/").await?;
    println!(
        "  {}, from pod {}, with a new cookie",
        answer.status,
        answered(&answer)?
    );
    let after = setup.counter("refused.bad_signature").await?;
    println!("  refused.bad_signature: {before} -> {after}");
    ensure!(answer.set_cookie(COOKIE).is_some(), "the answer sets no new cookie");
    ensure!(after == before + 1, "the refusal was not counted");
    Ok(())
}

async fn weights_shifted(setup: &Setup, visitor: &mut Visitor, home: &str) -> Result<()> {
    let (old, new) = services(home);
    title(&format!(
        "The weights change: {old} gets 0, {new} gets 100. New clients go to {new}; the session stays in {old}."
    ));
    shift(setup, new).await?;
    let names = setup
        .until_new_clients(&format!("{new} to get all new clients"), |name| service_of(name) == new)
        .await?;
    println!("  new clients:  {}", names.join(" "));
    stays(visitor, home, 10).await
}

async fn pod_drained(setup: &Setup, visitor: &mut Visitor, home: &str) -> Result<()> {
    let (service, _) = services(home);
    title(&format!(
        "All weight goes back to {service}, and pod {home} is deleted with a grace period. Its sessions stay, but it \
        gets no new ones."
    ));
    shift(setup, service).await?;
    setup
        .until_new_clients(&format!("{service} to get all new clients"), |name| {
            service_of(name) == service
        })
        .await?;
    println!("  $ kubectl delete pod {home} --wait=false");
    setup.pod(home)?.drain().await?;
    let drains = |endpoint: &limpet_e2e::kube::Endpoint| {
        endpoint.pod == home && endpoint.terminating && endpoint.serving && !endpoint.ready
    };
    setup
        .namespace
        .endpoints(service, |endpoints| endpoints.iter().any(drains))
        .await?;
    println!("  its endpoint: ready false, serving true, terminating true");
    let names = setup
        .until_new_clients(&format!("{home} to get no new clients"), |name| name != home)
        .await?;
    println!("  new clients:  {}", names.join(" "));
    stays(visitor, home, 10).await
}

async fn pod_deleted(setup: &mut Setup, visitor: &mut Visitor, home: &str) -> Result<String> {
    title(&format!(
        "Pod {home} ends. Its session moves to another pod, gets a new cookie, and stays there."
    ));
    let pod = setup.take_pod(home)?;
    let address = pod.address().to_string();
    pod.remove().await?;
    let admin = setup.envoy.admin();
    poll::until("Envoy to remove the pod", async || {
        (!admin.text("/clusters").await.ok()?.contains(&address)).then_some(())
    })
    .await?;
    let before = token_of(visitor)?.to_owned();
    let moved = visitor.get("/").await?;
    let next = answered(&moved)?.to_owned();
    println!("  {}, from pod {next}, with a new cookie", moved.status);
    ensure!(moved.status == 200 && next != home, "the session did not move");
    ensure!(token_of(visitor)? != before, "the cookie did not change");
    stays(visitor, &next, 10).await?;
    Ok(next)
}

async fn key_rotated(setup: &Setup, visitor: &mut Visitor, home: &str) -> Result<()> {
    title(
        "The key is rotated in three phases. Each phase begins when every Envoy has the one before. No session is \
        lost.",
    );
    let (namespace, secret) = (setup.namespace.name(), keys::KEYRING);
    println!("  $ kubectl -n {namespace} annotate secret {secret} limpet.dev/rotate=demo");
    let mut seen = vec![keys::states(&setup.namespace).await?];
    println!("  keys: {}", seen.join(""));
    keys::rotate(&setup.namespace).await?;
    let old = keys::of_token(token_of(visitor)?)?;
    let mut requests = 0;
    // The same pod must answer requests meanwhile.
    let moved = poll::until("a token of the new key", async || {
        let states = keys::states(&setup.namespace).await.ok()?;
        if seen.last() != Some(&states) {
            println!("  keys: {states}");
            seen.push(states);
        }
        requests += 1;
        let step = async {
            let answer = visitor.get("/").await?;
            let name = answered(&answer)?;
            ensure!(name == home, "the session moved to {name}");
            keys::of_token(token_of(visitor)?)
        };
        match step.await {
            Ok(key) if key == old => None,
            other => Some(other),
        }
    })
    .await?;
    let new = moved?;
    println!(
        "  the client's token: made with key {old}, now with key {new}; {home} answered all {requests} requests \
        meanwhile"
    );
    let expected = [
        format!("{old} signing"),
        format!("{old} signing, {new} verifying"),
        format!("{old} verifying, {new} signing"),
        format!("{old} retiring, {new} signing"),
    ];
    ensure!(
        seen.iter().all(|states| expected.contains(states)) && seen.contains(&expected[1]),
        "unexpected states of a rotation: {seen:?}"
    );
    stays(visitor, home, 10).await
}

async fn status(setup: &Setup) -> Result<()> {
    title("The policy's status says that it is in effect.");
    show_status(&setup.namespace.get("BackendLBPolicy", "sticky").await?)
}

async fn shift(setup: &Setup, to: &str) -> Result<()> {
    let [v1, v2] = SERVICES.map(|service| if service == to { 100 } else { 0 });
    println!("  $ kubectl edit httproute shop     # v1: {v1}, v2: {v2}");
    setup.namespace.apply(&objects::route(v1, v2)).await
}

/// Checks that the same pod answers all requests without a cookie.
async fn stays(visitor: &mut Visitor, home: &str, requests: usize) -> Result<()> {
    let mut names = Vec::new();
    for _ in 0..requests {
        let answer = visitor.get("/").await?;
        names.push(answered(&answer)?.to_owned());
        ensure!(answer.set_cookies().is_empty(), "a cookie was set again");
    }
    println!("  the session:  {}", names.join(" "));
    if let Some(other) = names.iter().find(|name| *name != home) {
        bail!("the session moved: {other} answered instead of {home}");
    }
    Ok(())
}

fn services(pod: &str) -> (&'static str, &'static str) {
    let [v1, v2] = SERVICES;
    if service_of(pod) == v1 { (v1, v2) } else { (v2, v1) }
}

fn service_of(pod: &str) -> &str {
    pod.split('-').next().unwrap_or_default()
}

pub(crate) fn title(text: &str) {
    println!("\n{text}");
}

pub(crate) fn answered(answer: &Answer) -> Result<&str> {
    answer
        .backend()
        .with_context(|| format!("no pod answered; Envoy answered {}", answer.status))
}

fn token_of(visitor: &Visitor) -> Result<&str> {
    visitor.cookie(COOKIE).context("the client has no cookie")
}

pub(crate) fn indented(text: &str) -> String {
    let lines = text.lines().map(|line| format!("    {line}"));
    lines.collect::<Vec<_>>().join("\n")
}
