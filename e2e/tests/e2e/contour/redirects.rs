//! Plain HTTP of a host with TLS.

use hyper::Method;

use super::tls::{certificate, secure_root};
use super::*;

async fn location(request: Request) -> Result<(u16, Option<String>)> {
    let answer = request.send().await?;
    Ok((answer.status, answer.header("location").map(str::to_owned)))
}

#[tokio::test]
async fn plain_http_of_a_host_with_tls_is_redirected() -> Result<()> {
    let (secret, root) = certificate("cert", &[HOST])?;
    let routes = json!([{"match": "/", "services": [plain("web")]}]);
    let site = Site::start(
        Services::start(&[("web", 1)])?,
        &[secret, secure_root(&json!({}), &routes)],
    )
    .await?;
    for (host, path, expected) in [
        (HOST.to_owned(), "/", "/"),
        (HOST.to_owned(), "/a/b?c=d&e=%2F", "/a/b?c=d&e=%2F"),
        // HTTP's port is not HTTPS's.
        (format!("{HOST}:8080"), "/a?b", "/a?b"),
        (format!("{HOST}:80"), "/a", "/a"),
    ] {
        for method in [Method::GET, Method::POST, Method::HEAD] {
            let request = site.get_of(&host, path)?.method(method.clone());
            let expected = (301, Some(format!("https://{HOST}{expected}")));
            assert_eq!(location(request).await?, expected, "{method} {host}{path}");
        }
    }
    assert_eq!(site.services.backend("web/0")?.requests(), 0);
    let answer = site.over_tls(&root, HOST, site.get_of(HOST, "/a")?).await?;
    assert_eq!((answer.status, answer.backend()), (200, Some("web/0")));
    Ok(())
}

#[tokio::test]
async fn without_tls_nothing_is_redirected() -> Result<()> {
    let routes = json!([
        {"match": "/", "services": [plain("web")]},
        {"match": "/both", "permitInsecure": true, "services": [plain("web")]},
    ]);
    let site = Site::start(Services::start(&[("web", 1)])?, &[root(&routes)]).await?;
    for path in ["/", "/both"] {
        assert_eq!(site.ask(path).await?.status, 200, "{path}");
    }
    assert!(site.envoy.listener(HTTPS).is_err());
    Ok(())
}

fn delegated(host: &Value) -> Vec<Value> {
    let own = json!([
        {"match": "/", "services": [plain("web")]},
        {"match": "/open", "permitInsecure": true, "services": [plain("web")]},
        // Without an effect: it counts where the services are.
        {"match": "/team", "permitInsecure": true, "delegate": {"name": "team"}},
    ]);
    let team = json!([
        {"match": "/team", "services": [plain("web")]},
        {"match": "/team/open", "permitInsecure": true, "services": [plain("web")]},
        {"match": "/team/deep", "delegate": {"name": "deep"}},
    ]);
    let deep = json!([
        {"match": "/team/deep", "services": [plain("web")]},
        {"match": "/team/deep/open", "permitInsecure": true, "services": [plain("web")]},
    ]);
    vec![secure_root(host, &own), vertex("team", &team), vertex("deep", &deep)]
}

#[tokio::test]
async fn permit_insecure_serves_both_and_on_delegated_routes() -> Result<()> {
    let (secret, root) = certificate("cert", &[HOST])?;
    let objects = [vec![secret], delegated(&json!({}))].concat();
    let site = Site::start(Services::start(&[("web", 1)])?, &objects).await?;
    for (path, open) in [
        ("/", false),
        ("/open", true),
        ("/team", false),
        ("/team/a", false),
        ("/team/open/a", true),
        ("/team/deep", false),
        ("/team/deep/open", true),
    ] {
        let expected = if open {
            (200, None)
        } else {
            (301, Some(format!("https://{HOST}{path}")))
        };
        assert_eq!(location(site.get(path)?).await?, expected, "{path}");
        let answer = site.over_tls(&root, HOST, site.get_of(HOST, path)?).await?;
        assert_eq!(answer.status, 200, "{path} over TLS");
    }
    Ok(())
}

#[tokio::test]
async fn the_configuration_can_forbid_permit_insecure() -> Result<()> {
    let (secret, _) = certificate("cert", &[HOST])?;
    let objects = [vec![secret], delegated(&json!({}))].concat();
    let services = Services::start(&[("web", 1)])?;
    let site = Site::configured(services, &objects, &json!({"permitInsecure": false})).await?;
    for path in ["/open", "/team/open", "/team/deep/open"] {
        assert_eq!(location(site.get(path)?).await?.0, 301, "{path}");
    }
    Ok(())
}
