//! Which configuration is in effect: the rule's, or one policy's of several.
//!
//! - 1: Inline persistence "MUST take precedence" over the policy, whose status says so.
//! - 2: Inline persistence "MUST NOT affect traffic for other routes or route rules".
//! - 14: Two policies with the same name on one route: the oldest wins, and the other one is Conflicted.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::Answer;
use limpet_e2e::kube::Release;
use serde_json::{Value, json};

use super::dialect::lb_policy;
use super::site::{GatewaySite, V1, V2, is_from, rule, stated};

/// Whether a cookie of this name is set, with or without the suffix of a rule.
fn begins(answer: &Answer, name: &str) -> bool {
    let suffixed = format!("{name}~");
    let cookies = answer.set_cookies();
    cookies.len() == 1
        && cookies
            .iter()
            .all(|cookie| cookie.name == name || cookie.name.starts_with(&suffixed))
}

#[tokio::test]
async fn check_01_inline_persistence_takes_precedence() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let services = site.services("check-1").await?;
    let services = services.each_ref().map(String::as_str);
    let policy = lb_policy("check-1", &services, &json!({"sessionName": "of-policy"}));
    site.namespace.apply_object(&policy).await?;
    let plain = rule("/check-1", &[(services[0], 1), (services[1], 1)]);
    site.route("check-1", std::slice::from_ref(&plain)).await?;
    site.until("the policy's sessions", "/check-1", |answer| {
        begins(answer, "of-policy")
    })
    .await?;

    let mut inline = plain;
    inline["sessionPersistence"] = json!({"sessionName": "of-rule"});
    site.route("check-1", &[inline]).await?;
    site.until("the rule's sessions", "/check-1", |answer| begins(answer, "of-rule"))
        .await?;
    let overridden = |object: &Value| {
        let (programmed, message) = stated(object, "Programmed");
        programmed == "False/Overridden" && message.contains("HTTPRoute") && message.contains("spec.rules[0]")
    };
    let policy = site
        .namespace
        .until("the policy to say so", "BackendLBPolicy", "check-1", overridden)
        .await?;
    assert_eq!(stated(&policy, "Accepted").0, "True/Accepted");
    Ok(())
}

#[tokio::test]
async fn check_02_inline_persistence_does_not_affect_other_rules() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let services = site.services("check-2").await?;
    let services = services.each_ref().map(String::as_str);
    let policy = lb_policy("check-2", &services, &json!({"sessionName": "check-2-policy"}));
    site.namespace.apply_object(&policy).await?;
    let to = |path: &str| rule(path, &[(services[0], 1), (services[1], 1)]);
    let mut inline = to("/check-2-inline");
    inline["sessionPersistence"] = json!({"sessionName": "check-2-rule"});
    site.route("check-2-beside", &[to("/check-2-beside")]).await?;
    site.route("check-2", &[inline, to("/check-2-rule")]).await?;
    for (path, name) in [
        ("/check-2-inline", "check-2-rule"),
        ("/check-2-rule", "check-2-policy"),
        ("/check-2-beside", "check-2-policy"),
    ] {
        site.until("sessions of the right name", path, |answer| begins(answer, name))
            .await?;
    }
    // The rule with its own session refuses one of another route, whose rules follow the policy.
    let first = site.get("/check-2-beside").send().await?;
    let token = first.set_cookies().pop().context("no cookie")?.value;
    let answer = site
        .get("/check-2-inline")
        .cookie(format!("check-2-rule={token}"))
        .send()
        .await?;
    assert!(begins(&answer, "check-2-rule"), "{answer:?}");
    let partly = |object: &Value| stated(object, "Programmed").0 == "True/PartiallyProgrammed";
    site.namespace
        .until("the policy to say so", "BackendLBPolicy", "check-2", partly)
        .await?;
    Ok(())
}

#[tokio::test]
async fn check_13_a_policy_on_some_backends_is_applied_to_all_equally() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let services = site.services("check-13").await?;
    let services = services.each_ref().map(String::as_str);
    let policy = lb_policy("check-13", &services[..1], &json!({"sessionName": "check-13"}));
    site.namespace.apply_object(&policy).await?;
    let rules = [rule("/check-13", &[(services[0], 1), (services[1], 1)])];
    site.route("check-13", &rules).await?;
    site.until_sessions("/check-13").await?;
    let mut counts = [0; 2];
    for _ in 0..30 {
        let mut visitor = site.visitor();
        let first = visitor.get("/check-13").await?;
        counts[usize::from(is_from(V2, &first))] += 1;
        for _ in 0..4 {
            let answer = visitor.get("/check-13").await?;
            ensure!(
                answer.backend() == first.backend() && answer.set_cookies().is_empty(),
                "{answer:?}"
            );
        }
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    let said = |object: &Value| {
        let (accepted, message) = stated(object, "Accepted");
        accepted == "True/Accepted" && message.contains("all of its backends and not only the targets")
    };
    site.namespace
        .until("the policy to say so", "BackendLBPolicy", "check-13", said)
        .await?;
    Ok(())
}

/// The older policy's name is once the first one in the alphabet, once the second.
#[tokio::test]
async fn check_14_of_two_policies_with_one_name_the_older_wins() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    for (older, younger) in [("check-14-a", "check-14-b"), ("check-14-z", "check-14-y")] {
        let services = site.services(older).await?;
        let [v1, v2] = services.each_ref().map(String::as_str);
        let persistence = json!({"sessionName": older});
        let first = site
            .namespace
            .apply_object(&lb_policy(older, &[v1], &persistence))
            .await?;
        let created = |object: &Value| {
            object["metadata"]["creationTimestamp"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        // The API's times are in seconds.
        loop {
            let second = site
                .namespace
                .apply_object(&lb_policy(younger, &[v2], &persistence))
                .await?;
            if created(&second) > created(&first) {
                break;
            }
            site.namespace.delete("BackendLBPolicy", younger).await?;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let (of_older, of_younger) = (format!("/{older}"), format!("/{younger}"));
        let rules = [rule(&of_younger, &[(v2, 1)]), rule(&of_older, &[(v1, 1)])];
        site.route(older, &rules).await?;
        site.until("the older one's sessions", &of_older, |answer| begins(answer, older))
            .await?;
        let none = |answer: &Answer| is_from(V2, answer) && answer.set_cookies().is_empty();
        site.until("no sessions of the younger one", &of_younger, none).await?;

        let conflicted = |object: &Value| {
            let (accepted, message) = stated(object, "Accepted");
            accepted == "False/Conflicted" && message.contains(older)
        };
        site.namespace
            .until("the loser to say so", "BackendLBPolicy", younger, conflicted)
            .await?;
        let accepted = |object: &Value| stated(object, "Accepted").0 == "True/Accepted";
        site.namespace
            .until("the winner to say so", "BackendLBPolicy", older, accepted)
            .await?;
        site.namespace.delete("BackendLBPolicy", older).await?;
        site.until("the other's sessions", &of_younger, |answer| begins(answer, older))
            .await?;
        site.until("no sessions", &of_older, |answer| {
            is_from(V1, answer) && answer.set_cookies().is_empty()
        })
        .await?;
    }
    Ok(())
}
