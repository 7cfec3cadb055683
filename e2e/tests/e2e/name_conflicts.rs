//! Applications that set a cookie or header of the session's name themselves.

use anyhow::{Context, Result};
use limpet_e2e::{Answer, Answering, Config, Site};
use serde_json::{Value, json};

const LINE: &str = "which is the session's: it is removed from requests and responses, so rename one of the two";

/// A process says [`LINE`] once of a policy.
async fn with_own_log(policy: &Value) -> Result<Site> {
    Site::start(Config::load("cookie.yaml")?.policy(policy).alone()).await
}

/// All backends set these fields.
fn answer(site: &Site, fields: &[(&str, &str)]) {
    let answering = fields.iter().fold(Answering::ok(), |answering, (name, value)| {
        answering.header(name, value)
    });
    for backend in &site.backends {
        backend.answer(answering.clone());
    }
}

#[tokio::test]
async fn an_application_with_the_cookies_name_ends_no_session() -> Result<()> {
    let site = with_own_log(&json!({"cookie": {"name": "limpet-session"}})).await?;
    answer(
        &site,
        &[
            ("set-cookie", "a=1"),
            ("set-cookie", "limpet-session=app; Path=/"),
            ("set-cookie", "b=2"),
        ],
    );
    // Each worker learns of it by itself.
    for _ in 0..40 {
        site.envoy.get("/").send().await?;
    }
    for _ in 0..10 {
        let mut visitor = site.visitor();
        let first = visitor.get("/").await?;
        for _ in 0..10 {
            let again = visitor.get("/").await?;
            assert_eq!(again.backend(), first.backend());
            let names: Vec<_> = again.set_cookies().into_iter().map(|cookie| cookie.name).collect();
            assert_eq!(names, ["a", "b"]);
        }
    }
    assert_eq!(site.envoy.metric("web.steered").await?, 100);
    assert_eq!(site.envoy.metric("web.name_conflicts").await?, 150);
    let log = site.envoy.log()?;
    assert_eq!(log.matches(LINE).count(), 1, "{log}");
    assert!(log.contains("policy web: the application sets a cookie of its own named limpet-session"));
    Ok(())
}

/// Whatever else changes in the configuration: a control plane writes it anew with every policy.
#[tokio::test]
async fn a_conflict_of_a_policy_is_told_once_for_all_updates() -> Result<()> {
    let default = |policy: &str| {
        json!({
            "keys": [{"id": 1, "env": "LIMPET_KEY"}],
            "policies": {"web": {"cookie": {"name": "limpet-session"}}, "more": {"cookie": {"name": "more"}}},
            "default": {"policy": policy, "scope": "default"},
        })
    };
    let mut site = Site::start(Config::load("ecds.yaml")?.filter(&default("more")).alone()).await?;
    answer(&site, &[("set-cookie", "limpet-session=app")]);
    for (policy, cookie) in [("web", "limpet-session"), ("more", "more"), ("web", "limpet-session")] {
        site.envoy.update(|config| config.filter(&default(policy)))?;
        let gives = |answer: &Answer| {
            answer
                .set_cookies()
                .last()
                .is_some_and(|last| last.name == cookie && last.value != "app")
        };
        site.envoy
            .until_every_worker(&format!("policy {policy}"), gives)
            .await?;
    }
    assert_eq!(site.envoy.log()?.matches(LINE).count(), 1);
    Ok(())
}

#[tokio::test]
async fn the_other_cookies_of_such_an_answer_arrive() -> Result<()> {
    let site = Site::with_policy(&json!({"cookie": {"name": "limpet-session"}})).await?;
    answer(
        &site,
        &[
            ("set-cookie", "a=1; Path=/"),
            ("set-cookie", "limpet-session=app"),
            ("set-cookie", "b=2"),
        ],
    );
    let set = site.envoy.get("/").send().await?.set_cookies();
    let names: Vec<_> = set.iter().map(|cookie| cookie.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "limpet-session"]);
    assert_eq!(set[2].value.len(), 60);
    Ok(())
}

#[tokio::test]
async fn an_application_with_the_headers_name_ends_no_session() -> Result<()> {
    let site = with_own_log(&json!({"header": {"name": "x-session"}})).await?;
    answer(&site, &[("x-session", "app")]);
    let first = site.envoy.get("/").send().await?;
    let token = first.header("x-session").context("no token")?.to_owned();
    assert_eq!(token.len(), 60);
    // A client that has lost its token to the application, on each worker.
    for _ in 0..20 {
        let answer = site.envoy.get("/").header("x-session", "app").send().await?;
        assert_eq!(answer.header("x-session").map(str::len), Some(60));
    }
    for _ in 0..10 {
        let answer = site.envoy.get("/").header("x-session", &token).send().await?;
        assert_eq!((answer.backend(), answer.header("x-session")), (first.backend(), None));
    }
    assert_eq!(site.envoy.log()?.matches(LINE).count(), 1);
    Ok(())
}

#[tokio::test]
async fn with_a_name_per_scope_the_application_keeps_its_own() -> Result<()> {
    let site = Site::with_policy(&json!({"cookie": {"name": "limpet-session", "perScope": true}})).await?;
    answer(&site, &[("set-cookie", "limpet-session=app; Path=/")]);
    let mut visitor = site.visitor();
    let first = visitor.get("/").await?;
    for _ in 0..6 {
        let again = visitor.get("/").await?;
        assert_eq!(again.backend(), first.backend());
        assert_eq!(again.seen()?.cookies().as_deref(), Some("limpet-session=app"));
    }
    assert_eq!(site.envoy.metric("web.name_conflicts").await?, 0);
    Ok(())
}
