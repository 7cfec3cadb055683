//! Annotations for what the Gateway API has no field for, in every dialect.
//!
//! - 24: Tokens in further carriers: `also` and `tell`.
//! - 25: Tokens in the query of URLs, the GEP's third mechanism: `query`.
//! - 26: The client's address holds the session: `source`.
//! - 27: A session begins and ends with the application's own: `begin` and `end`.
//! - 28: No session begins at a Service of a split: `begin: never` of the Service.
//! - 29: The application moves its session to another pod of the same Service: `move`.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use limpet_e2e::kube::Release;
use limpet_e2e::{Answer, Visitor, poll};
use serde_json::{Value, json};

use super::client_ip::clients;
use super::dialect::{Dialect, SessionSpec};
use super::site::{GatewaySite, V1, V2, is_from, prefixed, rule, stated};

const TOLD: &str = "x-session";

/// Applies sessions with these annotations, and waits until a new client's answer is as `begins` says.
async fn begun(
    dialect: Dialect,
    check: &str,
    annotations: Value,
    begins: impl Fn(&Answer) -> bool,
) -> Result<(&'static GatewaySite, String)> {
    let site = GatewaySite::shared(dialect.release()).await?;
    let name = dialect.prefix(check);
    let path = format!("/{name}");
    let services = site.services(&name).await?;
    let rules = [rule(&path, &[(&services[0], 1), (&services[1], 1)])];
    let spec = SessionSpec {
        annotations,
        ..SessionSpec::named(&name)
    };
    dialect.apply(site, &name, &services, &rules, &spec).await?;
    let begins = |answer: &Answer| answer.status == 200 && begins(answer);
    site.until("sessions to begin", &path, begins).await?;
    Ok((site, path))
}

