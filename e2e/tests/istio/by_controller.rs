//! The objects that `limpet controller --output istio` writes.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_e2e::kube::{Controller, Istiod, Output};
use limpet_e2e::{Request, Visitor, poll};
use serde_json::{Value, json};

use crate::shop::{COOKIE, Shop, key_of, names};

const PLUGIN: &str = "extensions.istio.io/v1alpha1/WasmPlugin";
const FILTER: &str = "networking.istio.io/v1alpha3/EnvoyFilter";
const POLICY: &str = "gateway.networking.x-k8s.io/v1alpha1/XBackendTrafficPolicy";
const KEK: &str = "limpet-key-encryption-key";
const KEYRING: &str = "limpet-keyring";
const OURS: &str = "app.kubernetes.io/managed-by=limpet";

/// Sessions in the cookie `session` for whatever leads to the service `shop`.
const STICKY: &str = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: sticky}
spec:
  targetRefs: [{group: '', kind: Service, name: shop}]
  sessionPersistence: {sessionName: session}
";

/// The site with a controller of its own, which keeps the keyring itself.
struct Kept {
    shop: Shop,
    controller: Controller,
}

impl Kept {
    /// With sessions.
    async fn open(prefix: &str) -> Result<Self> {
        let kept = Self::without_sessions(prefix).await?;
        kept.shop.namespace.apply(STICKY).await?;
        kept.until_sessions().await?;
        Ok(kept)
    }

    async fn without_sessions(prefix: &str) -> Result<Self> {
        let mut shop = Shop::open(prefix).await?;
        let server = Istiod::shared().await?.cluster().server();
        let change = |config: &mut Value| {
            config["propagationTime"] = "300ms".into();
            config["keyring"] = json!({"phaseTime": "300ms"});
            config["maxIdle"] = "2s".into();
            config["clockSkew"] = "500ms".into();
        };
        let mut controller = Controller::prepare_for(Output::Istio, server, &shop.namespace, change).await?;
        controller.launch()?;
        controller.until_ready().await?;
        // As a person does it who copies the Secret to where the gateway is.
        let secret = shop.namespace.until("a key", "v1/Secret", KEK, |_| true).await?;
        let key = secret["data"]["LIMPET_KEK_1"]
            .as_str()
            .context("no key-encryption key")?;
        shop.key_encryption_key.key = String::from_utf8(STANDARD.decode(key)?)?;
        shop.restart_envoy().await?;
        Ok(Self { shop, controller })
    }

    async fn until_sessions(&self) -> Result<()> {
        let sessions = self.shop.until_sessions().await;
        sessions.with_context(|| self.controller.log().unwrap_or_default())
    }

    /// What the policy's status says of its condition `Programmed`.
    async fn programmed(&self, holds: impl Fn(&str) -> bool) -> Result<()> {
        let told = |policy: &Value| holds(&programmed(policy));
        let until = self.shop.namespace.until("the condition", POLICY, "sticky", told);
        until.await.map(drop)
    }

    async fn ours(&self, kind: &str) -> Result<Vec<Value>> {
        self.shop.namespace.list(kind, OURS).await
    }

    /// Names and versions of all objects that it has written.
    async fn versions(&self) -> Result<BTreeSet<(String, String)>> {
        let mut versions = BTreeSet::new();
        for kind in [PLUGIN, FILTER] {
            for object in self.ours(kind).await? {
                let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
                versions.insert((text("name"), text("resourceVersion")));
            }
        }
        Ok(versions)
    }
}

/// Its condition `Programmed`, as `status/reason: message`.
fn programmed(policy: &Value) -> String {
    let conditions = policy["status"]["ancestors"][0]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Programmed");
    found.map_or_else(String::new, |found| {
        let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
        format!("{}/{}: {}", text("status"), text("reason"), text("message"))
    })
}

