//! The cookie's attributes in browsers, and the cookie as backends see it.

use limpet_e2e::SetCookie;

use super::tls::{certificate, secure_root};
use super::*;

fn of(answer: &Answer) -> Result<SetCookie> {
    let mut cookies = answer.set_cookies();
    ensure!(cookies.len() == 1, "{answer:?}");
    cookies.pop().context("no cookie")
}

fn check(cookie: &SetCookie, secure: bool) {
    let mut expected = vec!["Path=/", "HttpOnly", "SameSite=Lax"];
    if secure {
        expected.push("Secure");
    }
    let attributes: BTreeSet<&str> = cookie.attributes.iter().map(String::as_str).collect();
    assert_eq!(
        attributes,
        expected.into_iter().collect(),
        "no Max-Age, Expires or Domain"
    );
    assert_eq!(cookie.name, COOKIE);
}

#[tokio::test]
async fn without_tls_the_cookie_is_contours_with_same_site() -> Result<()> {
    let routes = json!([{"match": "/deep/er", "services": [sticky("web")]}]);
    let site = Site::start(Services::start(&[("web", 2)])?, &[root(&routes)]).await?;
    let mut visitor = site.visitor()?;
    let first = site.visit(&mut visitor, "/deep/er/page").await?;
    check(&of(&first)?, false);
    let seen = site.visit(&mut visitor, "/deep/er").await?.seen()?;
    let token = visitor.cookie(COOKIE).context("no cookie")?;
    assert_eq!(seen.cookies(), Some(format!("{COOKIE}={token}")));
    Ok(())
}

/// Plain HTTP neither gets a cookie with `Secure` nor can replace it.
#[tokio::test]
async fn secure_is_for_hosts_whose_sessions_have_tls_alone() -> Result<()> {
    const OTHER: &str = "other.example.com";
    let (secret, authority) = certificate("cert", &[HOST, OTHER])?;
    let routes = |permit: &[bool]| {
        let services = json!([sticky("web")]);
        let route = |(number, permit): (usize, &bool)| json!({"match": format!("/{number}"), "permitInsecure": permit, "services": services});
        let mut routes: Vec<Value> = permit.iter().enumerate().map(route).collect();
        // A route without sessions does not count.
        routes.push(json!({"match": "/open", "permitInsecure": true, "services": [plain("web")]}));
        json!(routes)
    };
    let mut other = secure_root(&json!({}), &routes(&[false]));
    other["metadata"]["name"] = "other".into();
    other["spec"]["virtualhost"]["fqdn"] = OTHER.into();
    for (permit, secure) in [
        (vec![false, false], true),
        (vec![false, true], false),
        (vec![true], false),
    ] {
        let objects = [secret.clone(), secure_root(&json!({}), &routes(&permit)), other.clone()];
        let site = Site::start(Services::start(&[("web", 2)])?, &objects).await?;
        for (number, permit) in permit.iter().enumerate() {
            let path = format!("/{number}");
            let answer = site.over_tls(&authority, HOST, site.get_of(HOST, &path)?).await;
            check(&of(&answer?)?, secure);
            let answer = site.ask(&path).await?;
            if *permit {
                check(&of(&answer)?, false);
            } else {
                assert_eq!((answer.status, answer.set_cookies().len()), (301, 0), "{path}");
            }
        }
        let answer = site.over_tls(&authority, OTHER, site.get_of(OTHER, "/0")?).await?;
        check(&of(&answer)?, true);
    }
    Ok(())
}

#[tokio::test]
async fn a_session_goes_on_from_http_to_https() -> Result<()> {
    let (secret, authority) = certificate("cert", &[HOST])?;
    let routes = json!([{"match": "/", "permitInsecure": true, "services": [sticky("web")]}]);
    let objects = [secret, secure_root(&json!({}), &routes)];
    let site = Site::start(Services::start(&[("web", 4)])?, &objects).await?;
    for _ in 0..5 {
        let (mut visitor, backend) = site.begin("/").await?;
        let over = site
            .over_tls(&authority, HOST, visitor.bring(site.get_of(HOST, "/")?))
            .await?;
        assert_eq!((over.backend(), over.set_cookies().len()), (Some(backend.as_str()), 0));
        stays(&site, &mut visitor, "/", &backend).await?;
    }
    Ok(())
}

/// A delegated Cookie route permitted over plain HTTP counts for its host.
#[tokio::test]
async fn a_delegated_route_makes_its_host_insecure() -> Result<()> {
    let (secret, authority) = certificate("cert", &[HOST])?;
    let own = json!([
        {"match": "/", "services": [sticky("web")]},
        {"match": "/team", "delegate": {"name": "team"}},
    ]);
    let team = |permit: bool| {
        let route = json!({"match": "/team", "permitInsecure": permit, "services": [sticky("web")]});
        vertex("team", &json!([route]))
    };
    for permit in [false, true] {
        let objects = [secret.clone(), secure_root(&json!({}), &own), team(permit)];
        let site = Site::start(Services::start(&[("web", 2)])?, &objects).await?;
        for path in ["/", "/team"] {
            let answer = site.over_tls(&authority, HOST, site.get_of(HOST, path)?).await?;
            check(&of(&answer)?, !permit);
        }
    }
    Ok(())
}
