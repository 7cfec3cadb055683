//! Sessions belong to a rule, in every dialect where they do (checks 3, 4, 5, 18 and 19).
//!
//! - 30: From release 1.7 on, persistence "MUST NOT override which backend is selected during traffic splitting".
//! - 31: Rules share a session where an annotation says so.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Release;
use limpet_e2e::{Answer, Connection, Visitor};
use serde_json::json;
use tokio::task::JoinSet;

use super::dialect::{Dialect, SessionSpec, lb_policy};
use super::site::{GatewaySite, V1, V2, is_from, rule};
use super::statistics::{TOO_MUCH_FOR_TWO, chi_squared};

/// The weights of `/b` never lead where a token of `/a` does. But a split also has routes for weight 0, so an honoured
/// token would.
#[tokio::test]
async fn check_03_rules_of_one_service_do_not_share_sessions() -> Result<()> {
    for dialect in Dialect::ALL {
        let site = GatewaySite::shared(dialect.release()).await?;
        let name = dialect.prefix("check-3");
        let (a, b) = (format!("/{name}-a"), format!("/{name}-b"));
        let services = site.services(&name).await?;
        let [v1, v2] = services.each_ref().map(String::as_str);
        let rules = [rule(&a, &[(v1, 100), (v2, 0)]), rule(&b, &[(v1, 0), (v2, 100)])];
        dialect
            .apply(site, &name, &services, &rules, &SessionSpec::named(&name))
            .await?;
        site.until_sessions(&a).await?;
        site.until_sessions(&b).await?;

        let answer_a = site.get(&a).send().await?;
        let answer_b = site.get(&b).send().await?;
        let token_a = answer_a.set_cookies().pop().context("no cookie")?;
        let token_b = answer_b.set_cookies().pop().context("no cookie")?;
        ensure!(token_a.name.starts_with(&name), "{dialect:?}: {token_a:?}");
        for cookie in [&token_a.name, &token_b.name, &name] {
            for _ in 0..6 {
                let answer = site
                    .get(&b)
                    .cookie(format!("{cookie}={}", token_a.value))
                    .send()
                    .await?;
                ensure!(is_from(V2, &answer), "{dialect:?}: {cookie} is honoured");
                ensure!(answer.set_cookies().len() == 1, "{dialect:?}: {cookie} was not refused");
            }
        }
        for _ in 0..6 {
            let answer = site.get(&a).cookie(token_a.pair()).send().await?;
            ensure!(
                answer.backend() == answer_a.backend() && is_from(V1, &answer),
                "{dialect:?}"
            );
        }
    }
    Ok(())
}

/// With one cookie for both rules, each request would end the other rule's session.
#[tokio::test]
async fn check_04_nor_if_the_session_is_attached_to_the_service() -> Result<()> {
    for dialect in Dialect::ALL {
        let site = GatewaySite::shared(dialect.release()).await?;
        let name = dialect.prefix("check-4");
        let paths = [format!("/{name}-a"), format!("/{name}-b")];
        let services = site.services(&name).await?;
        let [v1, v2] = services.each_ref().map(String::as_str);
        let rules = paths.each_ref().map(|path| rule(path, &[(v1, 50), (v2, 50)]));
        dialect
            .apply(site, &name, &services, &rules, &SessionSpec::named(&name))
            .await?;
        for path in &paths {
            site.until_sessions(path).await?;
        }
        let mut browsers = JoinSet::new();
        for _ in 0..20 {
            browsers.spawn(walk(site.visitor(), paths.clone()));
        }
        let mut apart = 0;
        while let Some(walked) = browsers.join_next().await {
            let [answer_a, answer_b] = walked?.with_context(|| format!("{dialect:?}"))?;
            apart += usize::from(answer_a != answer_b);
        }
        ensure!(
            apart > 0,
            "{dialect:?}: no browser has different backends for the rules"
        );
    }
    Ok(())
}

