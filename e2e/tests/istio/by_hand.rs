//! The objects of `envoy-configs/istio`, applied by hand.

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use limpet_e2e::{poll, tools};
use serde_json::json;

use crate::shop::{COOKIE, OBJECTS, Shop, key_of, names};

const PLUGIN: &str = "extensions.istio.io/v1alpha1/WasmPlugin";

#[tokio::test]
async fn sessions_come_with_the_objects_and_go_with_them() -> Result<()> {
    let shop = Shop::open("by-hand").await?;
    let mut visitor = shop.visitor();
    shop.visit(&mut visitor).await?;
    ensure!(visitor.cookie_names().is_empty(), "a session without the objects");
    let traces = shop.traces().await?;
    ensure!(traces.is_empty(), "before the objects: {traces:?}");

    shop.apply(&OBJECTS).await?;
    shop.until_sessions().await?;
    for _ in 0..4 {
        let (mut visitor, pod) = shop.session().await?;
        shop.holds(&mut visitor, &pod).await?;
    }
    assert_eq!(shop.spread(20).await?, names(&["shop-0", "shop-1"]));

    shop.delete(&OBJECTS).await?;
    let gone = async || shop.traces().await.ok()?.is_empty().then_some(());
    if let Err(error) = poll::until("an Envoy without us", gone).await {
        return Err(error.context(format!("{:?}", shop.traces().await?)));
    }
    let mut visitor = shop.visitor();
    shop.visit(&mut visitor).await?;
    ensure!(visitor.cookie_names().is_empty(), "a session after the objects");
    Ok(())
}

#[tokio::test]
async fn nobody_steers_by_forged_headers() -> Result<()> {
    let shop = Shop::with_sessions("forged", &OBJECTS).await?;
    shop.forgery_is_futile().await?;

    // A token that somebody changed is none.
    let (mut visitor, _) = shop.session().await?;
    let token = visitor.cookie(COOKIE).context("no token")?.to_owned();
    let mut forged = URL_SAFE_NO_PAD.decode(&token)?;
    *forged.last_mut().context("an empty token")? ^= 1;
    visitor.keep(COOKIE, &URL_SAFE_NO_PAD.encode(forged));
    let answer = shop.visit(&mut visitor).await?;
    ensure!(answer.set_cookie(COOKIE).is_some(), "a forged token was honoured");
    Ok(())
}

#[tokio::test]
async fn a_pod_that_drains_keeps_its_sessions_and_gets_no_new_ones() -> Result<()> {
    let mut shop = Shop::with_sessions("drain", &OBJECTS).await?;
    let mut visitor = shop.session_on("shop-0").await?;
    shop.pods["shop-0"].drain().await?;
    let draining = async || (shop.spread(20).await.ok()? == names(&["shop-1"])).then_some(());
    poll::until("new sessions to be on shop-1 alone", draining).await?;
    shop.holds(&mut visitor, "shop-0").await?;
    assert_eq!(shop.spread(20).await?, names(&["shop-1"]));

    shop.remove("shop-0").await?;
    let answer = shop.visit(&mut visitor).await?;
    assert_eq!(answer.backend(), Some("shop-1"));
    shop.holds(&mut visitor, "shop-1").await
}

#[tokio::test]
async fn without_the_services_label_a_pod_that_drains_loses_its_sessions() -> Result<()> {
    let shop = Shop::with_sessions("no-label", &OBJECTS).await?;
    let label = json!({"metadata": {"labels": {"istio.io/persistent-session": null}}});
    shop.namespace.merge("v1/Service", "shop", &label).await?;
    let mut visitor = shop.session_on("shop-0").await?;
    shop.pods["shop-0"].drain().await?;
    let moved = async || (shop.visit(&mut visitor).await.ok()?.backend()? == "shop-1").then_some(());
    poll::until("the session to move", moved).await
}

