//! A cookie of one route, sent to another route with the same backends and another session.

use super::*;

/// Sends a cookie of `/one` to `/two` under this name.
async fn honoured_elsewhere(session: &Session, name: &str) -> Result<bool> {
    let pair = format!("{name}={}", session.cookie.value);
    let mut backends = BTreeSet::new();
    for _ in 0..6 {
        let answer = Request::get(session.at, "/two").cookie(&pair).send().await?;
        backends.insert(answer.backend().unwrap_or("none").to_owned());
    }
    Ok(backends == one(&session.backend))
}

#[tokio::test]
async fn envoy_honours_it() -> Result<()> {
    let route = |name: &str| {
        json!({
            "match": {"prefix": format!("/{name}")},
            "route": {"cluster": "backends"},
            "typed_per_filter_config": {"envoy.filters.http.stateful_session": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.\
                    StatefulSessionPerRoute",
                "stateful_session": {"session_state": native_cookie(name)},
            }},
        })
    };
    let backends = Backend::three()?;
    let config = native_config(&json!({}), &json!({}))?.routes(json!([route("one"), route("two")]));
    let envoy = Envoy::serve(config.backends(&backends)).await?;
    let session = Session::begin_on(envoy.address(), "/one").await?;
    assert_eq!(session.cookie.name, "one");
    assert!(honoured_elsewhere(&session, "two").await?);
    Ok(())
}

#[tokio::test]
async fn haproxy_honours_it() -> Result<()> {
    let backends = Backend::three()?;
    let section = |name: &str| {
        let servers = servers(&backends, |name| format!("cookie {name}"));
        format!("backend {name}\ncookie {name} insert indirect\n{servers}")
    };
    let config = format!(
        "use_backend two if {{ path_beg /two }}\ndefault_backend one\n{}{}",
        section("one"),
        section("two")
    );
    let haproxy = Haproxy::start(&config).await?;
    let session = Session::begin_on(haproxy.address(), "/one").await?;
    assert_eq!(session.cookie.name, "one");
    assert!(honoured_elsewhere(&session, "two").await?);
    Ok(())
}

/// Not unchanged, if both routes share a policy, and not under another name.
#[tokio::test]
async fn limpet_does_not_honour_it() -> Result<()> {
    let route =
        |name: &str| json!({"name": name, "match": {"prefix": format!("/{name}")}, "route": {"cluster": "backends"}});
    for (policy, cookie) in [("web", "limpet-session"), ("other", "other")] {
        let filter = json!({
            "keys": [{"id": 1, "env": "LIMPET_KEY"}],
            "policies": {"web": {"cookie": {"name": "limpet-session"}}, "other": {"cookie": {"name": "other"}}},
            "routes": [{"route": "one", "policy": "web"}, {"route": "two", "policy": policy}],
        });
        let backends = Backend::three()?;
        let config = Config::load("cookie.yaml")?
            .filter(&filter)
            .routes(json!([route("one"), route("two")]));
        let envoy = Envoy::serve(config.backends(&backends)).await?;
        let session = Session::begin_on(envoy.address(), "/one").await?;
        assert!(!honoured_elsewhere(&session, cookie).await?);
        assert_eq!(envoy.metric(&format!("{policy}.refused.bad_signature")).await?, 6);
    }
    Ok(())
}
