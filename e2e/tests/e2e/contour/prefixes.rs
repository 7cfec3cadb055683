//! Which route takes a path, and what the backend sees of it.

use super::*;

async fn answers(site: &Site, path: &str) -> Result<String> {
    let answer = site.ask(path).await?;
    Ok(answer
        .backend()
        .map_or_else(|| answer.status.to_string(), str::to_owned))
}

/// The owner's match is a prefix of the text, as Contour's.
#[tokio::test]
async fn the_owners_prefix_is_text_and_longer_ones_come_first() -> Result<()> {
    let routes = json!([
        {"match": "/", "services": [plain("root")]},
        {"match": "/blog", "services": [plain("blog")]},
        {"match": "/blog/new", "services": [plain("new")]},
    ]);
    let services = Services::start(&[("root", 1), ("blog", 1), ("new", 1)])?;
    let site = Site::start(services, &[root(&routes)]).await?;
    for (path, expected) in [
        ("/", "root/0"),
        ("/blo", "root/0"),
        ("/blog", "blog/0"),
        ("/blog?a", "blog/0"),
        ("/blog/", "blog/0"),
        ("/blogger", "blog/0"),
        ("/blogger/a", "blog/0"),
        ("/blog/new", "new/0"),
        ("/blog/newer", "new/0"),
        ("/blog/ne", "blog/0"),
        ("/Blog", "root/0"),
    ] {
        assert_eq!(answers(&site, path).await?, expected, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn a_path_that_no_route_has_is_not_found() -> Result<()> {
    let routes = json!([{"match": "/blog", "services": [plain("blog")]}]);
    let site = Site::start(Services::start(&[("blog", 1)])?, &[root(&routes)]).await?;
    assert_eq!(answers(&site, "/shop").await?, "404");
    let elsewhere = site.get_of("elsewhere.example.com", "/blog")?.send().await?;
    assert_eq!((elsewhere.status, elsewhere.backend()), (404, None));
    // Hosts are compared without case and port.
    for host in ["SHOP.example.com", "shop.example.com:8080"] {
        assert_eq!(
            site.get_of(host, "/blog")?.send().await?.backend(),
            Some("blog/0"),
            "{host}"
        );
    }
    Ok(())
}

/// A delegation covers the segment and what is below it.
#[tokio::test]
async fn who_is_given_blog_does_not_get_blogger() -> Result<()> {
    let own = json!([
        {"match": "/", "services": [plain("root")]},
        {"match": "/blog", "delegate": {"name": "blog"}},
        {"match": "/docs/", "delegate": {"name": "docs"}},
    ]);
    let blog = json!([
        {"match": "/blog", "services": [plain("blog")]},
        {"match": "/blog/a", "services": [plain("a")]},
    ]);
    let docs = json!([{"match": "/docs/", "services": [plain("docs")]}]);
    let services = Services::start(&[("root", 1), ("blog", 1), ("a", 1), ("docs", 1)])?;
    let site = Site::start(services, &[root(&own), vertex("blog", &blog), vertex("docs", &docs)]).await?;
    for (path, expected) in [
        ("/blog", "blog/0"),
        ("/blog?x=/y", "blog/0"),
        ("/blog/", "blog/0"),
        ("/blog/b", "blog/0"),
        ("/blogger", "root/0"),
        ("/blog-a", "root/0"),
        ("/blog.html", "root/0"),
        // Below the delegated segment, matches are text again.
        ("/blog/a", "a/0"),
        ("/blog/ab", "a/0"),
        ("/docs/", "docs/0"),
        ("/docs/a", "docs/0"),
        ("/docs", "root/0"),
        ("/docsa", "root/0"),
    ] {
        assert_eq!(answers(&site, path).await?, expected, "{path}");
    }
    Ok(())
}

/// Slashes are neither added nor left out.
#[tokio::test]
async fn a_prefix_is_rewritten_as_text() -> Result<()> {
    let routes = json!([
        {"match": "/rw", "prefixRewrite": "/", "services": [plain("web")]},
        {"match": "/to", "prefixRewrite": "/there", "services": [plain("web")]},
        {"match": "/slash/", "prefixRewrite": "/", "services": [plain("web")]},
        {"match": "/", "prefixRewrite": "/base/", "services": [plain("web")]},
        {"match": "/team", "delegate": {"name": "team"}},
    ]);
    let team = json!([{"match": "/team", "prefixRewrite": "/t", "services": [plain("web")]}]);
    let site = Site::start(Services::start(&[("web", 1)])?, &[root(&routes), vertex("team", &team)]).await?;
    for (path, expected) in [
        ("/rw", "/"),
        ("/rw/a", "//a"),
        ("/rwx", "/x"),
        ("/to", "/there"),
        ("/to/a", "/there/a"),
        ("/toa", "/therea"),
        ("/slash/a", "/a"),
        ("/a/b", "/base/a/b"),
        ("/team", "/t"),
        ("/team/a", "/t/a"),
        ("/teams", "/base/teams"),
    ] {
        let seen = site.ask(&format!("{path}?q=1")).await?.seen()?;
        assert_eq!(
            (seen.path.as_str(), seen.query.as_deref()),
            (expected, Some("q=1")),
            "{path}"
        );
        assert_eq!(seen.all("x-envoy-original-path"), [format!("{path}?q=1")], "{path}");
    }
    Ok(())
}

/// One host, three namespaces of teams, and a vertex of two parents.
#[tokio::test]
async fn delegated_routes_are_served_at_every_host() -> Result<()> {
    const OTHER: &str = "other.example.com";
    let delegating = |name: &str, fqdn: &str| {
        let routes = json!([{"match": "/blog", "delegate": {"name": "blog", "namespace": NAMESPACE}}]);
        ingress_route(name, &json!({"virtualhost": {"fqdn": fqdn}, "routes": routes}))
    };
    let blog = json!([{"match": "/blog", "services": [sticky("blog")]}]);
    let objects = [delegating("one", HOST), delegating("two", OTHER), vertex("blog", &blog)];
    let site = Site::start(Services::start(&[("blog", 3)])?, &objects).await?;
    let token = |answer: &Answer| Some(answer.set_cookies().first()?.pair());
    for (host, other) in [(HOST, OTHER), (OTHER, HOST)] {
        let first = site.get_of(host, "/blog")?.send().await?;
        let pair = token(&first).with_context(|| format!("{host}: no token: {first:?}"))?;
        for _ in 0..5 {
            let next = site.get_of(host, "/blog")?.cookie(&pair).send().await?;
            assert_eq!(
                (next.backend(), next.set_cookies().len()),
                (first.backend(), 0),
                "{host}"
            );
        }
        // A host's sessions are its own.
        let elsewhere = site.get_of(other, "/blog")?.cookie(&pair).send().await?;
        assert!(token(&elsewhere).is_some(), "{host}: its token holds at {other}");
    }
    Ok(())
}
