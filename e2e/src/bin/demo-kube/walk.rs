//! The walk: each step says what it does, does it, shows what came back, and checks it.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use limpet_e2e::{Answer, Visitor, poll};

use crate::keys;
use crate::objects::{self, COOKIE, show_status};
use crate::stage::{SERVICES, Stage};

/// All steps.
pub(crate) async fn walk(stage: &mut Stage) -> Result<()> {
    let (mut visitor, home) = first_request(stage).await?;
    replays(&mut visitor, &home).await?;
    both_services(stage).await?;
    forged_token(stage, &visitor).await?;
    weights_shifted(stage, &mut visitor, &home).await?;
    pod_drained(stage, &mut visitor, &home).await?;
    let home = pod_deleted(stage, &mut visitor, &home).await?;
    key_rotated(stage, &mut visitor, &home).await?;
    status(stage).await?;
    println!("\nEvery step did what it says.");
    Ok(())
}

/// What a person can try by hand.
pub(crate) fn say_what_to_try(stage: &Stage) -> Result<()> {
    let (web, admin) = (stage.address(), stage.envoy.admin().address());
    let (metrics, namespace) = (stage.controller.http(), stage.namespace.name());
    println!("\nAll of it keeps running, in a network namespace of its own. To try it, in another terminal:\n");
    if let Ok(join) = std::env::var("LIMPET_NAMESPACES") {
        println!("  nsenter {join} bash");
    }
    println!("  export KUBECONFIG={}", stage.kubeconfig()?.display());
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
            "one session, again and again",
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

async fn first_request(stage: &Stage) -> Result<(Visitor, String)> {
    title(
        "A client sends its first request. The weights pick a Service, Envoy picks a pod of it, and the answer sets a cookie.",
    );
    let mut visitor = stage.visitor();
    let answer = visitor.get("/").await?;
    let home = answered(&answer)?.to_owned();
    println!("  $ curl -i http://{}/", stage.address());
    println!("  {}, from pod {home}", answer.status);
    let field = answer.header("set-cookie").context("the answer sets no cookie")?;
    println!("  Set-Cookie: {field}");
    ensure!(answer.status == 200, "the answer has status {}", answer.status);
    let token = token_of(&visitor)?;
    let address = stage.pod(&home)?.address().to_string();
    ensure!(!field.contains(&address), "the cookie shows the pod's address");
    ensure!(keys::of_token(token)? == 1, "the token is not made with key 1");
    Ok((visitor, home))
}

async fn replays(visitor: &mut Visitor, home: &str) -> Result<()> {
    title("It comes back ten times with its cookie. The same pod answers each time, and no cookie is set again.");
    stays(visitor, home, 10).await
}

async fn both_services(stage: &Stage) -> Result<()> {
    title("Forty other clients have no cookie and land where the weights send them, 50/50.");
    let mut counts = BTreeMap::new();
    for _ in 0..40 {
        let answer = stage.visitor().get("/").await?;
        *counts.entry(answered(&answer)?.to_owned()).or_insert(0) += 1;
    }
    let counted: Vec<_> = counts.iter().map(|(name, count)| format!("{name}: {count}")).collect();
    println!("  {}", counted.join(", "));
    for service in SERVICES {
        ensure!(
            counts.keys().any(|name| service_of(name) == service),
            "nobody landed in {service}"
        );
    }
    Ok(())
}

async fn forged_token(stage: &Stage, visitor: &Visitor) -> Result<()> {
    title("Somebody flips one bit of the cookie. It is refused, counted, and a new session begins.");
    let before = stage.counter("refused.bad_signature").await?;
    let mut forger = stage.visitor();
    forger.keep(COOKIE, &keys::forged(token_of(visitor)?)?);
    let answer = forger.get("/").await?;
    println!(
        "  {}, from pod {}, with a new cookie",
        answer.status,
        answered(&answer)?
    );
    let after = stage.counter("refused.bad_signature").await?;
    println!("  refused.bad_signature: {before} -> {after}");
    ensure!(answer.set_cookie(COOKIE).is_some(), "no new session began");
    ensure!(after == before + 1, "the refusal was not counted");
    Ok(())
}

async fn weights_shifted(stage: &Stage, visitor: &mut Visitor, home: &str) -> Result<()> {
    let (old, new) = services(home);
    title(&format!(
        "The weights shift: {old} gets 0, {new} gets 100. New clients go to {new}; the session stays in {old}."
    ));
    shift(stage, new).await?;
    let names = stage
        .until_new_clients(&format!("{new} to get all new clients"), |name| service_of(name) == new)
        .await?;
    println!("  new clients:  {}", names.join(" "));
    stays(visitor, home, 10).await
}

async fn pod_drained(stage: &Stage, visitor: &mut Visitor, home: &str) -> Result<()> {
    let (service, _) = services(home);
    title(&format!(
        "The weights go back to {service}, all of them, and pod {home} is deleted with its grace period. Its sessions stay, new ones do not come."
    ));
    shift(stage, service).await?;
    stage
        .until_new_clients(&format!("{service} to get all new clients"), |name| {
            service_of(name) == service
        })
        .await?;
    println!("  $ kubectl delete pod {home} --wait=false");
    stage.pod(home)?.drain().await?;
    let drains = |endpoint: &limpet_e2e::kube::Endpoint| {
        endpoint.pod == home && endpoint.terminating && endpoint.serving && !endpoint.ready
    };
    stage
        .namespace
        .endpoints(service, |endpoints| endpoints.iter().any(drains))
        .await?;
    println!("  its endpoint: ready false, serving true, terminating true");
    let names = stage
        .until_new_clients(&format!("nobody new on {home}"), |name| name != home)
        .await?;
    println!("  new clients:  {}", names.join(" "));
    stays(visitor, home, 10).await
}

async fn pod_deleted(stage: &mut Stage, visitor: &mut Visitor, home: &str) -> Result<String> {
    title(&format!(
        "Pod {home} ends. Its session moves to another pod, with a new cookie, and stays there."
    ));
    let pod = stage.take_pod(home)?;
    let address = pod.address().to_string();
    pod.remove().await?;
    let admin = stage.envoy.admin();
    poll::until("Envoy to hear of it", async || {
        (!admin.text("/clusters").await.ok()?.contains(&address)).then_some(())
    })
    .await?;
    let before = token_of(visitor)?.to_owned();
    let moved = visitor.get("/").await?;
    let next = answered(&moved)?.to_owned();
    println!("  {}, from pod {next}, with a new cookie", moved.status);
    ensure!(moved.status == 200 && next != home, "the session did not move");
    ensure!(token_of(visitor)? != before, "the session has no token for its new pod");
    stays(visitor, &next, 10).await?;
    Ok(next)
}

async fn key_rotated(stage: &Stage, visitor: &mut Visitor, home: &str) -> Result<()> {
    title("The key changes in three phases, each when every Envoy has the one before. No session is lost.");
    let (namespace, secret) = (stage.namespace.name(), keys::KEYRING);
    println!("  $ kubectl -n {namespace} annotate secret {secret} limpet.dev/rotate=demo");
    let mut seen = vec![keys::states(&stage.namespace).await?];
    println!("  keys: {}", seen.join(""));
    keys::rotate(&stage.namespace).await?;
    let old = keys::of_token(token_of(visitor)?)?;
    let mut requests = 0;
    // Requests go on meanwhile, and each is answered by the same pod.
    let moved = poll::until("a token of the new key", async || {
        let states = keys::states(&stage.namespace).await.ok()?;
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
        "  the client's token: of key {old} -> of key {new}; {requests} requests meanwhile, all answered by {home}"
    );
    let expected = [
        format!("{old} signing"),
        format!("{old} signing, {new} verifying"),
        format!("{old} verifying, {new} signing"),
        format!("{old} retiring, {new} signing"),
    ];
    ensure!(
        seen.iter().all(|states| expected.contains(states)) && seen.contains(&expected[1]),
        "these are not the phases of a rotation: {seen:?}"
    );
    stays(visitor, home, 10).await
}

async fn status(stage: &Stage) -> Result<()> {
    title("The policy says what became of it.");
    show_status(&stage.namespace.get("BackendLBPolicy", "sticky").await?)
}

/// Gives all weight to a Service.
async fn shift(stage: &Stage, to: &str) -> Result<()> {
    let [v1, v2] = SERVICES.map(|service| if service == to { 100 } else { 0 });
    println!("  $ kubectl edit httproute shop     # v1: {v1}, v2: {v2}");
    stage.namespace.apply(&objects::route(v1, v2)).await
}

/// The same pod answers so many requests, and sets no cookie.
async fn stays(visitor: &mut Visitor, home: &str, requests: usize) -> Result<()> {
    let mut names = Vec::new();
    for _ in 0..requests {
        let answer = visitor.get("/").await?;
        names.push(answered(&answer)?.to_owned());
        ensure!(answer.set_cookies().is_empty(), "a cookie was set again");
    }
    println!("  the session:  {}", names.join(" "));
    if let Some(other) = names.iter().find(|name| *name != home) {
        bail!("the session did not hold: {other} answered in place of {home}");
    }
    Ok(())
}

/// A pod's Service, and the other one.
fn services(pod: &str) -> (&'static str, &'static str) {
    let [v1, v2] = SERVICES;
    if service_of(pod) == v1 { (v1, v2) } else { (v2, v1) }
}

fn service_of(pod: &str) -> &str {
    pod.split('-').next().unwrap_or_default()
}

fn title(text: &str) {
    println!("\n{text}");
}

fn answered(answer: &Answer) -> Result<&str> {
    answer
        .backend()
        .with_context(|| format!("no pod answered: Envoy says {}", answer.status))
}

fn token_of(visitor: &Visitor) -> Result<&str> {
    visitor.cookie(COOKIE).context("the client has no cookie")
}

pub(crate) fn indented(text: &str) -> String {
    let lines = text.lines().map(|line| format!("    {line}"));
    lines.collect::<Vec<_>>().join("\n")
}
