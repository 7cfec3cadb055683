//! Sessions belong to a rule, whichever Services it leads to.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{Answer, Connection, Envoy, Site, Visitor};
use serde_json::json;
use tokio::task::JoinSet;

use crate::splits::per_scope::two_rules;
use crate::splits::rule::{Rule, routes};
use crate::splits::site::split;

/// Backends a and b of `split.yaml` are the first service's, c is the second's.
fn rule(prefix: &str, session: &str, weights: [u32; 2]) -> Rule {
    let named = json!({"response_headers_to_add": [{"header": {"key": "x-rule", "value": session}}]});
    Rule::new(prefix, session)
        .modified("shop-v1", weights[0], &named)
        .modified("shop-v2", weights[1], &named)
}

/// The GEP's example: a client of `/a` is at the first service, and `/b` leads to the second one, even if both rules
/// have the same name.
#[tokio::test]
async fn check_03_rules_of_one_service_do_not_share_sessions() -> Result<()> {
    for names in [["session-a", "session-b"], ["limpet-session"; 2]] {
        let policies = json!({"a": {"cookie": {"name": names[0]}}, "b": {"cookie": {"name": names[1]}}});
        let rules = [rule("/a", "a/a", [100, 0]), rule("/b", "b/b", [0, 100])];
        let site = Site::start(split(&rules, &policies)?).await?;
        let first = site.envoy.get("/a").send().await?;
        let token = first.set_cookie(names[0]).context("no token")?.value;
        for name in names {
            for _ in 0..10 {
                let answer = site.envoy.get("/b").cookie(format!("{name}={token}")).send().await?;
                assert_eq!(answer.backend(), Some("c"), "{name}");
            }
        }
        let again = site
            .envoy
            .get("/a")
            .cookie(format!("{}={token}", names[0]))
            .send()
            .await?;
        assert_eq!(again.backend(), first.backend());
        assert_ne!(again.backend(), Some("c"));
    }
    Ok(())
}

/// 50 browsers begin and use both rules' sessions at the same time. Each has one backend on `/a` and one on `/b`.
#[tokio::test]
async fn check_04_nor_if_the_session_is_attached_to_the_service() -> Result<()> {
    let site = Site::start(two_rules(true)?).await?;
    let mut browsers = JoinSet::new();
    for _ in 0..50 {
        browsers.spawn(walk(site.visitor()));
    }
    let mut apart = 0;
    while let Some(walked) = browsers.join_next().await {
        let [on_a, on_b] = walked??;
        apart += usize::from(on_a != on_b);
    }
    assert!(apart > 0, "no browser has different backends for the rules");
    Ok(())
}

async fn walk(mut browser: Visitor) -> Result<[String; 2]> {
    let mut beside = browser.clone();
    let (a, b) = tokio::try_join!(browser.get("/a"), beside.get("/b"))?;
    let mut backends = Vec::new();
    let mut names = BTreeSet::new();
    for answer in [&a, &b] {
        let [cookie] = &answer.set_cookies()[..] else {
            anyhow::bail!("expected one cookie: {answer:?}")
        };
        ensure!(cookie.attribute("Path") == Some("/"), "{cookie:?}");
        browser.keep(&cookie.name, &cookie.value);
        names.insert(cookie.name.clone());
        backends.push(answer.backend().context("no backend")?.to_owned());
    }
    ensure!(names.len() == 2, "one cookie for both rules: {names:?}");
    let mut beside = browser.clone();
    for _ in 0..4 {
        let (a, b) = tokio::try_join!(browser.get("/a"), beside.get("/b"))?;
        let in_turn = [browser.get("/a").await?, browser.get("/b").await?];
        for (answer, backend) in [a, b].iter().chain(&in_turn).zip(backends.iter().cycle()) {
            ensure!(
                answer.backend() == Some(backend),
                "the session has left {backend}: {answer:?}"
            );
            ensure!(answer.set_cookies().is_empty(), "a token was issued again: {answer:?}");
        }
    }
    Ok(<[String; 2]>::try_from(backends).unwrap_or_default())
}

#[tokio::test]
async fn check_05_a_session_stays_on_its_service_at_weight_0() -> Result<()> {
    let policies = json!({"web": {"cookie": {"name": "limpet-session"}}});
    let weighted = |weights| [rule("/", "web/shop", weights)];
    let config = split(&weighted([100, 0]), &policies)?;
    let mut site = Site::start(config).await?;
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    assert_ne!(first.backend().context("no backend")?, "c");

    let other_weights = routes(&weighted([0, 100]));
    site.envoy.update(|config| config.routes(other_weights))?;
    let moved = |answer: &Answer| answer.backend() == Some("c");
    site.envoy
        .until_every_worker("new clients go to the other service", moved)
        .await?;
    for _ in 0..50 {
        let answer = visitor.get("/").await?;
        assert_eq!(answer.backend(), first.backend());
        assert!(answer.set_cookies().is_empty());
    }
    Ok(())
}

