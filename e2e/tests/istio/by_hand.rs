//! The objects of `envoy-configs/istio`, applied by hand.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use limpet_e2e::{poll, tools};
use serde_json::json;

use crate::site::{COOKIE, IstioSite, OBJECTS, key_of, names};

const PLUGIN: &str = "extensions.istio.io/v1alpha1/WasmPlugin";

#[tokio::test]
async fn sessions_come_with_the_objects_and_go_with_them() -> Result<()> {
    let site = IstioSite::start("by-hand").await?;
    let mut visitor = site.visitor();
    site.visit(&mut visitor).await?;
    ensure!(visitor.cookie_names().is_empty(), "a session without the objects");
    let traces = site.traces().await?;
    ensure!(traces.is_empty(), "before the objects: {traces:?}");

    site.apply(&OBJECTS).await?;
    site.until_sessions().await?;
    for _ in 0..4 {
        let (mut visitor, pod) = site.session().await?;
        site.holds(&mut visitor, &pod).await?;
    }
    assert_eq!(site.spread(20).await?, names(&["shop-0", "shop-1"]));

    site.delete(&OBJECTS).await?;
    let gone = async || site.traces().await.ok()?.is_empty().then_some(());
    if let Err(error) = poll::until("no trace of Limpet in Envoy", gone).await {
        return Err(error.context(format!("{:?}", site.traces().await?)));
    }
    let mut visitor = site.visitor();
    site.visit(&mut visitor).await?;
    ensure!(visitor.cookie_names().is_empty(), "a session without the objects");
    Ok(())
}

#[tokio::test]
async fn forged_headers_do_not_steer() -> Result<()> {
    let site = IstioSite::with_sessions("forged", &OBJECTS).await?;
    site.check_forged_headers_have_no_effect().await?;

    let (mut visitor, _) = site.session().await?;
    let token = visitor.cookie(COOKIE).context("no token")?.to_owned();
    let mut forged = URL_SAFE_NO_PAD.decode(&token)?;
    *forged.last_mut().context("the token is empty")? ^= 1;
    visitor.keep(COOKIE, &URL_SAFE_NO_PAD.encode(forged));
    let answer = site.visit(&mut visitor).await?;
    ensure!(answer.set_cookie(COOKIE).is_some(), "a forged token was honoured");
    Ok(())
}

#[tokio::test]
async fn a_draining_pod_keeps_its_sessions_and_gets_no_new_ones() -> Result<()> {
    let mut site = IstioSite::with_sessions("drain", &OBJECTS).await?;
    let mut visitor = site.session_on("shop-0").await?;
    site.pods["shop-0"].drain().await?;
    let draining = async || (site.spread(20).await.ok()? == names(&["shop-1"])).then_some(());
    poll::until("new sessions to be at shop-1 only", draining).await?;
    site.holds(&mut visitor, "shop-0").await?;
    assert_eq!(site.spread(20).await?, names(&["shop-1"]));

    site.remove("shop-0").await?;
    let answer = site.visit(&mut visitor).await?;
    assert_eq!(answer.backend(), Some("shop-1"));
    site.holds(&mut visitor, "shop-1").await
}

#[tokio::test]
async fn without_the_services_label_a_draining_pod_loses_sessions() -> Result<()> {
    let site = IstioSite::with_sessions("no-label", &OBJECTS).await?;
    let label = json!({"metadata": {"labels": {"istio.io/persistent-session": null}}});
    site.namespace.merge("v1/Service", "shop", &label).await?;
    let mut visitor = site.session_on("shop-0").await?;
    site.pods["shop-0"].drain().await?;
    let moved = async || (site.visit(&mut visitor).await.ok()?.backend()? == "shop-1").then_some(());
    poll::until("the session to move", moved).await
}