#[tokio::test]
async fn sessions_come_with_a_policy_and_go_with_it() -> Result<()> {
    let kept = Kept::without_sessions("policy").await?;
    let shop = &kept.shop;
    ensure!(kept.versions().await?.is_empty(), "objects without sessions");
    assert_eq!(shop.traces().await?, Vec::<String>::new());

    shop.namespace.apply(STICKY).await?;
    kept.until_sessions().await?;
    kept.programmed(|told| told.starts_with("True/Programmed")).await?;
    for _ in 0..4 {
        let (mut visitor, pod) = shop.session().await?;
        shop.holds(&mut visitor, &pod).await?;
    }
    shop.forgery_is_futile().await?;
    assert_eq!(kept.ours(PLUGIN).await?.len(), 1);
    assert_eq!(kept.ours(FILTER).await?.len(), 2);
    let route = shop.namespace.get("HTTPRoute", "shop").await?;
    let parents = route["status"]["parents"].as_array().context("no parents")?;
    ensure!(
        parents
            .iter()
            .all(|parent| parent["controllerName"] == "istio.io/gateway-controller"),
        "{parents:?}"
    );

    shop.namespace.delete(POLICY, "sticky").await?;
    let gone = async || shop.traces().await.ok()?.is_empty().then_some(());
    if let Err(error) = poll::until("an Envoy without us", gone).await {
        return Err(error.context(format!("{:?}", shop.traces().await?)));
    }
    ensure!(kept.versions().await?.is_empty(), "objects are left");
    let mut visitor = shop.visitor();
    shop.visit(&mut visitor).await?;
    ensure!(visitor.cookie_names().is_empty(), "a session without a policy");
    Ok(())
}

