//! Applications that set a cookie or header of the session's name.

use anyhow::Result;
use limpet_e2e::{Answer, Answering, Config, Site};
use serde_json::json;

const LINE: &str = "which is the session's: it is removed from requests and responses, so rename one of the two";

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
    // A process logs the line once for a policy.
    let site = Site::start(Config::load("cookie.yaml")?.alone()).await?;
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

/// A control plane writes the configuration again with every policy.
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
