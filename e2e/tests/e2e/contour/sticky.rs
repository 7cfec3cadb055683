//! The draft's strategy `StickySession`.

use super::addresses::{Watched, client, of_client, of_clients};
use super::*;

fn sticky_by(config: &Value) -> Value {
    let service = json!({"name": "web", "port": 80, "strategy": "StickySession", "stickySessionConfig": config});
    root(&json!([{"match": "/", "services": [service]}]))
}

fn services() -> Result<Services> {
    Services::start(&[("web", 5)])
}

#[tokio::test]
async fn a_cookie_of_any_name_and_path() -> Result<()> {
    for (config, path) in [
        (json!({"cookie": {"name": "sid", "path": "/app"}}), "/app"),
        (json!({"cookie": {"name": "sid"}}), "/"),
    ] {
        let site = Site::start(services()?, &[sticky_by(&config)]).await?;
        let mut met = Vec::new();
        for _ in 0..12 {
            let mut visitor = site.visitor()?;
            let first = site.visit(&mut visitor, "/app").await?;
            let cookie = first
                .set_cookie("sid")
                .with_context(|| format!("{config}: {first:?}"))?;
            assert_eq!(cookie.attribute("Path"), Some(path));
            let backend = backend(&first)?;
            stays(&site, &mut visitor, "/app", &backend).await?;
            met.push(backend);
        }
        assert!(different(&met) > 1, "{met:?}");
        // The value is a token.
        let own = site.get("/app")?.cookie("sid=anything").send().await?;
        assert_eq!(own.set_cookies().len(), 1);
    }
    Ok(())
}

#[tokio::test]
async fn the_address_counts_where_nothing_else_is_said() -> Result<()> {
    let nothing = root(&json!([{"match": "/", "services": [
        {"name": "web", "port": 80, "strategy": "StickySession"},
    ]}]));
    for object in [
        sticky_by(&json!({"connection": {"property": "IP"}})),
        sticky_by(&json!({})),
        nothing,
    ] {
        let site = Site::start(services()?, std::slice::from_ref(&object)).await?;
        let first = of_clients(&site, "/").await?;
        assert_eq!(different(&first), 5, "{object}: {first:?}");
        assert_eq!(of_clients(&site, "/").await?, first, "{object}");
    }
    Ok(())
}

async fn of_users(site: &Site, count: u16) -> Result<Vec<String>> {
    let mut backends = Vec::new();
    for user in 0..count {
        let request = site.get("/")?.header("x-user", format!("user-{user}"));
        let answer = request.send().await?;
        ensure!(answer.set_cookies().is_empty(), "a hash needs no token: {answer:?}");
        backends.push(backend(&answer)?);
    }
    Ok(backends)
}

/// The client's own value is hashed, and nothing is sent.
#[tokio::test]
async fn a_header_is_hashed() -> Result<()> {
    let object = sticky_by(&json!({"header": {"name": "X-User"}}));
    let site = Site::start(services()?, std::slice::from_ref(&object)).await?;
    let first = of_users(&site, 200).await?;
    assert_eq!(different(&first), 5);
    assert_eq!(of_users(&site, 200).await?, first);
    for number in 1..=10 {
        let request = site.get("/")?.header("x-user", "user-0").from(client(number));
        assert_eq!(backend(&request.send().await?)?, first[0]);
    }
    let mut without = Vec::new();
    for _ in 0..40 {
        without.push(of_client(&site, "/", 1).await?);
    }
    assert!(
        different(&without) > 1,
        "without the header, all are one client: {without:?}"
    );
    let site = site.change(&[object]).await?;
    assert_eq!(of_users(&site, 200).await?, first, "another Envoy chooses otherwise");
    Ok(())
}

/// Of five backends, a ring of hashes moves one in seven of the other clients.
#[tokio::test]
async fn when_a_backend_goes_most_others_stay() -> Result<()> {
    const USERS: u16 = 1_000;
    let object = sticky_by(&json!({"header": {"name": "x-user"}}));
    let mut site = Watched::start(services()?, object, "web").await?;
    let first = of_users(&site.site, USERS).await?;
    let lost = first[0].clone();
    site.without(&lost).await?;
    let next = of_users(&site.site, USERS).await?;
    let others: Vec<_> = first.iter().zip(&next).filter(|(first, _)| **first != lost).collect();
    let moved = others.iter().filter(|(first, next)| first != next).count();
    assert!(others.len() > 600, "{}", others.len());
    assert!(moved * 5 < others.len(), "{moved} of {} others moved", others.len());
    Ok(())
}