#[tokio::test]
async fn a_split_keeps_its_sessions_at_weight_0_and_strict_ones_too() -> Result<()> {
    let kept = Kept::without_sessions("kept-split").await?;
    let shop = &kept.shop;
    shop.weights(50, 50).await?;
    for strict in ["false", "true"] {
        let annotated = STICKY.replace(
            "{name: sticky}",
            &format!("{{name: sticky, annotations: {{session.limpet.dev/strict: '{strict}'}}}}"),
        );
        shop.namespace.apply(&annotated).await?;
        let served = async || {
            let dump = shop.envoy.admin().text("/config_dump").await.ok()?.replace(' ', "");
            let of_policy = dump.contains(r#"\"strict\":true"#);
            let filter = if strict == "true" { "_strict" } else { "" };
            let of_routes = dump.contains(&format!(r#""limpet.stateful_session{filter}":{{"#));
            (of_routes && of_policy == (strict == "true")).then_some(())
        };
        poll::until("the policy", served).await?;
        kept.until_sessions().await?;
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
            shop.holds(visitor, pod)
                .await
                .with_context(|| format!("strict: {strict}"))?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_pod_that_drains_keeps_its_sessions_and_a_service_without_the_label_is_told_of() -> Result<()> {
    let mut kept = Kept::open("kept-drain").await?;
    let shop = &mut kept.shop;
    let mut visitor = shop.session_on("shop-0").await?;
    shop.pods["shop-0"].drain().await?;
    let draining = async || (shop.spread(20).await.ok()? == names(&["shop-1"])).then_some(());
    poll::until("new sessions to be on shop-1 alone", draining).await?;
    shop.holds(&mut visitor, "shop-0").await?;
    shop.remove("shop-0").await?;
    assert_eq!(shop.visit(&mut visitor).await?.backend(), Some("shop-1"));

    let label = json!({"metadata": {"labels": {"istio.io/persistent-session": null}}});
    shop.namespace.merge("v1/Service", "shop", &label).await?;
    let told =
        |told: &str| told.starts_with("True/") && told.contains("expected the label istio.io/persistent-session");
    kept.programmed(told).await
}

#[tokio::test]
async fn a_key_changes_when_the_annotation_asks_and_no_session_is_lost() -> Result<()> {
    let kept = Kept::open("kept-rotate").await?;
    let shop = &kept.shop;
    let (mut visitor, pod) = shop.session().await?;
    let wish = json!({"metadata": {"annotations": {"limpet.dev/rotate": "now"}}});
    shop.namespace.merge("v1/Secret", KEYRING, &wish).await?;
    let rotated = async || {
        shop.holds(&mut visitor, &pod).await.ok()?;
        (key_of(visitor.cookie(COOKIE)?).ok()? == 2).then_some(())
    };
    poll::until("the session under the new key", rotated)
        .await
        .with_context(|| kept.controller.log().unwrap_or_default())?;
    shop.holds(&mut visitor, &pod).await?;
    let one_key = |secret: &Value| {
        let text = secret["data"]["keyring.json"]
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok());
        let keyring: Value = serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_default();
        keyring["keys"]
            .as_array()
            .is_some_and(|keys| keys.len() == 1 && keys[0]["id"] == 2)
    };
    // Sessions that come back outlive the old key.
    poll::until("the old key to go", async || {
        shop.holds(&mut visitor, &pod).await.ok()?;
        one_key(&shop.namespace.get("v1/Secret", KEYRING).await.ok()?).then_some(())
    })
    .await?;
    shop.holds(&mut visitor, &pod).await
}

#[tokio::test]
async fn without_the_controller_sessions_go_on_and_with_it_again_nothing_is_written() -> Result<()> {
    let mut kept = Kept::open("gone").await?;
    let (mut visitor, pod) = kept.shop.session().await?;
    kept.programmed(|told| told.starts_with("True/Programmed")).await?;
    let before = kept.versions().await?;
    kept.controller.kill();
    kept.shop.holds(&mut visitor, &pod).await?;
    // An Envoy that starts now has everything from Istio.
    kept.shop.restart_envoy().await?;
    kept.shop.until_sessions().await?;
    kept.shop.holds(&mut visitor, &pod).await?;

    // The Lease of the one that died is not waited for.
    let lease = "coordination.k8s.io/v1/Lease";
    kept.shop.namespace.delete(lease, "limpet-controller").await?;
    kept.controller.launch()?;
    kept.controller.until_ready().await?;
    // What somebody does to an object is undone, by which it is known that the controller is at work.
    let change = json!({"spec": {"failStrategy": "FAIL_CLOSE"}});
    kept.shop.namespace.merge(PLUGIN, "limpet-web", &change).await?;
    let undone = |plugin: &Value| plugin["spec"]["failStrategy"] == "FAIL_OPEN";
    kept.shop
        .namespace
        .until("the change to be undone", PLUGIN, "limpet-web", undone)
        .await?;
    let filters = |versions: &BTreeSet<(String, String)>| -> Vec<_> {
        versions
            .iter()
            .filter(|(name, _)| name != "limpet-web")
            .cloned()
            .collect()
    };
    assert_eq!(filters(&kept.versions().await?), filters(&before));
    kept.shop.holds(&mut visitor, &pod).await
}

/// Another route of the gateway, whose rule has the same name.
fn namesake(hostname: &str) -> String {
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: other}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: [{hostname}]
  rules:
  - name: shop-pages
    matches: [{{path: {{value: /other}}}}]
    backendRefs: [{{name: shop-canary, port: 80}}]
"
    )
}

#[tokio::test]
async fn rules_of_one_name_are_told_apart_or_told_of() -> Result<()> {
    let kept = Kept::open("namesakes").await?;
    let shop = &kept.shop;
    let canary = |path: &'static str, host: &'static str| {
        let request = Request::get(shop.gateway.address(), path).header("host", host);
        async move {
            let answer = request.send().await?;
            let backend = answer.backend().unwrap_or_default().to_owned();
            anyhow::Ok((backend.starts_with("shop-canary"), answer.set_cookie(COOKIE).is_some()))
        }
    };
    shop.namespace.apply(&namesake("other.example.com")).await?;
    poll::until("the other route, without sessions", async || {
        (canary("/other", "other.example.com").await.ok()? == (true, false)).then_some(())
    })
    .await?;
    let (mut visitor, pod) = shop.session().await?;
    shop.holds(&mut visitor, &pod).await?;

    // Under one hostname there is no telling, so neither has sessions.
    shop.namespace.apply(&namesake("shop.example.com")).await?;
    let told = |told: &str| told.starts_with("False/Invalid") && told.contains("expected names that differ");
    kept.programmed(told).await?;
    let without = async || {
        let mut visitor = shop.visitor();
        shop.visit(&mut visitor).await.ok()?;
        let other = canary("/other", "shop.example.com").await.ok()?;
        (visitor.cookie_names().is_empty() && other == (true, false)).then_some(())
    };
    poll::until("routes without sessions", without).await?;

    shop.namespace.delete("HTTPRoute", "other").await?;
    kept.until_sessions().await?;
    kept.programmed(|told| told.starts_with("True/Programmed")).await
}

#[tokio::test]
async fn a_proxy_without_the_key_encryption_key_is_told_of() -> Result<()> {
    let kept = Kept::open("no-key").await?;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-istio-2", "labels": {"gateway.networking.k8s.io/gateway-name": "web"}},
        "spec": {"containers": [{"name": "istio-proxy", "image": "none"}]},
    });
    kept.shop.namespace.apply_object(&pod).await?;
    // Any change has it look again.
    let change = json!({"metadata": {"annotations": {"session.limpet.dev/strict": "true"}}});
    kept.shop.namespace.merge(POLICY, "sticky", &change).await?;
    kept.programmed(|told| told.starts_with("False/") && told.contains("LIMPET_KEK_1") && told.contains("web-istio-2"))
        .await
}

