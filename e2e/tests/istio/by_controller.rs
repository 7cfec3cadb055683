//! The objects that `limpet controller --target istio` writes.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_e2e::kube::{Controller, Istiod, Output};
use limpet_e2e::{Request, Visitor, poll};
use serde_json::{Value, json};

use crate::site::{COOKIE, IstioSite, key_of, names};

const PLUGIN: &str = "extensions.istio.io/v1alpha1/WasmPlugin";
const FILTER: &str = "networking.istio.io/v1alpha3/EnvoyFilter";
const POLICY: &str = "gateway.networking.x-k8s.io/v1alpha1/XBackendTrafficPolicy";
const KEK: &str = "limpet-key-encryption-key";
const KEYRING: &str = "limpet-keyring";
const OURS: &str = "app.kubernetes.io/managed-by=limpet";

/// A policy with sessions for the service `shop`, in the cookie `session`.
const STICKY: &str = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: sticky}
spec:
  targetRefs: [{group: '', kind: Service, name: shop}]
  sessionPersistence: {sessionName: limpet-session}
";

/// The controller keeps the keyring.
pub(crate) struct ControlledSite {
    pub(crate) site: IstioSite,
    controller: Controller,
}

impl ControlledSite {
    async fn start(prefix: &str) -> Result<Self> {
        let controlled = Self::without_sessions(prefix).await?;
        controlled.site.namespace.apply(STICKY).await?;
        controlled.until_sessions().await?;
        Ok(controlled)
    }

    pub(crate) async fn without_sessions(prefix: &str) -> Result<Self> {
        let mut site = IstioSite::start(prefix).await?;
        let server = Istiod::shared().await?.cluster().server();
        let change = |config: &mut Value| {
            config["propagationTime"] = "300ms".into();
            config["keyring"] = json!({"phaseTime": "300ms"});
            config["maxIdle"] = "2s".into();
            config["clockSkew"] = "500ms".into();
        };
        let mut controller = Controller::prepare_for(Output::Istio, server, &site.namespace, change).await?;
        controller.launch()?;
        controller.until_ready().await?;
        // The gateway's namespace needs a copy of the Secret, which an operator would make.
        let secret = site.namespace.until("a key", "v1/Secret", KEK, |_| true).await?;
        let key = secret["data"]["LIMPET_KEK_1"]
            .as_str()
            .context("no key-encryption key")?;
        site.key_encryption_key.key = String::from_utf8(STANDARD.decode(key)?)?;
        site.restart_envoy().await?;
        Ok(Self { site, controller })
    }

    async fn until_sessions(&self) -> Result<()> {
        let sessions = self.site.until_sessions().await;
        sessions.with_context(|| self.controller.log().unwrap_or_default())
    }

    /// Waits for the policy's condition `Programmed`.
    pub(crate) async fn programmed(&self, holds: impl Fn(&str) -> bool) -> Result<()> {
        let told = |policy: &Value| holds(&programmed(policy));
        let until = self.site.namespace.until("the condition", POLICY, "sticky", told);
        until.await.map(drop)
    }

    async fn ours(&self, kind: &str) -> Result<Vec<Value>> {
        self.site.namespace.list(kind, OURS).await
    }

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
    let controlled = ControlledSite::without_sessions("policy").await?;
    let site = &controlled.site;
    ensure!(controlled.versions().await?.is_empty(), "objects without sessions");
    assert_eq!(site.traces().await?, Vec::<String>::new());

    site.namespace.apply(STICKY).await?;
    controlled.until_sessions().await?;
    controlled
        .programmed(|told| told.starts_with("True/Programmed"))
        .await?;
    for _ in 0..4 {
        let (mut visitor, pod) = site.session().await?;
        site.holds(&mut visitor, &pod).await?;
    }
    site.check_forged_headers_have_no_effect().await?;
    assert_eq!(controlled.ours(PLUGIN).await?.len(), 1);
    assert_eq!(controlled.ours(FILTER).await?.len(), 2);
    let route = site.namespace.get("HTTPRoute", "shop").await?;
    let parents = route["status"]["parents"].as_array().context("no parents")?;
    ensure!(
        parents
            .iter()
            .all(|parent| parent["controllerName"] == "istio.io/gateway-controller"),
        "{parents:?}"
    );

