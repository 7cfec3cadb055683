use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::{Pod, Release};
use limpet_e2e::poll;
use serde_json::{Value, json};

use super::{two_pods, with_sessions};
use crate::checks::{GatewaySite, rule, stated};

fn mirror(name: &str) -> Value {
    json!({"type": "RequestMirror", "requestMirror": {"backendRef": {"name": name, "port": 80}}})
}

fn requests(pods: &[Pod; 2]) -> [usize; 2] {
    pods.each_ref().map(|pod| pod.backend().requests())
}

/// A copy has no session: it carries no token, and is not led.
#[tokio::test]
async fn copies_carry_no_token_and_are_not_led() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    for strict in ["false", "true"] {
        let name = format!("copied-{strict}");
        let (own, others) = (
            two_pods(site, &name).await?,
            two_pods(site, &format!("copies-{strict}")).await?,
        );
        let mut rule = with_sessions(&name, &[(&name, 1)]);
        // The second mirror is the session's own Service, where the token would count.
        rule["filters"] = json!([mirror(&format!("copies-{strict}")), mirror(&name)]);
        site.annotated_route(&name, &[rule], &json!({"strict": strict, "forward": "false"}))
            .await?;
        let path = format!("/{name}");
        site.until_sessions(&path).await?;

        let mut visitor = site.visitor();
        visitor.keep("mine", "1");
        let first = visitor.get(&path).await?;
        let (own_before, before) = (requests(&own), requests(&others));
        for _ in 0..24 {
            let answer = visitor.get(&path).await?;
            ensure!(answer.backend() == first.backend(), "{answer:?}");
            ensure!(answer.set_cookies().is_empty(), "{answer:?}");
        }
        let sum = |of: [usize; 2]| of[0] + of[1];
        poll::until("all copies", async || {
            let all = sum(requests(&others)) == sum(before) + 24 && sum(requests(&own)) == sum(own_before) + 48;
            all.then_some(())
        })
        .await?;
        for at in 0..2 {
            ensure!(
                requests(&others)[at] > before[at],
                "copies are led: {:?}",
                requests(&others)
            );
            ensure!(
                requests(&own)[at] > own_before[at],
                "copies are led: {:?}",
                requests(&own)
            );
        }
        for pod in &others {
            let seen = pod.backend().last()?;
            ensure!(seen.cookies().as_deref() == Some("mine=1"), "{seen:?}");
            ensure!(seen.internal_headers().is_empty(), "{seen:?}");
            ensure!(seen.path == path, "{seen:?}");
            let host = seen.all("host").join(" ");
            ensure!(!host.contains("shadow"), "{seen:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_mirror_gets_the_part_that_it_asks_for() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let (_own, half, none) = (
        two_pods(site, "parts").await?,
        two_pods(site, "half").await?,
        two_pods(site, "none").await?,
    );
    let mut all = rule("/parts", &[("parts", 1)]);
    let (mut to_half, mut to_none) = (mirror("half"), mirror("none"));
    to_half["requestMirror"]["fraction"] = json!({"numerator": 1, "denominator": 2});
    to_none["requestMirror"]["percent"] = json!(0);
    all["filters"] = json!([to_half, to_none, mirror("missing")]);
    site.route("parts", &[all]).await?;
    site.until("the route", "/parts", |answer| answer.status == 200).await?;
    // A mirror that leads nowhere is left out, and named.
    let has_word = |route: &Value| !stated(route, "ResolvedRefs").0.is_empty();
    let route = site.namespace.until("its word", "HTTPRoute", "parts", has_word).await?;
    let (condition, message) = stated(&route, "ResolvedRefs");
    ensure!(condition == "False/BackendNotFound", "{condition}: {message}");
    ensure!(
        message.contains("spec.rules[0].filters[2].requestMirror.backendRef.name"),
        "{message}"
    );

    let before = requests(&half);
    for _ in 0..200 {
        ensure!(site.get("/parts").send().await?.status == 200);
    }
    let copies = requests(&half).iter().sum::<usize>() - before.iter().sum::<usize>();
    // Seven standard deviations.
    ensure!((50..=150).contains(&copies), "{copies} of 200");
    ensure!(requests(&none) == [0, 0], "{:?}", requests(&none));
    half[0].backend().last().context("no copy at all").map(drop)
}