/// Two routes of one host, and two policies with the same cookie name. A session from before the second route
/// continues.
#[tokio::test]
async fn two_routes_of_one_host_keep_their_sessions_under_one_name() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let services = site.services("one-name").await?;
    let paths = ["/one-name-a".to_owned(), "/one-name-b".to_owned()];
    let persistence = json!({"sessionName": "one-name"});
    let apply = async |at: usize| {
        let (service, path) = (services[at].as_str(), paths[at].as_str());
        let name = path.trim_start_matches('/');
        let policy = lb_policy(name, &[service], &persistence);
        site.namespace.apply_object(&policy).await?;
        site.route(name, &[rule(path, &[(service, 1)])]).await
    };
    apply(0).await?;
    site.until_sessions(&paths[0]).await?;
    let mut browser = site.visitor();
    let before = browser.get(&paths[0]).await?;
    let [cookie] = &before.set_cookies()[..] else {
        anyhow::bail!("{before:?}")
    };
    ensure!(
        cookie.name == "one-name",
        "the name was changed without a conflict: {cookie:?}"
    );

    apply(1).await?;
    let apart = |answer: &Answer| {
        let cookies = answer.set_cookies();
        cookies.iter().any(|cookie| cookie.name.starts_with("one-name~"))
    };
    site.until("a cookie for each route", &paths[1], apart).await?;
    let first = site.visitor().get(&paths[0]).await?;
    let names: Vec<String> = first.set_cookies().into_iter().map(|cookie| cookie.name).collect();
    ensure!(names == ["one-name"], "{names:?}");
    let beside = browser.get(&paths[1]).await?;
    for _ in 0..4 {
        for (path, first) in paths.iter().zip([&before, &beside]) {
            let answer = browser.get(path).await?;
            ensure!(answer.backend() == first.backend(), "the session is lost: {answer:?}");
        }
    }
    for _ in 0..6 {
        walk(site.visitor(), paths.clone()).await?;
    }
    Ok(())
}

