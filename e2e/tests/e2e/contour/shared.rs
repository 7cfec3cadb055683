use super::*;

const CART: &str = "/cart";
const CHECKOUT: &str = "/checkout";

/// As Contour's design has it: two routes of one Service, and another Service that fills the gaps.
fn shop() -> Value {
    json!([
        {"match": "/", "services": [plain("static")]},
        {"match": CART, "services": [sticky("shop")]},
        {"match": CHECKOUT, "services": [sticky("shop")]},
    ])
}

fn services() -> Result<Services> {
    Services::start(&[("static", 1), ("shop", 4), ("other", 4)])
}

#[tokio::test]
async fn routes_of_one_service_share_a_session() -> Result<()> {
    let site = Site::start(services()?, &[root(&shop())]).await?;
    let mut met = Vec::new();
    for (first, second) in [(CART, CHECKOUT), (CHECKOUT, CART)].repeat(6) {
        let (mut visitor, backend) = site.begin(first).await?;
        assert_eq!(visitor.cookie_names(), [COOKIE]);
        for path in [second, first, second] {
            stays(&site, &mut visitor, path, &backend).await?;
        }
        let page = site.visit(&mut visitor, "/about").await?;
        assert_eq!((page.backend(), page.set_cookies().len()), (Some("static/0"), 0));
        met.push(backend);
    }
    assert!(different(&met) > 1, "all clients are on one backend: {met:?}");
    Ok(())
}

/// Delegation, another prefix and settings of one route change nothing.
#[tokio::test]
async fn delegated_routes_share_it_too() -> Result<()> {
    let site = Site::start(services()?, &[root(&shop())]).await?;
    let mut visitors = Vec::new();
    for _ in 0..8 {
        visitors.push(site.begin(CART).await?);
    }
    let own = json!([
        {"match": "/", "services": [plain("static")]},
        {"match": CART, "services": [sticky("shop")]},
        {"match": CHECKOUT, "delegate": {"name": "checkout"}},
    ]);
    let checked = json!({"name": "shop", "port": 80, "strategy": "Cookie", "healthCheck": {"path": "/healthz"}});
    let checkout = json!([
        {"match": CHECKOUT, "services": [checked]},
        {"match": "/checkout/pay", "prefixRewrite": "/pay", "retryPolicy": {"count": 2}, "services": [sticky("shop")]},
    ]);
    let site = site.change(&[root(&own), vertex("checkout", &checkout)]).await?;
    for (visitor, backend) in &visitors {
        let mut visitor = moved(&site, visitor)?;
        for path in [CHECKOUT, CART, "/checkout/pay"] {
            stays(&site, &mut visitor, path, backend).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn two_services_of_a_host_keep_a_session_each() -> Result<()> {
    let routes = json!([
        {"match": "/shop", "services": [sticky("shop")]},
        {"match": "/other", "services": [sticky("other")]},
    ]);
    let site = Site::start(services()?, &[root(&routes)]).await?;
    let mut pairs = Vec::new();
    for _ in 0..10 {
        let mut visitor = site.visitor()?;
        let shop = backend(&site.visit(&mut visitor, "/shop").await?)?;
        let other = backend(&site.visit(&mut visitor, "/other").await?)?;
        let names = visitor.cookie_names();
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names.iter().all(|name| name.starts_with(COOKIE)), "{names:?}");
        for _ in 0..5 {
            let (one, two) = tokio::join!(
                visitor.bring(site.get("/shop")?).send(),
                visitor.bring(site.get("/other")?).send(),
            );
            for (answer, expected) in [(one?, &shop), (two?, &other)] {
                assert_eq!(answer.backend(), Some(expected.as_str()));
                assert_eq!(answer.set_cookies().len(), 0);
            }
        }
        pairs.push((shop, other));
    }
    let numbers = |pair: &(String, String)| {
        let number = |name: &str| name.split('/').nth(1).map(str::to_owned);
        number(&pair.0) == number(&pair.1)
    };
    assert!(
        !pairs.iter().all(numbers),
        "each pair has the same number, so it may be one session: {pairs:?}"
    );
    Ok(())
}

/// A Service's name does not distinguish objects of several namespaces, nor hosts.
#[tokio::test]
async fn another_service_does_not_take_a_token() -> Result<()> {
    let site = Site::start(
        services()?,
        &[root(&json!([{"match": "/", "services": [sticky("shop")]}]))],
    )
    .await?;
    let (visitor, _) = site.begin("/").await?;
    let site = site
        .change(&[root(&json!([{"match": "/", "services": [sticky("other")]}]))])
        .await?;
    let mut visitor = moved(&site, &visitor)?;
    let answer = site.visit(&mut visitor, "/").await?;
    assert_eq!((answer.status, answer.set_cookies().len()), (200, 1), "{answer:?}");
    assert_eq!(refused(&site.envoy).await?, [("bad_signature".to_owned(), 1)].into());
    Ok(())
}

/// The draft's own cookie names, at several hosts.
#[tokio::test]
async fn an_objects_annotations_count_for_its_routes() -> Result<()> {
    let own = json!([
        {"match": "/", "services": [sticky("other")]},
        {"match": "/shop", "delegate": {"name": "shop"}},
    ]);
    let mut shop = vertex("shop", &json!([{"match": "/shop", "services": [sticky("shop")]}]));
    shop["metadata"]["annotations"] = json!({
        "session.limpet.dev/same-site": "Strict",
        "session.limpet.dev/forward": "false",
        "session.limpet.dev/script-access": "true",
    });
    let site = Site::start(services()?, &[root(&own), shop]).await?;
    for (path, same_site, http_only, forwarded) in [("/", "Lax", true, true), ("/shop", "Strict", false, false)] {
        let mut visitor = site.visitor()?;
        let first = site.visit(&mut visitor, path).await?;
        let cookies = first.set_cookies();
        let cookie = cookies.first().with_context(|| format!("{path}: {first:?}"))?;
        assert_eq!(cookie.attribute("SameSite"), Some(same_site), "{path}");
        assert_eq!(cookie.attribute("HttpOnly").is_some(), http_only, "{path}");
        let seen = site.visit(&mut visitor, path).await?.seen()?;
        assert_eq!(seen.cookies().is_some(), forwarded, "{path}: {seen:?}");
    }
    Ok(())
}