    site.namespace.delete(POLICY, "sticky").await?;
    let gone = async || site.traces().await.ok()?.is_empty().then_some(());
    if let Err(error) = poll::until("no trace of Limpet in Envoy", gone).await {
        return Err(error.context(format!("{:?}", site.traces().await?)));
    }
    ensure!(controlled.versions().await?.is_empty(), "objects were not deleted");
    let mut visitor = site.visitor();
    site.visit(&mut visitor).await?;
    ensure!(visitor.cookie_names().is_empty(), "a session without a policy");
    Ok(())
}

#[tokio::test]
async fn a_split_keeps_sessions_and_strict_sessions_at_weight_0() -> Result<()> {
    let controlled = ControlledSite::without_sessions("kept-split").await?;
    let site = &controlled.site;
    site.weights(50, 50).await?;
    for strict in ["false", "true"] {
        let annotated = STICKY.replace(
            "{name: sticky}",
            &format!("{{name: sticky, annotations: {{session.limpet.dev/strict: '{strict}'}}}}"),
        );
        site.namespace.apply(&annotated).await?;
        let served = async || {
            let dump = site.envoy.admin().text("/config_dump").await.ok()?.replace(' ', "");
            let of_policy = dump.contains(r#"\"strict\":true"#);
            let filter = if strict == "true" { "_strict" } else { "" };
            let of_routes = dump.contains(&format!(r#""limpet.stateful_session{filter}":{{"#));
            (of_routes && of_policy == (strict == "true")).then_some(())
        };
        poll::until("the policy", served).await?;
        controlled.until_sessions().await?;
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
            site.holds(visitor, pod)
                .await
                .with_context(|| format!("strict: {strict}"))?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_draining_pod_keeps_sessions_and_a_lost_label_is_reported() -> Result<()> {
    let mut controlled = ControlledSite::start("kept-drain").await?;
    let site = &mut controlled.site;
    let mut visitor = site.session_on("shop-0").await?;
    site.pods["shop-0"].drain().await?;
    let draining = async || (site.spread(20).await.ok()? == names(&["shop-1"])).then_some(());
    poll::until("new sessions to be at shop-1 only", draining).await?;
    site.holds(&mut visitor, "shop-0").await?;
    site.remove("shop-0").await?;
    assert_eq!(site.visit(&mut visitor).await?.backend(), Some("shop-1"));

    let label = json!({"metadata": {"labels": {"istio.io/persistent-session": null}}});
    site.namespace.merge("v1/Service", "shop", &label).await?;
    let told =
        |told: &str| told.starts_with("True/") && told.contains("expected the label istio.io/persistent-session");
    controlled.programmed(told).await
}

#[tokio::test]
async fn an_annotation_rotates_the_key_and_no_session_is_lost() -> Result<()> {
    let controlled = ControlledSite::start("kept-rotate").await?;
    let site = &controlled.site;
    let (mut visitor, pod) = site.session().await?;
    let wish = json!({"metadata": {"annotations": {"limpet.dev/rotate": "now"}}});
    site.namespace.merge("v1/Secret", KEYRING, &wish).await?;
    let rotated = async || {
        site.holds(&mut visitor, &pod).await.ok()?;
        (key_of(visitor.cookie(COOKIE)?).ok()? == 2).then_some(())
    };
    poll::until("the session to have a token under the new key", rotated)
        .await
        .with_context(|| controlled.controller.log().unwrap_or_default())?;
    site.holds(&mut visitor, &pod).await?;
    let one_key = |secret: &Value| {
        let text = secret["data"]["keyring.json"]
            .as_str()
            .and_then(|text| STANDARD.decode(text).ok());
        let keyring: Value = serde_json::from_slice(&text.unwrap_or_default()).unwrap_or_default();
        keyring["keys"]
            .as_array()
            .is_some_and(|keys| keys.len() == 1 && keys[0]["id"] == 2)
    };
    // Sessions in use outlive the old key.
    poll::until("the old key to be removed", async || {
        site.holds(&mut visitor, &pod).await.ok()?;
        one_key(&site.namespace.get("v1/Secret", KEYRING).await.ok()?).then_some(())
    })
    .await?;
    site.holds(&mut visitor, &pod).await
}

#[tokio::test]
async fn sessions_survive_the_controller_and_its_restart() -> Result<()> {
    let mut controlled = ControlledSite::start("gone").await?;
    let (mut visitor, pod) = controlled.site.session().await?;
    controlled
        .programmed(|told| told.starts_with("True/Programmed"))
        .await?;
    let before = controlled.versions().await?;
    controlled.controller.kill();
    controlled.site.holds(&mut visitor, &pod).await?;
    // A new Envoy gets everything from Istio.
    controlled.site.restart_envoy().await?;
    controlled.site.until_sessions().await?;
    controlled.site.holds(&mut visitor, &pod).await?;

    // Without the dead controller's Lease, the new one need not wait.
    let lease = "coordination.k8s.io/v1/Lease";
    controlled.site.namespace.delete(lease, "limpet-controller").await?;
    controlled.controller.launch()?;
    controlled.controller.until_ready().await?;
    // The controller undoes changes of others, once it works again.
    let change = json!({"spec": {"failStrategy": "FAIL_CLOSE"}});
    controlled.site.namespace.merge(PLUGIN, "limpet-web", &change).await?;
    let undone = |plugin: &Value| plugin["spec"]["failStrategy"] == "FAIL_RELOAD";
    controlled
        .site
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
    assert_eq!(filters(&controlled.versions().await?), filters(&before));
    controlled.site.holds(&mut visitor, &pod).await
}

/// A route of another `HTTPRoute`, whose rule has the same name.
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
async fn rules_of_the_same_name_are_told_apart_or_reported() -> Result<()> {
    let controlled = ControlledSite::start("namesakes").await?;
    let site = &controlled.site;
    let canary = |path: &'static str, host: &'static str| {
        let request = Request::get(site.gateway.address(), path).header("host", host);
        async move {
            let answer = request.send().await?;
            let backend = answer.backend().unwrap_or_default().to_owned();
            anyhow::Ok((backend.starts_with("shop-canary"), answer.set_cookie(COOKIE).is_some()))
        }
    };
    site.namespace.apply(&namesake("other.example.com")).await?;
    poll::until("the other route, without sessions", async || {
        (canary("/other", "other.example.com").await.ok()? == (true, false)).then_some(())
    })
    .await?;
    let (mut visitor, pod) = site.session().await?;
    site.holds(&mut visitor, &pod).await?;

    // With the same hostname the rules cannot be told apart, so neither has sessions.
    site.namespace.apply(&namesake("shop.example.com")).await?;
    let told = |told: &str| told.starts_with("False/Invalid") && told.contains("expected names that differ");
    controlled.programmed(told).await?;
    let without = async || {
        let mut visitor = site.visitor();
        site.visit(&mut visitor).await.ok()?;
        let other = canary("/other", "shop.example.com").await.ok()?;
        (visitor.cookie_names().is_empty() && other == (true, false)).then_some(())
    };
    poll::until("routes without sessions", without).await?;

    site.namespace.delete("HTTPRoute", "other").await?;
    controlled.until_sessions().await?;
    controlled.programmed(|told| told.starts_with("True/Programmed")).await
}

#[tokio::test]
async fn a_proxy_without_the_key_encryption_key_is_reported() -> Result<()> {
    let controlled = ControlledSite::start("no-key").await?;
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-istio-2", "labels": {"gateway.networking.k8s.io/gateway-name": "web"}},
        "spec": {"containers": [{"name": "istio-proxy", "image": "none"}]},
    });
    controlled.site.namespace.apply_object(&pod).await?;
    // The controller checks again after any change.
    let change = json!({"metadata": {"annotations": {"session.limpet.dev/strict": "true"}}});
    controlled.site.namespace.merge(POLICY, "sticky", &change).await?;
    controlled
        .programmed(|told| told.starts_with("False/") && told.contains("LIMPET_KEK_1") && told.contains("web-istio-2"))
        .await
}

#[tokio::test]
async fn a_proxy_without_the_key_serves_without_sessions() -> Result<()> {
    let mut controlled = ControlledSite::without_sessions("kept-refused").await?;
    controlled.site.restart_envoy_without_key().await?;
    controlled.site.namespace.apply(STICKY).await?;
    controlled.site.until_refused().await?;
    controlled.site.restart_envoy().await?;
    controlled.until_sessions().await?;
    let (mut visitor, pod) = controlled.site.session().await?;
    controlled.site.holds(&mut visitor, &pod).await
}

#[tokio::test]
async fn a_route_of_two_gateways_has_the_same_sessions_at_both() -> Result<()> {
    let controlled = ControlledSite::start("two").await?;
    let site = &controlled.site;
    let second = "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: second}
spec:
  gatewayClassName: istio
  listeners: [{name: http, protocol: HTTP, port: 80}]
";
    site.namespace.apply(second).await?;
    let gateway = Istiod::shared().await?.gateway(&site.namespace, "second", 80).await?;
    let key = &site.key_encryption_key;
    let mut envoy = gateway.envoy(&[(&key.variable, &key.key)]).await?;
    envoy.until_ready().await?;
    let parents = json!({"spec": {"parentRefs": [{"name": "web"}, {"name": "second"}]}});
    site.namespace.merge("HTTPRoute", "shop", &parents).await?;

    let visit = async |visitor: &Visitor| {
        let request = Request::get(gateway.address(), "/").header("host", "shop.example.com");
        visitor.bring(request).send().await
    };
    let begins = async || visit(&site.visitor()).await.ok()?.set_cookie(COOKIE).map(drop);
    poll::until("sessions at the second Gateway", begins).await?;
    let (visitor, pod) = site.session().await?;
    for _ in 0..10 {
        let answer = visit(&visitor).await?;
        assert_eq!(answer.backend(), Some(&*pod));
        ensure!(answer.set_cookie(COOKIE).is_none(), "another token");
    }
    assert_eq!(controlled.ours(PLUGIN).await?.len(), 2);

    // One Gateway's objects are deleted without the other's.
    let parents = json!({"spec": {"parentRefs": [{"name": "web"}]}});
    site.namespace.merge("HTTPRoute", "shop", &parents).await?;
    let one = async || (controlled.ours(PLUGIN).await.ok()?.len() == 1).then_some(());
    poll::until("the second Gateway's objects to be deleted", one).await?;
    site.until_sessions().await
}

/// If this fails, Istio leads requests to `XBackend`s, and they can have sessions.
#[tokio::test]
async fn istio_leads_nothing_to_an_x_backend() -> Result<()> {
    let controlled = ControlledSite::without_sessions("x-backend").await?;
    let site = &controlled.site;
    let backend = json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "shop", "port": null});
    let rules = json!({"spec": {"rules": [{"name": "all", "backendRefs": [backend]}]}});
    site.namespace.merge("HTTPRoute", "shop", &rules).await?;
    let refused = |route: &Value| {
        let conditions = route["status"]["parents"][0]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| condition["type"] == "ResolvedRefs" && condition["reason"] == "InvalidKind")
    };
    site.namespace
        .until("the route to be refused", "HTTPRoute", "shop", refused)
        .await?;
    let fails = async || {
        let request = Request::get(site.gateway.address(), "/").header("host", "shop.example.com");
        (request.send().await.ok()?.status == 500).then_some(())
    };
    poll::until("500", fails).await
}