/// The backends of a browser's two sessions.
async fn walk(mut browser: Visitor, [a, b]: [String; 2]) -> Result<[String; 2]> {
    let mut beside = browser.clone();
    let (answer_a, answer_b) = tokio::try_join!(browser.get(&a), beside.get(&b))?;
    let mut backends = Vec::new();
    let mut names = BTreeSet::new();
    for answer in [&answer_a, &answer_b] {
        let cookie = answer.set_cookies().pop().context("no cookie")?;
        ensure!(cookie.attribute("Path") == Some("/"), "{cookie:?}");
        browser.keep(&cookie.name, &cookie.value);
        names.insert(cookie.name);
        backends.push(answer.backend().context("no backend")?.to_owned());
    }
    ensure!(names.len() == 2, "one cookie for both rules: {names:?}");
    for _ in 0..4 {
        for (path, backend) in [&a, &b].into_iter().zip(&backends) {
            let answer = browser.get(path).await?;
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
    for dialect in Dialect::ALL {
        let site = GatewaySite::shared(dialect.release()).await?;
        let name = dialect.prefix("check-5");
        let path = format!("/{name}");
        let services = site.services(&name).await?;
        let [v1, v2] = services.each_ref().map(String::as_str);
        let apply = async |weights: [u32; 2]| {
            let rules = [rule(&path, &[(v1, weights[0]), (v2, weights[1])])];
            dialect
                .apply(site, &name, &services, &rules, &SessionSpec::named(&name))
                .await
        };
        apply([100, 0]).await?;
        site.until_sessions(&path).await?;
        let mut visitor = site.visitor();
        let first = visitor.get(&path).await?;
        ensure!(is_from(V1, &first), "{dialect:?}: {first:?}");

        apply([0, 100]).await?;
        let moved = |answer: &Answer| is_from(V2, answer);
        site.until("new clients to go to the other Service", &path, moved)
            .await?;
        for _ in 0..50 {
            let answer = visitor.get(&path).await?;
            ensure!(answer.backend() == first.backend(), "{dialect:?}: {answer:?}");
            ensure!(answer.set_cookies().is_empty(), "{dialect:?}: {answer:?}");
        }
    }
    Ok(())
}

/// The matching rule answers, whatever session the request brings: the canary's, if the header is right.
#[tokio::test]
async fn check_18_sessions_do_not_impact_route_matching() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let services = site.services("check-18").await?;
    let [v1, v2] = services.each_ref().map(String::as_str);
    let mut canary = rule("/check-18", &[(v1, 0), (v2, 100)]);
    canary["matches"][0]["headers"] = json!([{"name": "x-canary", "value": "yes"}]);
    let mut rules = [canary, rule("/check-18", &[(v1, 100), (v2, 0)])];
    for (rule, name) in rules.iter_mut().zip(["canary", "shop"]) {
        let set = json!({"set": [{"name": "x-rule", "value": name}]});
        rule["filters"] = json!([{"type": "ResponseHeaderModifier", "responseHeaderModifier": set}]);
    }
    let persistence = json!({"sessionName": "check-18"});
    let policy = lb_policy("check-18", &[v1, v2], &persistence);
    site.namespace.apply_object(&policy).await?;
    site.route("check-18", &rules).await?;
    site.until_sessions("/check-18").await?;

    let request = |canary: &str| site.get("/check-18").header("x-canary", canary);
    for (own, name, pods) in [("yes", "canary", V2), ("no", "shop", V1)] {
        let first = request(own).send().await?;
        let cookie = first.set_cookies().pop().context("no cookie")?;
        assert_eq!(first.header("x-rule"), Some(name));
        let (other, other_name, other_pods) = if own == "yes" {
            ("no", "shop", V1)
        } else {
            ("yes", "canary", V2)
        };
        for _ in 0..6 {
            let same = request(own).cookie(cookie.pair()).send().await?;
            assert_eq!((same.header("x-rule"), same.backend()), (Some(name), first.backend()));
            assert!(is_from(pods, &same));
            let answer = request(other).cookie(cookie.pair()).send().await?;
            assert_eq!(answer.header("x-rule"), Some(other_name));
            assert!(is_from(other_pods, &answer), "{answer:?}");
        }
    }
    Ok(())
}

/// A chi-squared test for weights 80 and 20, which 70 and 30 would fail.
#[tokio::test]
async fn check_19_without_a_token_the_weights_decide() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let services = site.services("check-19").await?;
    let [v1, v2] = services.each_ref().map(String::as_str);
    let policy = lb_policy("check-19", &[v1, v2], &json!({"sessionName": "check-19"}));
    site.namespace.apply_object(&policy).await?;
    site.route("check-19", &[rule("/check-19", &[(v1, 80), (v2, 20)])])
        .await?;
    site.until_sessions("/check-19").await?;
    let mut connection = Connection::open(site.controller.address(8080), false).await?;
    let mut counts = [0; 2];
    for _ in 0..1000 {
        let answer = connection.send(site.get("/check-19")).await?;
        ensure!(answer.set_cookies().len() == 1, "the first answer has no token");
        let at = usize::from(is_from(V2, &answer));
        counts[at] += 1;
    }
    let found = chi_squared(&counts, &[80, 20]);
    assert!(found < TOO_MUCH_FOR_TWO, "{counts:?}: chi-squared is {found}");
    assert!(chi_squared(&counts, &[65, 35]) > TOO_MUCH_FOR_TWO, "{counts:?}");
    Ok(())
}