#[tokio::test]
async fn a_split_keeps_its_sessions_at_weight_0() -> Result<()> {
    let objects = ["wasm-plugin.yaml", "chain.yaml", "split.yaml"];
    let shop = Shop::with_sessions("split", &objects).await?;
    shop.weights(50, 50).await?;
    let mut sessions = Vec::new();
    for pod in ["shop-0", "shop-1", "shop-canary-0", "shop-canary-1"] {
        sessions.push((shop.session_on(pod).await?, pod));
    }
    for (visitor, pod) in &mut sessions {
        shop.holds(visitor, pod).await?;
    }

    shop.weights(100, 0).await?;
    let canary_is_out = async || (shop.spread(20).await.ok()? == names(&["shop-0", "shop-1"])).then_some(());
    poll::until("new sessions to be on shop alone", canary_is_out).await?;
    for (visitor, pod) in &mut sessions {
        shop.holds(visitor, pod).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_key_changes_without_a_restart_and_no_session_is_lost() -> Result<()> {
    let shop = Shop::with_sessions("rotate", &OBJECTS).await?;
    let (mut visitor, pod) = shop.session().await?;
    // The third takes the old key away.
    for signs in [1, 2, 2, 2] {
        shop.keyring.rotate()?;
        shop.apply(&["wasm-plugin.yaml"]).await?;
        let text = plugin_keys(&shop).await?;
        let served = async || {
            let dump = shop.envoy.admin().text("/config_dump?include_eds").await.ok()?;
            dump.contains(&text).then_some(())
        };
        poll::until("the new keyring", served).await?;
        let new_tokens = async || {
            let (visitor, _) = shop.session().await.ok()?;
            (key_of(visitor.cookie(COOKIE)?).ok()? == signs).then_some(())
        };
        poll::until(&format!("tokens under key {signs}"), new_tokens).await?;
        shop.holds(&mut visitor, &pod).await?;
    }
    assert_eq!(key_of(visitor.cookie(COOKIE).context("no session")?)?, 2);
    let dump = shop.envoy.admin().text("/config_dump").await?;
    for secret in shop.keyring.secrets()? {
        ensure!(!dump.contains(&secret), "Envoy shows a key");
    }
    Ok(())
}

/// The wrapped keyring, as the object has it.
async fn plugin_keys(shop: &Shop) -> Result<String> {
    let plugin = shop.namespace.get(PLUGIN, "limpet").await?;
    let text = plugin["spec"]["pluginConfig"]["wrappedKeys"]["text"].as_str();
    Ok(text.context("no wrapped keyring")?.to_owned())
}

#[tokio::test]
async fn a_module_that_can_not_be_had_stops_no_request() -> Result<()> {
    let mut shop = Shop::with_sessions("module", &OBJECTS).await?;
    let (mut visitor, pod) = shop.session().await?;
    set_url(&shop, "file:///nonexistent/limpet.wasm").await?;
    let refused = async || {
        let stats = shop
            .envoy
            .admin()
            .stats("extension_config_discovery.*config_fail")
            .await
            .ok()?;
        (stats.values().sum::<u64>() > 0).then_some(())
    };
    poll::until("Envoy to refuse it", refused).await?;
    shop.holds(&mut visitor, &pod).await?;

    // One that starts has nothing to keep: requests pass without sessions until the module is there.
    shop.restart_envoy().await?;
    shop.until_refused().await?;

    set_url(&shop, &format!("file://{}", tools::wasm()?.display())).await?;
    shop.until_sessions().await?;
    shop.holds(&mut visitor, &pod).await
}

#[tokio::test]
async fn objects_that_envoy_refuses_from_the_beginning_stop_no_request() -> Result<()> {
    let mut shop = Shop::open("refused").await?;
    shop.restart_envoy_without_key().await?;
    shop.apply(&OBJECTS).await?;
    shop.until_refused().await?;
    shop.restart_envoy().await?;
    shop.until_sessions().await
}

async fn set_url(shop: &Shop, url: &str) -> Result<()> {
    let change = json!({"spec": {"url": url}});
    shop.namespace.merge(PLUGIN, "limpet", &change).await.map(drop)
}

/// A rule's session, for a hostname and a route's name.
fn session(text: &str, domain: &str, route: &str) -> String {
    let named = text.replace("domainName: shop.example.com", &format!("domainName: {domain:?}"));
    named.replace("{name: shop-pages}", &format!("{{name: {route:?}}}"))
}

#[tokio::test]
async fn a_route_is_known_by_its_hostname_and_its_rules_name_or_number() -> Result<()> {
    let shop = Shop::with_sessions("names", &OBJECTS).await?;
    let text = shop.text("route.yaml")?;
    let numbered = format!("{}.shop.0", shop.namespace.name());
    // Hostnames of the listener and of the route, the rule's name, and what the route is known by.
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
        shop.namespace.merge("Gateway", "web", &change).await?;
        let rules = json!([{"name": rule, "backendRefs": [{"name": "shop", "port": 80}]}]);
        let change = json!({"spec": {"hostnames": route.map(|hostname| [hostname]), "rules": rules}});
        shop.namespace.merge("HTTPRoute", "shop", &change).await?;
        let without = async || {
            let mut visitor = shop.visitor();
            shop.visit(&mut visitor).await.ok()?;
            visitor.cookie_names().is_empty().then_some(())
        };
        // Under its new name it has no session yet.
        let what = format!("a route without a session: {listener:?} {route:?} {rule:?}");
        poll::until(&what, without).await?;
        shop.namespace.apply(&session(&text, domain, name)).await?;
        shop.until_sessions()
            .await
            .with_context(|| format!("{domain} {name}"))?;
        shop.delete(&["route.yaml"]).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_strict_session_fails_where_its_pod_is_gone() -> Result<()> {
    let mut shop = Shop::with_sessions("strict", &OBJECTS).await?;
    let change = json!({"spec": {"pluginConfig": {"policies": {"web": {"strict": true}}}}});
    shop.namespace.merge(PLUGIN, "limpet", &change).await?;
    // As the comment says.
    let (head, strict) = shop
        .text("route.yaml")?
        .split_once("        # With")
        .map(|(head, tail)| (head.to_owned(), tail.to_owned()))
        .context("no comment")?;
    let (_, strict) = strict.split_once('\n').context("no lines")?;
    shop.namespace
        .apply(&format!("{head}{}", strict.replace("        # ", "        ")))
        .await?;
    let strict = async || {
        // istiod writes JSON with spaces, or without.
        let dump = shop.envoy.admin().text("/config_dump").await.ok()?.replace(' ', "");
        (dump.contains(r#"\"strict\":true"#) && dump.contains(r#""limpet.stateful_session_strict":{"#)).then_some(())
    };
    poll::until("the strict policy", strict).await?;
    let mut visitor = shop.session_on("shop-0").await?;
    shop.holds(&mut visitor, "shop-0").await?;
    shop.remove("shop-0").await?;
    let failed = async || (visitor.send(shop.request()).await.ok()?.status == 503).then_some(());
    poll::until("the session to fail", failed).await?;
    assert_eq!(shop.spread(6).await?, names(&["shop-1"]));
    assert_eq!(visitor.send(shop.request()).await?.status, 503);
    Ok(())
}
