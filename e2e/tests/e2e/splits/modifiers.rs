use anyhow::Result;
use limpet_e2e::{Answer, Carrier, poll};
use serde_json::json;

use super::rule::Rule;
use super::site::{Session, SplitSite, policies, service, split};

fn rule(v1: u32, v2: u32) -> [Rule; 1] {
    let modifiers = |service: &str| {
        json!({
            "request_headers_to_add": [{"header": {"key": "x-service", "value": service}}],
            "request_headers_to_remove": [format!("x-not-for-{service}")],
            "response_headers_to_add": [{"header": {"key": "x-answered-by", "value": service}}],
            "response_headers_to_remove": ["x-backend-secret"],
        })
    };
    [Rule::new("/", "cookie/shop")
        .modified("shop-v1", v1, &modifiers("shop-v1"))
        .modified("shop-v2", v2, &modifiers("shop-v2"))]
}

/// Only the changes of the answer's own service apply, once.
fn assert_modified(answer: &Answer) -> Result<()> {
    let service = service(answer).unwrap_or_default();
    assert_eq!(answer.seen()?.all("x-service"), [service]);
    let answered: Vec<_> = answer.headers.get_all("x-answered-by").iter().collect();
    assert_eq!(answered, [service]);
    Ok(())
}

#[tokio::test]
async fn a_services_modifiers_apply_to_all_its_sessions_requests() -> Result<()> {
    let mut site = SplitSite::start(split(&rule(50, 50), &policies(false))?).await?;
    let mut sessions = Vec::new();
    poll::patiently("a session on each service", async {
        while !["shop-v1", "shop-v2"].iter().all(|service| {
            let on_it = |session: &Session| session.backend.starts_with(service);
            sessions.iter().any(on_it)
        }) {
            assert_modified(&site.envoy.get("/").send().await?)?;
            sessions.push(Session::begin(&site.envoy, Carrier::Cookie).await?);
        }
        Ok(())
    })
    .await?;
    for (v1, v2, only) in [(50, 50, ""), (0, 1, "shop-v2"), (1, 0, "shop-v1")] {
        if !only.is_empty() {
            let newcomers = |answer: &_| service(answer) == Some(only);
            site.change(&rule(v1, v2), &format!("new clients go to {only}"), newcomers)
                .await?;
        }
        for session in &mut sessions {
            for _ in 0..5 {
                let request = site
                    .envoy
                    .get("/")
                    .header("x-not-for-shop-v1", "1")
                    .header("x-not-for-shop-v2", "2");
                let answer = session.carrier.bring(&session.token, request).send().await?;
                assert_eq!(answer.backend(), Some(session.backend.as_str()));
                assert_modified(&answer)?;
                let seen = answer.seen()?;
                for name in ["shop-v1", "shop-v2"] {
                    let expected = usize::from(service(&answer) != Some(name));
                    assert_eq!(seen.all(&format!("x-not-for-{name}")).len(), expected);
                }
            }
        }
    }
    Ok(())
}