#[tokio::test]
async fn check_24_a_token_is_told_and_taken_from_further_carriers() -> Result<()> {
    for dialect in Dialect::ALL {
        let annotations = json!({
            "also": "[{header: {name: x-session}}, {query: {name: session}}]",
            "tell": "{header: {name: x-session}}",
            // The newer shape has another default.
            "forward": "false",
        });
        let is_told = |answer: &Answer| answer.header(TOLD).is_some();
        let (site, path) = begun(dialect, "check-24", annotations, is_told).await?;
        let first = site.get(&path).send().await?;
        let token = first.header(TOLD).context("no token")?;
        let cookie = first.set_cookies().pop().context("no cookie")?;
        ensure!(cookie.value == token, "{dialect:?}: {first:?}");
        for _ in 0..6 {
            for request in [
                site.get(&path).cookie(cookie.pair()),
                site.get(&path).header(TOLD, token),
                site.get(&format!("{path}?a=1&session={token}&b=2")),
            ] {
                let answer = request.send().await?;
                ensure!(answer.backend() == first.backend(), "{dialect:?}: {answer:?}");
                ensure!(
                    answer.set_cookies().is_empty() && !is_told(&answer),
                    "{dialect:?}: {answer:?}"
                );
                let seen = answer.seen()?;
                let query = seen.query.as_deref();
                ensure!(
                    seen.all(TOLD).is_empty() && seen.cookies().is_none(),
                    "{dialect:?}: {seen:?}"
                );
                ensure!(query.is_none_or(|query| query == "a=1&b=2"), "{dialect:?}: {seen:?}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn check_25_a_token_travels_in_the_query_of_urls() -> Result<()> {
    for dialect in Dialect::ALL {
        let annotations = json!({"query": "{name: token}", "tell": "{header: {name: x-session}}"});
        let is_told = |answer: &Answer| answer.header(TOLD).is_some();
        let (site, path) = begun(dialect, "check-25", annotations, is_told).await?;
        let first = site.get(&path).send().await?;
        let token = first.header(TOLD).context("no token")?;
        ensure!(first.set_cookies().is_empty(), "{dialect:?}: {first:?}");
        // The parameter has the session's name, where there is one.
        let name = path.trim_start_matches('/');
        for _ in 0..6 {
            let answer = site.get(&format!("{path}?{name}={token}")).send().await?;
            ensure!(answer.backend() == first.backend(), "{dialect:?}: {answer:?}");
            ensure!(answer.seen()?.query.is_none(), "{dialect:?}: {answer:?}");
        }
    }
    Ok(())
}

/// Each Envoy's number of requests led by an address.
async fn steered(site: &GatewaySite) -> Result<Vec<u64>> {
    let mut counts = Vec::new();
    for envoy in &site.envoys {
        let of_policies = envoy.admin().stats("client-ip-.*steered$").await?;
        counts.push(of_policies.values().sum());
    }
    Ok(counts)
}

/// All Envoys hash clients in no table alike.
#[tokio::test]
async fn check_26_an_address_holds_the_session_of_a_rule() -> Result<()> {
    for dialect in Dialect::ALL {
        let site = GatewaySite::shared(dialect.release()).await?;
        let name = dialect.prefix("check-26");
        let path = format!("/{name}");
        let services = site.services(&name).await?;
        let rules = [rule(&path, &[(&services[0], 1)])];
        let spec = SessionSpec {
            annotations: json!({"source": "{timeout: 1h, entries: 1000}"}),
            ..SessionSpec::named(&name)
        };
        let before = steered(site).await?;
        dialect.apply(site, &name, &services, &rules, &spec).await?;
        let knows_clients = async || {
            site.get(&path).send().await.ok()?;
            let now = steered(site).await.ok()?;
            now.iter().zip(&before).all(|(now, before)| now > before).then_some(())
        };
        poll::until("both Envoys to know a client", knows_clients).await?;
        let mut pods = BTreeSet::new();
        for client in clients(0) {
            let mut of_client = BTreeSet::new();
            for _ in 0..16 {
                let answer = site.get(&path).from(client).send().await?;
                ensure!(answer.set_cookies().is_empty(), "{dialect:?}: {answer:?}");
                of_client.extend(answer.backend().map(str::to_owned));
            }
            ensure!(
                of_client.len() == 1,
                "{dialect:?}: {client} has several pods: {of_client:?}"
            );
            pods.append(&mut of_client);
        }
        ensure!(pods.len() == 2, "{dialect:?}: all clients have one pod: {pods:?}");
    }
    Ok(())
}

/// By `sessionDefaults`, and a route that overrides it.
#[tokio::test]
async fn check_27_a_session_begins_and_ends_with_the_applications_own() -> Result<()> {
    let defaults = json!({"begin": {"cookie": "SID"}, "end": {"cookie": "SID"}, "split": "keep"});
    let change = move |config: &mut Value| config["sessionDefaults"] = defaults;
    let site = GatewaySite::start(Release::V1_7_0, "begin", change).await?;
    let services = site.services("begin").await?;
    let rules = |path: &str| {
        let mut rule = rule(path, &[(&services[0], 1), (&services[1], 1)]);
        rule["sessionPersistence"] = json!({"cookie": {"name": path.trim_start_matches('/')}});
        vec![rule]
    };
    let always = json!({"begin": "always"});
    site.annotated_route("always", &rules("/always"), &always).await?;
    site.route("login", &rules("/login")).await?;
    site.until_sessions("/always").await?;
    let login = |value: &str| site.get("/login").answered_with("set-cookie", value);
    let begins = |answer: &Answer| answer.status == 200 && answer.set_cookies().len() == 2;
    site.until_asked("sessions to begin", || login("SID=1"), begins).await?;
    for _ in 0..6 {
        let answer = login("other=1").send().await?;
        ensure!(answer.set_cookies().len() == 1, "{answer:?}");
    }

    let first = login("SID=1").send().await?;
    let session = first.set_cookie("login").context("no session")?.pair();
    for _ in 0..6 {
        let answer = site.get("/login").cookie(&session).send().await?;
        ensure!(
            answer.backend() == first.backend() && answer.set_cookies().is_empty(),
            "{answer:?}"
        );
    }
    let logout = login("SID=; Max-Age=0").cookie(&session).send().await?;
    let deleted = logout.set_cookie("login").context("the session's cookie stays")?;
    ensure!(deleted.attribute("Max-Age") == Some("0"), "{deleted:?}");
    Ok(())
}

#[tokio::test]
async fn check_28_no_session_begins_at_a_service_that_says_so() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let services = site.services("check-28").await?;
    let never = json!({"metadata": {"annotations": prefixed(&json!({"begin": "never"}))}});
    site.namespace.merge("v1/Service", &services[1], &never).await?;
    let mut rule = rule("/check-28", &[(&services[0], 1), (&services[1], 1)]);
    rule["sessionPersistence"] = json!({"cookie": {"name": "check-28"}});
    site.annotated_route("check-28", &[rule], &json!({"split": "keep"}))
        .await?;
    let as_said = |answer: &Answer| {
        let begins = answer.set_cookies().len() == 1;
        answer.status == 200 && begins == is_from(V1, answer) && begins != is_from(V2, answer)
    };
    site.until("the sessions", "/check-28", as_said).await?;
    let mut visitor = site.visitor();
    // The weights choose for each request: this ends.
    let first = loop {
        let answer = visitor.get("/check-28").await?;
        ensure!(as_said(&answer), "{answer:?}");
        if is_from(V1, &answer) {
            break answer;
        }
    };
    for _ in 0..24 {
        let answer = visitor.get("/check-28").await?;
        ensure!(
            answer.backend() == first.backend() && answer.set_cookies().is_empty(),
            "{answer:?}"
        );
    }

    // A mistake is an Event, and the former value counts.
    let wrong = json!({"metadata": {"annotations": prefixed(&json!({"begin": "later"}))}});
    site.namespace.merge("v1/Service", &services[1], &wrong).await?;
    let words = "metadata.annotations[session.limpet.dev/begin]: expected never, found \"later\"";
    until_told(site, &services[1], words).await?;
    for _ in 0..12 {
        let answer = site.visitor().get("/check-28").await?;
        ensure!(as_said(&answer), "{answer:?}");
    }
    let nothing = json!({"metadata": {"annotations": prefixed(&json!({"begin": null}))}});
    site.namespace.merge("v1/Service", &services[1], &nothing).await?;
    site.until_sessions("/check-28").await
}

/// The rule is a split. A session stays in its Service, whichever pod the application names.
#[tokio::test]
async fn check_29_an_application_moves_its_session_to_a_pod() -> Result<()> {
    for dialect in Dialect::ALL {
        let annotations = json!({"move": "{header: X-Move}"});
        let begins = |answer: &Answer| answer.set_cookies().len() == 1;
        let (site, path) = begun(dialect, "check-29", annotations, begins).await?;
        let get = |pod: &str| site.get(&path).answered_with("x-move", pod);
        until_pods_are_known(site, &path).await?;
        let is_moved = async || {
            for _ in 0..24 {
                let mut visitor = site.visitor();
                let told = visitor.send(get("a")).await.ok()?;
                let next = visitor.get(&path).await.ok()?;
                (!is_from(V1, &told) || next.backend() == Some("a")).then_some(())?;
            }
            Some(())
        };
        poll::until("every worker to move sessions", is_moved).await?;
        for (own, other) in [(V1, V2), (V2, V1)] {
            let (mut visitor, mut at) = visitor_at(site, &path, own).await?;
            for pod in [own[0], own[1], own[0]] {
                let before = site.count("refused_moves").await?;
                let told = visitor.send(get(pod)).await?;
                ensure!(told.backend() == Some(&*at), "{dialect:?}: {told:?}");
                ensure!(
                    told.set_cookies().len() == usize::from(pod != at),
                    "{dialect:?}: {told:?}"
                );
                let refused = site.count("refused_moves").await? - before;
                ensure!(refused == 0, "{dialect:?}: {pod} is refused");
                pod.clone_into(&mut at);
                for _ in 0..12 {
                    let answer = visitor.get(&path).await?;
                    ensure!(answer.backend() == Some(pod), "{dialect:?}: {answer:?}");
                }
            }
            let before = site.count("refused_moves").await?;
            for pod in other {
                let told = visitor.send(get(pod)).await?;
                ensure!(told.set_cookies().is_empty(), "{dialect:?}: {told:?}");
            }
            ensure!(
                site.count("refused_moves").await? == before + 2,
                "{dialect:?}: not counted"
            );
            for _ in 0..12 {
                let answer = visitor.get(&path).await?;
                ensure!(answer.backend() == Some(&*at), "{dialect:?}: {answer:?}");
                ensure!(answer.set_cookies().is_empty(), "{dialect:?}: {answer:?}");
            }
        }
    }
    Ok(())
}

/// Waits until both Envoys know the pods of this path's Services, which come after the route.
async fn until_pods_are_known(site: &GatewaySite, path: &str) -> Result<()> {
    let services = ["v1", "v2"].map(|version| format!("{}-{version}", path.trim_start_matches('/')));
    let known = async || {
        for envoy in &site.envoys {
            let filter = envoy.admin().text("/config_dump?resource=ecds_filters").await.ok()?;
            services.iter().all(|service| filter.contains(service)).then_some(())?;
        }
        Some(())
    };
    poll::until("both Envoys to know the pods", known).await
}

/// A visitor with a session at one of these pods, and the pod.
async fn visitor_at(site: &GatewaySite, path: &str, pods: [&str; 2]) -> Result<(Visitor, String)> {
    poll::until("a session at these pods", async || {
        let mut visitor = site.visitor();
        let answer = visitor.get(path).await.ok()?;
        let pod = answer.backend().filter(|_| is_from(pods, &answer))?.to_owned();
        Some((visitor, pod))
    })
    .await
}

async fn until_told(site: &GatewaySite, name: &str, words: &str) -> Result<()> {
    let told = async || {
        let events = site.namespace.list("events.k8s.io/v1/Event", "").await.ok()?;
        let mut its = events.iter().filter(|event| event["regarding"]["name"] == name);
        its.any(|event| event["note"].as_str().is_some_and(|note| note.contains(words)))
            .then_some(())
    };
    poll::until("the Event", told).await
}

/// It does not reach Envoys, and what is right stays.
#[tokio::test]
async fn an_annotation_of_nonsense_is_told_and_hurts_nobody_else() -> Result<()> {
    let dialect = Dialect::UnionTrafficPolicy;
    let annotations = json!({"tell": "{header: {name: x-session}}"});
    let is_told = |answer: &Answer| answer.header(TOLD).is_some();
    let (site, good) = begun(dialect, "nonsense-good", annotations, is_told).await?;
    let session = site.get(&good).send().await?;
    let cookie = session.set_cookies().pop().context("no cookie")?.pair();

    for (value, words) in [
        (
            "{heder: {name: x-session}}",
            "metadata.annotations[session.limpet.dev/tell]: expected none, or YAML like {header: {name: x-session}}, \
             found \"{heder: {name: x-session}}\" (heder: unknown field `heder`, expected `header`)",
        ),
        (
            "{header: {name: x-limpet-host}}",
            "metadata.annotations[session.limpet.dev/tell]: header.name: expected",
        ),
    ] {
        let services = site.services("nonsense").await?;
        let rules = [rule("/nonsense", &[(&services[0], 1), (&services[1], 1)])];
        let spec = SessionSpec {
            annotations: json!({"tell": value}),
            ..SessionSpec::named("nonsense")
        };
        dialect.apply(site, "nonsense", &services, &rules, &spec).await?;
        let is_refused = |policy: &Value| {
            let (condition, message) = stated(policy, "Accepted");
            condition == "False/Invalid" && message.contains(words)
        };
        site.namespace
            .until(words, "XBackendTrafficPolicy", "nonsense", is_refused)
            .await?;
        let plain = |answer: &Answer| answer.status == 200 && answer.set_cookies().is_empty();
        site.until("the route to have no sessions", "/nonsense", plain).await?;
    }
    // Where no status has room for it, an Event says it.
    let spec = SessionSpec {
        annotations: json!({"also": "x-session"}),
        ..SessionSpec::named("nonsense")
    };
    let (nobody, elsewhere) = (["of-nobody".to_owned()], site.services("nonsense").await?);
    let rules = [rule("/nonsense-unused", &[(&elsewhere[0], 1)])];
    dialect.apply(site, "nonsense-unused", &nobody, &rules, &spec).await?;
    let words = "metadata.annotations[session.limpet.dev/also]: expected [], or YAML like \
                 [{header: {name: x-session}}, {query: {name: session}}], found \"x-session\" (expected a list)";
    until_told(site, "nonsense-unused", words).await?;
    for _ in 0..6 {
        let answer = site.get(&good).cookie(&cookie).send().await?;
        ensure!(
            answer.backend() == session.backend() && answer.set_cookies().is_empty(),
            "{answer:?}"
        );
    }
    Ok(())
}
