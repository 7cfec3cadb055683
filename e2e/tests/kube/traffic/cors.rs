use anyhow::{Result, ensure};
use hyper::Method;
use limpet_e2e::kube::{Pod, Release};
use limpet_e2e::{Answer, Request};
use serde_json::json;

use super::{two_pods, with_sessions};
use crate::checks::{GatewaySite, rule};

fn allow<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.header(&format!("access-control-allow-{name}"))
}

/// A browser's question before a request of another origin.
fn preflight(request: Request, origin: &str, method: &str) -> Request {
    request
        .method(Method::OPTIONS)
        .header("origin", origin)
        .header("access-control-request-method", method)
        .header("access-control-request-headers", "x-one")
}

fn requests(pods: &[Pod; 2]) -> usize {
    pods.iter().map(|pod| pod.backend().requests()).sum()
}

const SHOP: &str = "https://shop.example";

/// Envoy answers before there is a session. The split has sessions on every route.
#[tokio::test]
async fn a_preflight_is_answered_without_a_session() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let (one, two) = (two_pods(site, "asked-1").await?, two_pods(site, "asked-2").await?);
    for (name, backends) in [
        ("asked-whole", vec![("asked-1", 1)]),
        ("asked-split", vec![("asked-1", 1), ("asked-2", 1)]),
    ] {
        let path = format!("/{name}");
        let mut rule = with_sessions(name, &backends);
        rule["filters"] = json!([{"type": "CORS", "cors": {
            "allowOrigins": [SHOP, "https://*.shop.example"],
            "allowMethods": ["GET", "PUT"],
            "allowHeaders": ["X-One", "X-Two"],
            "exposeHeaders": ["X-Backend"],
            "allowCredentials": true,
            "maxAge": 60,
        }}]);
        site.annotated_route(name, &[rule], &json!({"split": "keep"})).await?;
        site.until_sessions(&path).await?;
        let mut visitor = site.visitor();
        let of_shop = |visitor: &limpet_e2e::Visitor| visitor.bring(site.get(&path).header("origin", SHOP));
        let first = of_shop(&visitor).send().await?;
        visitor.take(&first);
        ensure!(first.set_cookies().len() == 1, "{first:?}");

        let before = requests(&one) + requests(&two);
        for origin in [SHOP, "https://a.b.shop.example"] {
            // Browsers send no cookies with it. Others may.
            for request in [site.get(&path), visitor.bring(site.get(&path))] {
                let answer = preflight(request, origin, "PUT").send().await?;
                ensure!(answer.status == 200, "{answer:?}");
                ensure!(allow(&answer, "origin") == Some(origin), "{answer:?}");
                ensure!(allow(&answer, "methods") == Some("GET, PUT"), "{answer:?}");
                ensure!(allow(&answer, "headers") == Some("x-one, x-two"), "{answer:?}");
                ensure!(allow(&answer, "credentials") == Some("true"), "{answer:?}");
                ensure!(answer.header("access-control-max-age") == Some("60"), "{answer:?}");
                ensure!(answer.set_cookies().is_empty(), "{answer:?}");
            }
        }
        for origin in [
            "https://shop.example.org",
            "http://shop.example",
            "https://shop.example:8443",
        ] {
            let answer = preflight(site.get(&path), origin, "PUT").send().await?;
            ensure!(
                answer.status == 200 && allow(&answer, "origin").is_none(),
                "{origin}: {answer:?}"
            );
            ensure!(answer.set_cookies().is_empty(), "{origin}: {answer:?}");
        }
        ensure!(requests(&one) + requests(&two) == before, "a preflight reached a pod");

        for _ in 0..6 {
            let answer = of_shop(&visitor).send().await?;
            ensure!(answer.backend() == first.backend(), "the session is lost: {answer:?}");
            ensure!(allow(&answer, "origin") == Some(SHOP), "{answer:?}");
            ensure!(
                answer.header("access-control-expose-headers") == Some("x-backend"),
                "{answer:?}"
            );
        }
        let other = site.get(&path).header("origin", "https://other.example").send().await?;
        ensure!(other.status == 200 && allow(&other, "origin").is_none(), "{other:?}");
        // OPTIONS without the rest is an ordinary request.
        let options = visitor.bring(site.get(&path).method(Method::OPTIONS)).send().await?;
        ensure!(options.backend() == first.backend(), "{options:?}");
    }
    Ok(())
}

/// With credentials, browsers take `*` for a name, so Envoy repeats what they ask for.
#[tokio::test]
async fn wildcards_allow_what_the_browser_asks_for() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_7_0).await?;
    let _pods = two_pods(site, "any-origin").await?;
    let mut any = rule("/any-origin", &[("any-origin", 1)]);
    any["filters"] = json!([{"type": "CORS", "cors": {
        "allowOrigins": ["*"],
        "allowMethods": ["*"],
        "allowHeaders": ["*"],
        "allowCredentials": true,
    }}]);
    site.route("any-origin", &[any]).await?;
    site.until("the route", "/any-origin", |answer| answer.status == 200)
        .await?;
    let answer = preflight(site.get("/any-origin"), "https://any.example:8443", "PATCH")
        .send()
        .await?;
    ensure!(
        allow(&answer, "origin") == Some("https://any.example:8443"),
        "{answer:?}"
    );
    ensure!(allow(&answer, "methods") == Some("PATCH"), "{answer:?}");
    ensure!(allow(&answer, "headers") == Some("x-one"), "{answer:?}");
    ensure!(answer.header("access-control-max-age") == Some("5"), "{answer:?}");
    let bare = site.get("/any-origin").method(Method::OPTIONS).header("origin", SHOP);
    let answer = bare.header("access-control-request-method", "PATCH").send().await?;
    ensure!(allow(&answer, "headers") == Some(""), "{answer:?}");
    Ok(())
}