#[tokio::test]
async fn a_split_keeps_its_sessions_at_weight_0() -> Result<()> {
    let objects = ["wasm-plugin.yaml", "chain.yaml", "split.yaml"];
    let site = IstioSite::with_sessions("split", &objects).await?;
    site.weights(50, 50).await?;
    let mut sessions = Vec::new();
    for pod in ["shop-0", "shop-1", "shop-canary-0", "shop-canary-1"] {
        sessions.push((site.session_on(pod).await?, pod));
    }
    for (visitor, pod) in &mut sessions {
        site.holds(visitor, pod).await?;
    }

    site.weights(100, 0).await?;
    let canary_is_out = async || (site.spread(20).await.ok()? == names(&["shop-0", "shop-1"])).then_some(());
    poll::until("new sessions to be at shop only", canary_is_out).await?;
    for (visitor, pod) in &mut sessions {
        site.holds(visitor, pod).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_key_changes_without_a_restart_and_no_session_is_lost() -> Result<()> {
    let site = IstioSite::with_sessions("rotate", &OBJECTS).await?;
    let (mut visitor, pod) = site.session().await?;
    // The third change removes the old key.
    for signs in [1, 2, 2, 2] {
        site.keyring.rotate()?;
        site.apply(&["wasm-plugin.yaml"]).await?;
        let text = plugin_keys(&site).await?;
        let served = async || {
            let dump = site.envoy.admin().text("/config_dump?include_eds").await.ok()?;
            dump.contains(&text).then_some(())
        };
        poll::until("the new keyring", served).await?;
        let new_tokens = async || {
            let (visitor, _) = site.session().await.ok()?;
            (key_of(visitor.cookie(COOKIE)?).ok()? == signs).then_some(())
        };
        poll::until(&format!("tokens under key {signs}"), new_tokens).await?;
        site.holds(&mut visitor, &pod).await?;
    }
    assert_eq!(key_of(visitor.cookie(COOKIE).context("no session")?)?, 2);
    let dump = site.envoy.admin().text("/config_dump").await?;
    for secret in site.keyring.secrets()? {
        ensure!(!dump.contains(&secret), "Envoy shows a key");
    }
    Ok(())
}

/// The wrapped keyring in the object.
async fn plugin_keys(site: &IstioSite) -> Result<String> {
    let plugin = site.namespace.get(PLUGIN, "limpet").await?;
    let text = plugin["spec"]["pluginConfig"]["wrappedKeys"]["text"].as_str();
    Ok(text.context("no wrapped keyring")?.to_owned())
}

#[tokio::test]
async fn a_missing_module_stops_no_request() -> Result<()> {
    let mut site = IstioSite::with_sessions("module", &OBJECTS).await?;
    let (mut visitor, pod) = site.session().await?;
    set_url(&site, "file:///nonexistent/limpet.wasm").await?;
    let refused = async || {
        let stats = site
            .envoy
            .admin()
            .stats("extension_config_discovery.*config_fail")
            .await
            .ok()?;
        (stats.values().sum::<u64>() > 0).then_some(())
    };
    poll::until("Envoy to refuse the configuration", refused).await?;
    site.holds(&mut visitor, &pod).await?;

    // A new Envoy has no former configuration: requests pass without sessions until the module is there.
    site.restart_envoy().await?;
    site.until_refused().await?;

    set_url(&site, &format!("file://{}", tools::wasm()?.display())).await?;
    site.until_sessions().await?;
    site.holds(&mut visitor, &pod).await
}

#[tokio::test]
async fn objects_that_a_new_envoy_refuses_stop_no_request() -> Result<()> {
    let mut site = IstioSite::start("refused").await?;
    site.restart_envoy_without_key().await?;
    site.apply(&OBJECTS).await?;
    site.until_refused().await?;
    site.restart_envoy().await?;
    site.until_sessions().await
}

async fn set_url(site: &IstioSite, url: &str) -> Result<()> {
    let change = json!({"spec": {"url": url}});
    site.namespace.merge(PLUGIN, "limpet", &change).await.map(drop)
}

/// The object's text for a hostname and a route's name.
fn session(text: &str, domain: &str, route: &str) -> String {
    let named = text.replace("domainName: shop.example.com", &format!("domainName: {domain:?}"));
    named.replace("{name: shop-pages}", &format!("{{name: {route:?}}}"))
}

#[tokio::test]
async fn a_route_is_found_by_hostname_and_rule_name_or_number() -> Result<()> {
    let site = IstioSite::with_sessions("names", &OBJECTS).await?;
    let text = site.text("route.yaml")?;
    let numbered = format!("{}.shop.0", site.namespace.name());
    // Hostnames of the listener and of the route, the rule's name, and the hostname and name by which the route is
    // found.
    let cases = [
        (None, Some("shop.example.com"), None, ("shop.example.com", &*numbered)),
        (None, None, Some("pages"), ("*", "pages")),
        (Some("*.example.com"), None, None, ("*.example.com", &*numbered)),
        (
            Some("*.example.com"),
            Some("shop.example.com"),
            Some("x"),
            ("shop.example.com", "x"),
        ),
        (
            Some("shop.example.com"),
            Some("*.example.com"),
            Some("x"),
            ("shop.example.com", "x"),
        ),
    ];
    for (listener, route, rule, (domain, name)) in cases {
        let listeners = json!([{"name": "http", "protocol": "HTTP", "port": 80, "hostname": listener}]);
        let change = json!({"spec": {"listeners": listeners}});
        site.namespace.merge("Gateway", "web", &change).await?;
        let rules = json!([{"name": rule, "backendRefs": [{"name": "shop", "port": 80}]}]);
        let change = json!({"spec": {"hostnames": route.map(|hostname| [hostname]), "rules": rules}});
        site.namespace.merge("HTTPRoute", "shop", &change).await?;
        let without = async || {
            let mut visitor = site.visitor();
            site.visit(&mut visitor).await.ok()?;
            visitor.cookie_names().is_empty().then_some(())
        };
        // With its new name, the route has no session yet.
        let what = format!("a route without a session: {listener:?} {route:?} {rule:?}");
        poll::until(&what, without).await?;
        site.namespace.apply(&session(&text, domain, name)).await?;
        site.until_sessions()
            .await
            .with_context(|| format!("{domain} {name}"))?;
        site.delete(&["route.yaml"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_strict_session_fails_if_its_pod_is_gone() -> Result<()> {
    let mut site = IstioSite::with_sessions("strict", &OBJECTS).await?;
    let change = json!({"spec": {"pluginConfig": {"policies": {"web": {"strict": true}}}}});
    site.namespace.merge(PLUGIN, "limpet", &change).await?;
    // As the comment in the file says.
    let (head, strict) = site
        .text("route.yaml")?
        .split_once("        # With")
        .map(|(head, tail)| (head.to_owned(), tail.to_owned()))
        .context("no comment")?;
    let (_, strict) = strict.split_once('\n').context("no lines")?;
    site.namespace
        .apply(&format!("{head}{}", strict.replace("        # ", "        ")))
        .await?;
    let strict = async || {
        // istiod writes JSON with or without spaces.
        let dump = site.envoy.admin().text("/config_dump").await.ok()?.replace(' ', "");
        (dump.contains(r#"\"strict\":true"#) && dump.contains(r#""limpet.stateful_session_strict":{"#)).then_some(())
    };
    poll::until("the strict policy", strict).await?;
    let mut visitor = site.session_on("shop-0").await?;
    site.holds(&mut visitor, "shop-0").await?;
    site.remove("shop-0").await?;
    let failed = async || (visitor.send(site.request()).await.ok()?.status == 503).then_some(());
    poll::until("the session to fail", failed).await?;
    assert_eq!(site.spread(6).await?, names(&["shop-1"]));
    assert_eq!(visitor.send(site.request()).await?.status, 503);
    Ok(())
}