/// A client that returns to a backend finds its session there. The counts pass a chi-squared test, which 55 to 45 would
/// fail.
#[tokio::test]
async fn check_30_the_split_chooses_from_release_1_7_on() -> Result<()> {
    for dialect in Dialect::ALL.into_iter().filter(|dialect| dialect.is_union()) {
        let site = GatewaySite::shared(dialect.release()).await?;
        let name = dialect.prefix("check-30");
        let path = format!("/{name}");
        let services = site.services(&name).await?;
        let [v1, v2] = services.each_ref().map(String::as_str);
        let spec = SessionSpec {
            leaves_split: true,
            ..SessionSpec::named(&name)
        };
        let apply = async |weights: [u32; 2]| {
            let rules = [rule(&path, &[(v1, weights[0]), (v2, weights[1])])];
            dialect.apply(site, &name, &services, &rules, &spec).await
        };
        // A session from before the split continues.
        let alone = [rule(&path, &[(v1, 1)])];
        dialect.apply(site, &name, &services, &alone, &spec).await?;
        site.until_sessions(&path).await?;
        let mut visitor = site.visitor();
        let first = visitor.get(&path).await?;
        assert_eq!(visitor.cookie_names(), [&name]);
        apply([70, 30]).await?;
        let is_split = |answer: &Answer| answer.set_cookies().iter().any(|cookie| cookie.name != name);
        site.until("the split", &path, is_split).await?;
        let mut counts = [0; 2];
        let mut kept = [BTreeSet::from_iter(first.backend().map(str::to_owned)), BTreeSet::new()];
        for _ in 0..800 {
            let answer = visitor.get(&path).await?;
            let version = usize::from(is_from(V2, &answer));
            counts[version] += 1;
            kept[version].insert(answer.backend().unwrap_or_default().to_owned());
        }
        ensure!(kept.iter().all(|pods| pods.len() == 1), "{dialect:?}: {kept:?}");
        let found = chi_squared(&counts, &[70, 30]);
        ensure!(
            found < TOO_MUCH_FOR_TWO,
            "{dialect:?}: {counts:?}: chi-squared is {found}"
        );
        ensure!(
            chi_squared(&counts, &[55, 45]) > TOO_MUCH_FOR_TWO,
            "{dialect:?}: {counts:?}"
        );

        apply([0, 100]).await?;
        let is_over = |answer: &Answer| is_from(V2, answer);
        site.until("the end of the split", &path, is_over).await?;
        for _ in 0..20 {
            let answer = visitor.get(&path).await?;
            ensure!(
                is_from(V2, &answer) && answer.set_cookies().is_empty(),
                "{dialect:?}: {answer:?}"
            );
        }
        apply([100, 0]).await?;
        site.until("the first Service again", &path, |answer| is_from(V1, answer))
            .await?;
        let back = visitor.get(&path).await?;
        ensure!(
            back.backend() == first.backend() && back.set_cookies().is_empty(),
            "{dialect:?}: {back:?}"
        );
    }
    Ok(())
}

/// A page and its WebSocket are two rules of one application.
#[tokio::test]
async fn check_31_rules_share_a_session_where_an_annotation_says_so() -> Result<()> {
    for dialect in Dialect::ALL {
        for (kind, scope) in [("service", "service"), ("named", "{name: basket}")] {
            let site = GatewaySite::shared(dialect.release()).await?;
            let name = dialect.prefix(&format!("check-31-{kind}"));
            let paths = [format!("/{name}"), format!("/{name}/socket")];
            let services = site.services(&name).await?;
            let rules = paths.each_ref().map(|path| rule(path, &[(services[0].as_str(), 1)]));
            let spec = SessionSpec {
                annotations: json!({"scope": scope}),
                ..SessionSpec::named(&name)
            };
            dialect.apply(site, &name, &services, &rules, &spec).await?;
            for path in &paths {
                site.until_sessions(path).await?;
            }
            let mut reached = BTreeSet::new();
            for client in 0..20 {
                let mut visitor = site.visitor();
                let (begins, then) = (&paths[client % 2], &paths[(client + 1) % 2]);
                let first = visitor.get(begins).await?;
                let second = visitor.get(then).await?;
                ensure!(first.backend() == second.backend(), "{dialect:?}: {first:?} {second:?}");
                ensure!(second.set_cookies().is_empty(), "{dialect:?}: {second:?}");
                ensure!(visitor.cookie_names() == [&name], "{dialect:?}: {visitor:?}");
                reached.insert(first.backend().unwrap_or_default().to_owned());
            }
            ensure!(reached.len() == 2, "{dialect:?}: all clients at one pod");
        }
    }
    Ok(())
}