#[tokio::test]
async fn a_proxy_without_the_key_serves_without_sessions() -> Result<()> {
    let mut kept = Kept::without_sessions("kept-refused").await?;
    kept.shop.restart_envoy_without_key().await?;
    kept.shop.namespace.apply(STICKY).await?;
    kept.shop.until_refused().await?;
    kept.shop.restart_envoy().await?;
    kept.until_sessions().await?;
    let (mut visitor, pod) = kept.shop.session().await?;
    kept.shop.holds(&mut visitor, &pod).await
}

#[tokio::test]
async fn a_route_of_two_gateways_has_the_same_sessions_on_both() -> Result<()> {
    let kept = Kept::open("two").await?;
    let shop = &kept.shop;
    let second = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: second}
spec:
  gatewayClassName: istio
  listeners: [{name: http, protocol: HTTP, port: 80}]
";
    shop.namespace.apply(second).await?;
    let gateway = Istiod::shared().await?.gateway(&shop.namespace, "second", 80).await?;
    let key = &shop.key_encryption_key;
    let mut envoy = gateway.envoy(&[(&key.variable, &key.key)]).await?;
    envoy.until_ready().await?;
    let parents = json!({"spec": {"parentRefs": [{"name": "web"}, {"name": "second"}]}});
    shop.namespace.merge("HTTPRoute", "shop", &parents).await?;

    let visit = async |visitor: &Visitor| {
        let request = Request::get(gateway.address(), "/").header("host", "shop.example.com");
        visitor.bring(request).send().await
    };
    let begins = async || visit(&shop.visitor()).await.ok()?.set_cookie(COOKIE).map(drop);
    poll::until("sessions on the second", begins).await?;
    let (visitor, pod) = shop.session().await?;
    for _ in 0..10 {
        let answer = visit(&visitor).await?;
        assert_eq!(answer.backend(), Some(&*pod));
        ensure!(answer.set_cookie(COOKIE).is_none(), "another token");
    }
    assert_eq!(kept.ours(PLUGIN).await?.len(), 2);

    // What goes with one Gateway leaves the other alone.
    let parents = json!({"spec": {"parentRefs": [{"name": "web"}]}});
    shop.namespace.merge("HTTPRoute", "shop", &parents).await?;
    let one = async || (kept.ours(PLUGIN).await.ok()?.len() == 1).then_some(());
    poll::until("the second's objects to go", one).await?;
    shop.until_sessions().await
}
