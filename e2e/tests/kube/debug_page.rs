use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Release};
use limpet_e2e::leaks::Leaks;
use limpet_e2e::{Keyring, poll};
use serde_json::{Value, json};

use crate::certificates::Authority;
use crate::keyring::KeyringSite;
use crate::sessions::pods;

const CART: &[(&str, &str)] = &[("app", "cart")];

/// A Gateway with HTTP and HTTPS; a route with sessions, one to a missing Service, and one that is refused.
fn objects(namespace: &Namespace) -> String {
    let class = namespace.name();
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  gatewayClassName: {class}
  listeners:
  - {{name: http, port: 8080, protocol: HTTP}}
  - {{name: https, port: 8443, protocol: HTTPS, tls: {{certificateRefs: [{{name: certificate}}]}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: cart}}
spec:
  parentRefs: [{{name: web, sectionName: http}}]
  hostnames: [cart.example]
  rules:
  - matches: [{{path: {{value: /cart}}, headers: [{{name: x-tenant, value: header-s3cret}}]}}]
    filters:
    - type: RequestHeaderModifier
      requestHeaderModifier: {{set: [{{name: authorization, value: Basic s3cret}}]}}
    sessionPersistence: {{cookie: {{name: cart}}}}
    backendRefs: [{{name: cart, port: 80}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: nowhere}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: [nowhere.example]
  rules: [{{backendRefs: [{{name: missing, port: 80}}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: refused}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: [refused.example]
  rules: [{{filters: [{{type: ExtensionRef, extensionRef: {{group: a.b, kind: C, name: d}}}}]}}]
"
    )
}

/// Returns the key of the Gateway's certificate in base64.
async fn certificate(namespace: &Namespace) -> Result<String> {
    let certificate = Authority::new("authority")?.sign("cart.example")?;
    namespace.apply_object(&certificate.secret("certificate")).await?;
    namespace.bind("limpet-certificates").await?;
    let body: String = certificate.key.lines().filter(|line| !line.starts_with('-')).collect();
    Ok(body)
}

async fn graph(controller: &Controller, query: &str) -> Result<Value> {
    let answer = controller.page(&format!("/debug/graph.json{query}")).await?;
    serde_json::from_slice(&answer.body).with_context(|| format!("status {}", answer.status))
}

fn find<'a>(list: &'a Value, name: &str) -> Option<&'a Value> {
    list.as_array()?.iter().find(|one| one["name"] == name)
}

#[tokio::test]
async fn the_graph_is_shown_as_it_is_in_the_cluster() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("debug-page").await?;
    namespace.gateway_class().await?;
    namespace.service("cart", CART).await?;
    let pods: Vec<Pod> = vec![namespace.pod("a", CART).await?, namespace.pod("b", CART).await?];
    namespace.apply(&objects(&namespace)).await?;
    let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let key = certificate(&namespace).await?;
    let mut envoy = controller.envoy("web", "one").await?;
    envoy.until_ready().await?;

    let name = namespace.name();
    let shown = poll::until("all of it", async || {
        let shown = graph(&controller, "").await.ok()?;
        let gateway = &shown["gateways"][0];
        let is_complete = gateway["envoys"] == 1
            && gateway["listeners"].as_array()?.len() == 2
            && shown["services"][0]["pods"].as_array()?.len() == 2;
        is_complete.then_some(shown)
    })
    .await?;
    assert_eq!(shown["gateways"][0]["id"], format!("{name}/web"));
    let cart = find(&shown["routes"], "cart").context("no route")?;
    assert_eq!(cart["gateways"], json!([format!("{name}/web")]));
    assert_eq!(cart["hostnames"], json!(["cart.example"]));
    let rule = &cart["rules"][0];
    assert_eq!(rule["matches"][0]["headers"], json!(["x-tenant"]));
    assert_eq!(rule["session"]["name"], "cart");
    assert_eq!(rule["destinations"][0]["service"], format!("{name}/cart:80"));
    let shown_pods = &shown["services"][0]["pods"];
    for pod in &pods {
        let shown = find(shown_pods, pod.name()).context("no pod")?;
        assert_eq!(
            (&shown["address"], &shown["state"]),
            (&json!(pod.address()), &json!("ready"))
        );
    }
    let refused = find(&shown["refused"], "refused").context("no refused route")?;
    assert_eq!(
        (&refused["verdict"], &refused["conditions"][0]["reason"]),
        (&json!("refused"), &json!("UnsupportedValue"))
    );
    let route = namespace.get("HTTPRoute", "refused").await?;
    assert_eq!(
        refused["conditions"][0]["message"],
        route["status"]["parents"][0]["conditions"][0]["message"]
    );
    let nowhere = find(&shown["routes"], "nowhere").context("no other route")?;
    assert_eq!(nowhere["verdict"], "partly");
    let answer = &nowhere["rules"][0]["answer"];
    assert_eq!(answer["status"], 500);
    assert!(
        answer["text"].as_str().is_some_and(|text| text.contains("backendRefs")),
        "{nowhere:#}"
    );

    pods[0].drain().await?;
    let drains = format!("?q={}%20draining", pods[0].name());
    poll::until("a draining pod", async || {
        let shown = graph(&controller, &drains).await.ok()?;
        let pod = find(&shown["services"][0]["pods"], pods[0].name())?;
        (pod["state"] == "draining").then_some(())
    })
    .await?;
    assert_eq!(graph(&controller, "?q=nobody").await?["routes"], json!([]));

    let all = graph(&controller, "").await?.to_string();
    secrets(&controller, &key)?.none_in("graph.json", &all)?;
    assert!(!all.contains("s3cret"), "{all}");
    Ok(())
}

#[tokio::test]
async fn pods_are_shown_with_their_sessions() -> Result<()> {
    let site = KeyringSite::start_with("debug-sessions", "1m", "1h").await?;
    for _ in 0..20 {
        site.session().await?;
    }
    poll::until("the sessions of pods", async || {
        let shown = graph(&site.controller, "").await.ok()?;
        let service = &shown["services"][0];
        let told = pods(&site.controller).await.ok()?;
        let mut sum = 0;
        for (name, told) in &told {
            let shown = &find(&service["pods"], name)?["sessions"];
            let is_same = ["sessions", "streams", "requests", "lastUse", "oldest"]
                .iter()
                .all(|field| shown[field] == told[field]);
            sum += is_same.then(|| shown["sessions"].as_u64())??;
        }
        (told.len() == 2 && sum >= 20 && service["sessions"] == sum).then_some(())
    })
    .await
}

fn secrets(controller: &Controller, certificate: &str) -> Result<Leaks> {
    let mut leaks = Leaks::default()
        .key("the certificate's key", certificate)?
        .key("the certificate's key in a Secret", &STANDARD.encode(certificate))?
        .key("the key-encryption key", &controller.key_encryption_key().key)?;
    for key in Keyring::secrets(controller.keyring())? {
        leaks = leaks.key("a key of tokens", &key)?;
    }
    Ok(leaks)
}

#[tokio::test]
async fn the_debug_page_has_a_policy_and_a_switch() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("debug-switch").await?;
    namespace.gateway_class().await?;
    let mut controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    for path in ["/debug", "/debug/page.js", "/debug/page.css", "/debug/graph.json"] {
        let answer = controller.page(path).await?;
        assert_eq!(answer.status, 200, "{path}");
        let header = |name: &str| answer.header(name).unwrap_or_default().to_owned();
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none';"), "{path}: {policy}");
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(header("x-content-type-options"), "nosniff", "{path}");
    }
    assert_eq!(controller.page("/debug/").await?.header("location"), Some("../debug"));

    controller.end().await?;
    controller.reconfigure(|config| config["http"]["debugPage"] = json!(false));
    controller.launch()?;
    controller.until_ready().await?;
    for path in ["/debug", "/debug/page.js", "/debug/graph.json"] {
        assert_eq!(controller.page(path).await?.status, 404, "{path}");
    }
    assert_eq!(controller.page("/metrics").await?.status, 200);
    Ok(())
}
