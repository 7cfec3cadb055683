//! Answers with a token, as a shared cache between client and Envoy sees them.

use anyhow::Result;
use limpet_e2e::{Answering, Site};
use serde_json::{Value, json};

/// Policies of every carrier, and the field in which the application sets its own cookie or header.
fn carriers() -> [(Value, Option<(&'static str, &'static str)>); 5] {
    [
        (json!({"cookie": {"name": "limpet-session"}}), None),
        (json!({"header": {"name": "x-session"}}), None),
        (
            json!({"cookie": {"name": "app", "mode": "prefix"}}),
            Some(("set-cookie", "app=abc")),
        ),
        (
            json!({"cookie": {"name": "app", "mode": "rewrite"}}),
            Some(("set-cookie", "app=abc")),
        ),
        (
            json!({"header": {"name": "x-session", "mode": "prefix"}}),
            Some(("x-session", "abc")),
        ),
    ]
}

/// A cache merges the fields of a 304 into what it has stored (RFC 9111 sections 3.2 and 4.3.4), and hands the token to
/// every client.
#[tokio::test]
async fn no_cache_may_merge_a_token_into_what_it_has_stored() -> Result<()> {
    for (policy, applications) in carriers() {
        let site = Site::with_policy(&policy).await?;
        for status in [200, 206, 302, 304, 404, 500] {
            for stored in [None, Some("public, max-age=60")] {
                let mut answering = Answering::status(status)
                    .header("etag", "\"1\"")
                    .header("cdn-cache-control", "max-age=600");
                for (name, value) in applications
                    .into_iter()
                    .chain(stored.map(|field| ("cache-control", field)))
                {
                    answering = answering.header(name, value);
                }
                for backend in &site.backends {
                    backend.answer(answering.clone());
                }
                let answer = site.envoy.get("/").header("if-none-match", "\"1\"").send().await?;
                let what = format!("{status} with {stored:?}, {policy}");
                assert_eq!(answer.status, status, "{what}");
                assert_eq!(answer.set_cookies().is_empty(), policy["cookie"].is_null(), "{what}");
                let cache_control = answer.header("cache-control").unwrap_or_default();
                assert!(
                    cache_control.starts_with("private") && !cache_control.contains("public"),
                    "{what}: {cache_control:?}"
                );
                assert_eq!(answer.header("cdn-cache-control"), None, "{what}");
                assert_eq!(answer.header("etag"), Some("\"1\""), "{what}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_steered_client_leaves_caches_their_answers() -> Result<()> {
    let site = Site::with_policy(&json!({"cookie": {"name": "limpet-session"}})).await?;
    let mut visitor = site.visitor();
    visitor.get("/").await?;
    for backend in &site.backends {
        backend.answer(
            Answering::status(304)
                .header("cache-control", "public")
                .header("cdn-cache-control", "max-age=600"),
        );
    }
    let answer = visitor.get("/").await?;
    assert!(answer.set_cookies().is_empty());
    assert_eq!(answer.header("cache-control"), Some("public"));
    assert_eq!(answer.header("cdn-cache-control"), Some("max-age=600"));
    Ok(())
}
