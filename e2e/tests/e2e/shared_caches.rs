//! Answers with a token, as a shared cache in front of Envoy sees them.

use anyhow::Result;
use limpet_e2e::{Answering, Site};
use serde_json::json;

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
