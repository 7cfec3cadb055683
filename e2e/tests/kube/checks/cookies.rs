//! The attributes of the session cookie, and other cookies.
//!
//! - 8: The path is `/` since release 1.6. The older text derives it from the route's match for inline rules (the path
//!   of each match; for a regular expression the longest literal prefix) and does not set it for policies:
//!   `sessionDefaults.path: route`.
//! - 10: The application's cookies are unchanged, also duplicates, quoted and malformed ones, and two HTTP/2 fields.
//! - 12: SHOULD: Secure (not without TLS), `HttpOnly`, SameSite=Strict by default. Annotations set other attributes.

use anyhow::{Context, Result, ensure};
use hyper::header::HeaderValue;
use limpet_e2e::kube::Release;
use limpet_e2e::{Answer, Connection, Request, SetCookie, Tls, poll};
use serde_json::{Value, json};

use super::dialect::{Dialect, SessionSpec, lb_policy};
use super::site::{GatewaySite, rule, stated};
use crate::certificates::Certificate;

async fn first_cookie(site: &GatewaySite, path: &str) -> Result<SetCookie> {
    let answer = site.get(path).send().await?;
    answer
        .set_cookies()
        .pop()
        .with_context(|| format!("{path}: {answer:?}"))
}

#[tokio::test]
async fn check_08_the_cookies_path_is_the_root() -> Result<()> {
    for dialect in Dialect::ALL {
        let site = GatewaySite::shared(dialect.release()).await?;
        let name = dialect.prefix("check-8");
        let path = format!("/{name}");
        let services = site.services(&name).await?;
        let rules = [rule(&path, &[(&services[0], 1)])];
        let spec = SessionSpec::named(&name);
        dialect.apply(site, &name, &services, &rules, &spec).await?;
        site.until_sessions(&path).await?;
        for request in [path.clone(), format!("{path}/p1/p2")] {
            let cookie = first_cookie(site, &request).await?;
            ensure!(cookie.attribute("Path") == Some("/"), "{dialect:?}: {cookie:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn check_08_or_the_matchs_path_if_the_older_rule_is_configured() -> Result<()> {
    let older = |config: &mut Value| config["sessionDefaults"] = json!({"path": "route"});
    let site = GatewaySite::start(Release::V1_6_1, "path", older).await?;
    let services = site.services("path").await?;
    let to = |matches: Value| {
        let mut rule = rule("/", &[(&services[0], 1)]);
        rule["matches"] = matches;
        rule["sessionPersistence"] = json!({"sessionName": "shop"});
        rule
    };
    let of = |kind: &str, value: &str| json!({"path": {"type": kind, "value": value}});
    let rules = [
        to(json!([of("PathPrefix", "/one/path")])),
        to(json!([of("PathPrefix", "/two"), of("PathPrefix", "/three/more")])),
        to(json!([of("RegularExpression", "/p1/p2/[^/]+/p3")])),
    ];
    site.route("inline", &rules).await?;
    let policy_rules = [rule("/of-policy", &[(&services[1], 1)])];
    let spec = SessionSpec::named("shop");
    Dialect::TrafficPolicy
        .apply(&site, "policy", &services[1..], &policy_rules, &spec)
        .await?;
    for (request, path) in [
        ("/one/path/below", "/one/path"),
        ("/two/below", "/two"),
        ("/three/more", "/three/more"),
        ("/p1/p2/any/p3", "/p1/p2"),
        ("/of-policy/below", "/"),
    ] {
        site.until_sessions(request).await?;
        let cookie = first_cookie(&site, request).await?;
        ensure!(cookie.attribute("Path") == Some(path), "{request}: {cookie:?}");
    }
    Ok(())
}

/// Applies a route with sessions in a cookie of its name, and these annotations. Returns its path.
async fn route_with_sessions(site: &GatewaySite, name: &str, annotations: &Value) -> Result<String> {
    let services = site.services(name).await?;
    let services = services.each_ref().map(String::as_str);
    let path = format!("/{name}");
    let policy = lb_policy(name, &services, &json!({"sessionName": name}));
    site.namespace.apply_object(&policy).await?;
    let rules = [rule(&path, &[(services[0], 1), (services[1], 1)])];
    site.annotated_route(name, &rules, annotations).await?;
    Ok(path)
}

#[tokio::test]
async fn check_10_multiple_cookies_are_handled() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let path = route_with_sessions(site, "check-10", &json!({})).await?;
    site.until_sessions(&path).await?;
    let first = site.get(&path).send().await?;
    let ours = first.set_cookie("check-10").context("no cookie")?.pair();
    let fields = [
        "a=1; a=\"2, 3\"; check-10=stale; =b",
        &format!("c; {ours}; a=\"4; d=e=f; a=1"),
    ];
    for request in [site.get(&path), site.get(&path).http2()] {
        let request = fields.iter().fold(request, Request::cookie);
        let answer = request.send().await?;
        assert_eq!(answer.backend(), first.backend());
        assert!(answer.set_cookies().is_empty(), "{answer:?}");
        let seen = answer.seen()?.cookies();
        assert_eq!(seen.as_deref(), Some("a=1; a=\"2, 3\"; =b; c; a=\"4; d=e=f; a=1"));
    }
    Ok(())
}

/// On a rule without sessions, and on one with its own cookie.
#[tokio::test]
async fn check_11_a_backends_set_cookie_is_forwarded_unchanged() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let with = route_with_sessions(site, "check-11", &json!({})).await?;
    site.until_sessions(&with).await?;
    let services = site.services("check-11-none").await?;
    let without = "/check-11-none";
    let rules = [rule(without, &[(&services[0], 1)])];
    site.route("check-11-none", &rules).await?;
    site.until("answers", without, |answer| answer.backend().is_some())
        .await?;
    let fields = [
        "JSESSIONID=\"a,b\"; path=/shop;HTTPONLY ; Max-Age=060",
        "JSESSIONID=2;expires=Thu, 01-Jan-70 00:00:00 GMT",
        "no-value;; Priority=High",
    ];
    for (path, own) in [(with.as_str(), 1), (without, 0)] {
        let answered = |request: Request, field: &&str| request.answered_with("set-cookie", field);
        let answer = fields.iter().fold(site.get(path), answered).send().await?;
        let all = answer.headers.get_all("set-cookie").iter();
        let (ours, others): (Vec<_>, Vec<_>) = all
            .map(HeaderValue::as_bytes)
            .partition(|field| field.starts_with(b"check-11="));
        assert_eq!(others, fields.map(str::as_bytes), "{path}");
        assert_eq!(ours.len(), own, "{path}");
    }
    Ok(())
}

#[tokio::test]
async fn check_12_cookies_have_the_safest_attributes() -> Result<()> {
    let site = GatewaySite::shared(Release::V1_2_1).await?;
    let asked = json!({
        "secure": "always", "same-site": "None", "partitioned": "true", "script-access": "true",
        "domain": "shop.example",
    });
    let all = [
        "Domain=shop.example",
        "Partitioned",
        "Path=/",
        "SameSite=None",
        "Secure",
    ];
    for (name, annotations, expected) in [
        ("check-12", json!({}), &["HttpOnly", "Path=/", "SameSite=Strict"][..]),
        ("check-12-asked", asked, &all),
    ] {
        let path = route_with_sessions(site, name, &annotations).await?;
        site.until_sessions(&path).await?;
        let cookie = first_cookie(site, &path).await?;
        let attributes: Vec<&str> = cookie.attributes.iter().map(String::as_str).collect();
        ensure!(attributes == expected, "{name}: {attributes:?}");
    }
    // A bad annotation is reported and has no effect.
    let path = route_with_sessions(site, "check-12-bad", &json!({"same-site": "lax"})).await?;
    let text = "expected Strict, Lax or None, found \"lax\"";
    let said = |object: &Value| stated(object, "PartiallyInvalid").1.contains(text);
    site.namespace
        .until("the refusal", "HTTPRoute", "check-12-bad", said)
        .await?;
    let none = |answer: &Answer| answer.backend().is_some() && answer.set_cookies().is_empty();
    site.until("no sessions", &path, none).await
}

#[tokio::test]
async fn check_12_cookies_are_secure_over_tls() -> Result<()> {
    let site = GatewaySite::start(Release::V1_2_1, "tls", |_| ()).await?;
    let namespace = &site.namespace;
    let made = rcgen::generate_simple_self_signed(["shop.example".to_owned()])?;
    let own = Certificate {
        certificate: made.cert.pem(),
        key: made.signing_key.serialize_pem(),
    };
    namespace.apply_object(&own.secret("shop")).await?;
    namespace.bind("limpet-certificates").await?;
    let path = route_with_sessions(&site, "tls", &json!({})).await?;
    let listeners = json!({"spec": {"listeners": [{
        "name": "https",
        "port": 8443,
        "protocol": "HTTPS",
        "tls": {"mode": "Terminate", "certificateRefs": [{"name": "shop"}]},
    }]}});
    namespace.merge("Gateway", "web", &listeners).await?;

    let address = site.controller.address(8443);
    let tls = Tls::new(&own.certificate, "shop.example")?;
    let cookie = poll::until("a session over TLS", async || {
        let mut connection = Connection::open_tls(address, &tls, false).await.ok()?;
        let request = Request::get(address, &path).header("host", "shop.example");
        connection.send(request).await.ok()?.set_cookies().pop()
    })
    .await?;
    let attributes: Vec<&str> = cookie.attributes.iter().map(String::as_str).collect();
    assert_eq!(attributes, ["HttpOnly", "Path=/", "SameSite=Strict", "Secure"]);
    Ok(())
}
