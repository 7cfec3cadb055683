//! A session that ends with the application's logout.

use limpet_e2e::Visitor;

use super::*;

const OF_THE_APPLICATION: &str = "login=; Path=/; Max-Age=0";
const OF_THE_SESSION: &str = "limpet-session=; Path=/; Max-Age=0";

async fn after(at: SocketAddr, cookies: &[&str]) -> Result<Visitor> {
    let mut visitor = Visitor::of(at);
    let first = visitor.get("/").await?;
    assert!(first.set_cookie(COOKIE).is_some());
    assert_eq!(visitor.get("/").await?.backend(), first.backend());
    let request = Request::get(at, "/");
    let request = cookies
        .iter()
        .fold(request, |request, cookie| request.answered_with("set-cookie", cookie));
    assert_eq!(visitor.send(request).await?.backend(), first.backend());
    Ok(visitor)
}

/// With `preserve`, the application may set HAProxy's cookie and so delete it, if it knows its name and attributes.
/// Without, HAProxy removes what the application sets under the name.
#[tokio::test]
async fn haproxys_cookie_ends_if_the_application_deletes_it() -> Result<()> {
    let backends = Backend::three()?;
    for (preserve, names) in [("", vec![COOKIE]), ("preserve", vec![])] {
        let haproxy = haproxy(&format!("cookie limpet-session insert indirect {preserve}"), &backends).await?;
        let visitor = after(haproxy.address(), &[OF_THE_SESSION]).await?;
        assert_eq!(visitor.cookie_names(), names, "{preserve}");
        let visitor = after(haproxy.address(), &[OF_THE_APPLICATION]).await?;
        assert_eq!(
            visitor.cookie_names(),
            [COOKIE],
            "its own cookie says nothing to HAProxy"
        );
    }
    Ok(())
}

#[tokio::test]
async fn limpets_cookie_ends_with_the_applications_own() -> Result<()> {
    let backends = Backend::three()?;
    for (policy, names) in [(json!({}), vec![COOKIE]), (json!({"end": {"cookie": "login"}}), vec![])] {
        let envoy = limpet(&policy, &backends).await?;
        let visitor = after(envoy.address(), &[OF_THE_APPLICATION]).await?;
        assert_eq!(visitor.cookie_names(), names, "{policy}");
        let visitor = after(envoy.address(), &["login=abc", "other=; Max-Age=0"]).await?;
        assert_eq!(visitor.cookie_names(), [COOKIE, "login"]);
    }
    Ok(())
}

#[tokio::test]
async fn envoys_cookie_outlives_every_logout() -> Result<()> {
    let backends = Backend::three()?;
    let envoy = native(&backends).await?;
    let visitor = after(envoy.address(), &[OF_THE_APPLICATION]).await?;
    assert_eq!(visitor.cookie_names(), [COOKIE]);
    Ok(())
}