/// The control plane names sessions; `perScope` derives a name for each rule. Names survive a restart with the rules in
/// another order.
#[tokio::test]
async fn check_09_generated_names_differ_by_rule_and_are_stable() -> Result<()> {
    let Site { backends, envoy } = Site::start(two_rules(true)?).await?;
    let mut firsts = Vec::new();
    for path in ["/a", "/b"] {
        let first = envoy.get(path).send().await?;
        let backend = first.backend().context("no backend")?.to_owned();
        firsts.push((path, first.set_cookies().pop().context("no cookie")?, backend));
    }
    assert_ne!(firsts[0].1.name, firsts[1].1.name);

    drop(envoy);
    let reversed = two_rules(true)?.route_configuration(|routes| {
        if let Some(rules) = routes["virtual_hosts"][0]["routes"].as_array_mut() {
            rules.reverse();
        }
    });
    let envoy = Envoy::serve(reversed.backends(&backends)).await?;
    for (path, cookie, backend) in firsts {
        let anew = envoy.get(path).send().await?.set_cookies().pop().context("no cookie")?;
        assert_eq!(anew.name, cookie.name);
        for _ in 0..4 {
            let answer = envoy.get(path).cookie(cookie.pair()).send().await?;
            assert_eq!(answer.backend(), Some(&*backend));
        }
    }
    Ok(())
}

/// The first of the three behaviours that the GEP permits: "Apply session persistence configured in `BackendLBPolicy`
/// to `servicev1` and `servicev2` equally". A session stays on whichever service it begins.
#[tokio::test]
async fn check_13_a_policy_on_some_backends_is_applied_to_all_equally() -> Result<()> {
    let policies = json!({"of-shop-v1": {"cookie": {"name": "limpet-session"}}});
    let rules = [rule("/", "of-shop-v1/shop", [50, 50])];
    let site = Site::start(split(&rules, &policies)?).await?;
    let mut on_v2 = 0;
    for _ in 0..30 {
        let mut visitor = site.visitor();
        let first = visitor.get("/").await?;
        on_v2 += usize::from(first.backend() == Some("c"));
        for _ in 0..4 {
            let answer = visitor.get("/").await?;
            assert_eq!(answer.backend(), first.backend());
            assert!(answer.set_cookies().is_empty());
        }
    }
    assert!(
        (1..30).contains(&on_v2),
        "{on_v2} of 30 sessions are on the second service"
    );
    Ok(())
}

/// The matching rule answers, whatever session the request brings.
#[tokio::test]
async fn check_18_sessions_do_not_impact_route_matching() -> Result<()> {
    let policies = json!({"web": {"cookie": {"name": "limpet-session"}}});
    let rules = [
        rule("/shop", "web/canary", [0, 100]).with_header("x-canary", "yes"),
        rule("/shop", "web/shop", [100, 0]),
        rule("/", "web/rest", [50, 50]),
    ];
    let site = Site::start(split(&rules, &policies)?).await?;
    let requests = [
        ("/shop", "yes", "web/canary"),
        ("/shop", "no", "web/shop"),
        ("/", "yes", "web/rest"),
    ];
    let request = |(path, canary, _)| site.envoy.get(path).header("x-canary", canary);
    for own in requests {
        let first = request(own).send().await?;
        let pair = first.set_cookie("limpet-session").context("no token")?.pair();
        for other in requests {
            for _ in 0..4 {
                let answer = request(other).cookie(&pair).send().await?;
                assert_eq!(answer.header("x-rule"), Some(other.2), "with a session of {}", own.2);
                match other.2 {
                    same if same == own.2 => assert_eq!(answer.backend(), first.backend()),
                    "web/canary" => assert_eq!(answer.backend(), Some("c")),
                    "web/shop" => assert_ne!(answer.backend(), Some("c")),
                    _ => {}
                }
            }
        }
    }
    Ok(())
}

/// The weight is 80 of 100: of 600 first requests 480, plus or minus five standard deviations of 9.8.
#[tokio::test]
async fn check_19_without_a_token_the_weights_decide() -> Result<()> {
    let policies = json!({"web": {"cookie": {"name": "limpet-session"}}});
    let rules = [rule("/", "web/shop", [80, 20])];
    let site = Site::start(split(&rules, &policies)?).await?;
    let mut connection = Connection::open(site.envoy.address(), false).await?;
    let mut on_v1 = 0;
    for _ in 0..600 {
        let answer = connection.send(site.envoy.get("/")).await?;
        ensure!(
            answer.set_cookie("limpet-session").is_some(),
            "the first answer has no token"
        );
        on_v1 += usize::from(answer.backend().context("no backend")? != "c");
    }
    assert!((431..=529).contains(&on_v1), "{on_v1} of 600");
    Ok(())
}
