//! The controller's debug page in a real browser.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use limpet_e2e::kube::{Cluster, Controller, Namespace, Pod, Release};
use limpet_e2e::{Browser, Request, Visitor, poll, tools};
use serde_json::{Value, json};

/// Any text may name a pod in an `EndpointSlice`, or be an annotation.
const MARKUP: &str = "<script>document.title = 'owned'</script><img src=x onerror=\"document.title = 'owned'\">";

/// A part of it without quotes, which messages escape.
const SCRIPT: &str = "<script>document.title = 'owned'</script>";

const CART: &[(&str, &str)] = &[("app", "cart")];
const SEARCH: &[(&str, &str)] = &[("app", "search")];
/// The nodes in the picture of the site.
const NODES: usize = 18;

/// Collects later violations of the page's policy.
const WATCH: &str = "
    window.violations = [];
    document.addEventListener('securitypolicyviolation', (event) => violations.push(event.violatedDirective));";

struct Page {
    namespace: Namespace,
    controller: Controller,
    browser: Browser,
    pods: Vec<Pod>,
}

impl Page {
    async fn open(prefix: &str) -> Result<Self> {
        let cluster = Cluster::shared(Release::V1_7_0).await?;
        let namespace = cluster.namespace(prefix).await?;
        namespace.gateway_class().await?;
        namespace.apply(&objects(&namespace)).await?;
        namespace.service("cart", CART).await?;
        namespace.service("search", SEARCH).await?;
        let mut pods = Vec::new();
        for (name, labels) in [
            ("cart-a", CART),
            ("cart-b", CART),
            ("cart-c", CART),
            ("search-0", SEARCH),
            ("search-1", SEARCH),
        ] {
            pods.push(namespace.pod(name, labels).await?);
        }
        slice(&namespace, "cart-next", MARKUP).await?;
        let controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
        let browser = Browser::start_at(controller.http().ip()).await?;
        let page = Self {
            namespace,
            controller,
            browser,
            pods,
        };
        page.browser.go(&format!("{}/debug", page.origin())).await?;
        page.until("all nodes", |nodes| nodes.len() == NODES).await?;
        Ok(page)
    }

    fn origin(&self) -> String {
        format!("http://{}", self.controller.http())
    }

    async fn nodes(&self) -> Result<Vec<String>> {
        let nodes = "return [...document.querySelectorAll('svg .node > title')].map((node) => node.textContent)";
        let nodes = self.browser.script(nodes, &[]).await?;
        Ok(serde_json::from_value(nodes)?)
    }

    async fn until(&self, what: &str, check: impl Fn(&[String]) -> bool) -> Result<Vec<String>> {
        let mut last = Vec::new();
        let found = poll::until(what, async || {
            last = self.nodes().await.ok()?;
            check(&last).then(|| last.clone())
        });
        let found = found.await;
        let status = self.text("#status").await;
        found.with_context(|| format!("the page says {status:?} and shows {last:#?}"))
    }

    async fn text(&self, selector: &str) -> Result<String> {
        let text = "return document.querySelector(arguments[0]).textContent";
        let text = self.browser.script(text, &[selector.into()]).await?;
        Ok(text.as_str().context("no text")?.to_owned())
    }

    /// The documentation's picture, without markup.
    async fn take_screenshot(&self) -> Result<()> {
        slice(&self.namespace, "cart-next", "cart-next-a").await?;
        self.namespace.delete("v1/Service", "marked").await?;
        self.until("a name without markup", |nodes| {
            nodes.iter().any(|node| node.starts_with("cart-next-a"))
        })
        .await?;
        poll::until("no marked Service", async || {
            let refused = self.text("#conditions").await.ok()?;
            (!refused.contains("marked")).then_some(())
        })
        .await?;
        let picture = self.browser.screenshot(1320, 720).await?;
        fs::write(tools::checkout().join("docs/reference/debug-page.png"), picture)?;
        Ok(())
    }

    async fn search(&self, query: &str) -> Result<()> {
        let search = "
            const field = document.getElementById('query');
            field.value = arguments[0];
            field.dispatchEvent(new Event('input', {bubbles: true}))";
        self.browser.script(search, &[query.into()]).await.map(drop)
    }
}

/// A Gateway with two served routes, one of them a split, and a refused one.
fn objects(namespace: &Namespace) -> String {
    let class = namespace.name();
    format!(
        "
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: shop}}
spec:
  gatewayClassName: {class}
  listeners:
  - {{name: http, port: 8080, protocol: HTTP, hostname: '*.shop.example'}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: cart}}
spec:
  parentRefs: [{{name: shop}}]
  hostnames: [cart.shop.example]
  rules:
  - name: pay
    matches: [{{path: {{value: /pay}}, method: POST}}]
    sessionPersistence: {{cookie: {{name: cart}}, absoluteTimeout: 8h}}
    backendRefs: [{{name: cart, port: 80, weight: 9}}, {{name: cart-next, port: 80, weight: 1}}]
  - name: look
    sessionPersistence: {{cookie: {{name: cart-look}}}}
    backendRefs: [{{name: cart, port: 80}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: former}}
spec:
  parentRefs: [{{name: shop}}]
  hostnames: [former.shop.example]
  rules: [{{filters: [{{type: ExtensionRef, extensionRef: {{group: a.b, kind: C, name: d}}}}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: search}}
spec:
  parentRefs: [{{name: shop}}]
  hostnames: [www.shop.example]
  rules:
  - name: find
    matches: [{{path: {{value: /find}}}}]
    backendRefs: [{{name: search, port: 80}}]
  - name: suggest
    matches: [{{path: {{value: /suggest}}}}]
    backendRefs: [{{name: suggest, port: 80}}]
---
apiVersion: v1
kind: Service
metadata: {{name: cart-next}}
spec: {{ports: [{{name: http, port: 80}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: marked, annotations: {{session.limpet.dev/same-site: {}}}}}
spec: {{ports: [{{name: http, port: 80}}]}}
",
        json!(MARKUP)
    )
}

/// The only endpoint of a Service without a selector, of a pod of this name.
async fn slice(namespace: &Namespace, service: &str, pod: &str) -> Result<()> {
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": service, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [{
            "addresses": ["10.66.250.4"],
            "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "name": pod, "uid": "a-pod"},
        }],
    });
    namespace.apply_object(&slice).await.map(drop)
}

fn find<'a>(nodes: &'a [String], start: &str) -> Result<&'a str> {
    let found = nodes.iter().find(|node| node.starts_with(start));
    found
        .map(String::as_str)
        .with_context(|| format!("no {start} in {nodes:#?}"))
}

#[tokio::test]
async fn a_browser_draws_the_graph() -> Result<()> {
    let page = Page::open("shop").await?;
    let name = page.namespace.name();
    let nodes = page.nodes().await?;
    let gateway = find(&nodes, &format!("{name}/shop\n"))?;
    assert!(
        gateway.contains("8080 *.shop.example") && gateway.contains("3 routes"),
        "{gateway}"
    );
    assert!(find(&nodes, &format!("{name}/former\n"))?.ends_with("refused"));
    assert_eq!(find(&nodes, "pay\n")?, "pay\nPOST /pay/*\ncookie cart");
    assert!(find(&nodes, "suggest\n")?.ends_with("partly"));
    let weights = "return [...document.querySelectorAll('svg .weight')].map((text) => text.textContent)";
    assert_eq!(page.browser.script(weights, &[]).await?, json!(["90 %", "10 %"]));
    let refused = page.text("#conditions").await?;
    assert!(
        refused.contains("HTTPRoute") && refused.contains("extensionRef is not supported"),
        "{refused}"
    );

    // A chosen node shows its connections and details.
    let choose = "
        const nodes = [...document.querySelectorAll('svg .node')];
        const node = nodes.find((node) => node.querySelector('title').textContent.startsWith(arguments[0]));
        node.dispatchEvent(new MouseEvent('click', {bubbles: true}));
        const near = document.querySelectorAll('svg .node.near > title');
        return [...near].map((title) => title.textContent.split('\\n')[0])";
    let near = page.browser.script(choose, &["suggest".into()]).await?;
    assert_eq!(
        near,
        json!([format!("{name}/shop"), format!("{name}/search"), "suggest"])
    );
    let content: Value = serde_json::from_str(&page.text("#content").await?)?;
    assert!(content["answer"]["status"] == 500, "{content:#}");
    page.browser.click("#close").await
}

#[tokio::test]
async fn pods_are_drawn_with_sessions_and_marks() -> Result<()> {
    let mut page = Page::open("shop").await?;
    let mut envoy = page.controller.envoy("shop", "one").await?;
    envoy.until_ready().await?;
    let mut homes: BTreeMap<String, usize> = page.pods[..3].iter().map(|pod| (pod.name().to_owned(), 0)).collect();
    let address = page.controller.address(8080);
    for _ in 0..30 {
        let answer = poll::until("an answer", async || {
            let visit = Request::get(address, "/").header("host", "cart.shop.example");
            let answer = Visitor::of(address).send(visit).await.ok()?;
            answer.backend().map(str::to_owned)
        });
        *homes.entry(answer.await?).or_default() += 1;
    }
    let node = |pod: &Pod, marks: &str| {
        let count = homes[pod.name()];
        let sessions = if count == 1 { "session" } else { "sessions" };
        format!("{}\n{}, {count} {sessions}{marks}", pod.name(), pod.address())
    };
    let counted: Vec<String> = page.pods[..3].iter().map(|pod| node(pod, "")).collect();
    page.until("the sessions of each pod", |nodes| {
        counted.iter().all(|pod| nodes.contains(pod))
    })
    .await?;
    let service = format!("{}/cart:80\n30 sessions, 3 pods", page.namespace.name());
    assert!(page.nodes().await?.contains(&service));

    page.pods[2].drain().await?;
    let draining = node(&page.pods[2], "\ndraining");
    page.until("a draining pod", |nodes| nodes.contains(&draining)).await?;

    let former = page.pods.pop().context("no pods")?;
    let _heir = page.namespace.pod_at("heir", SEARCH, former.remove().await?).await?;
    page.until("the fence", |nodes| {
        let is_heir = |node: &String| node.starts_with("heir\n") && node.ends_with("\nfenced");
        nodes.iter().any(is_heir)
    })
    .await?;
    if std::env::var_os("UPDATE_SCREENSHOT").is_some() {
        page.take_screenshot().await?;
    }

    let gone = node(&page.pods[2], "\ngone");
    page.pods.remove(2).remove().await?;
    page.until("a pod that is gone, with its sessions", |nodes| nodes.contains(&gone))
        .await
        .map(drop)
}

#[tokio::test]
async fn markup_is_shown_as_text_and_never_runs() -> Result<()> {
    let page = Page::open("markup").await?;
    page.browser.script(WATCH, &[]).await?;
    // Again, while violations are counted.
    page.search("cart").await?;
    let nodes = page
        .until("the search", |nodes| !nodes.iter().any(|node| node.starts_with("find")))
        .await?;
    assert_eq!(find(&nodes, MARKUP)?, format!("{MARKUP}\n10.66.250.4:8080, 0 sessions"));
    page.search("marked").await?;
    poll::until("the marked Service", async || {
        let refused = page.text("#conditions").await.ok()?;
        (refused.contains("Service") && refused.contains(SCRIPT)).then_some(())
    })
    .await?;
    let state = "
        const found = (selector) => document.querySelectorAll(selector).length;
        const loaded = performance.getEntriesByType('resource').map((one) => new URL(one.name).origin);
        return {title: document.title, scripts: found('script'), images: found('img'), violations,
                origins: [...new Set(loaded)]}";
    assert_eq!(
        page.browser.script(state, &[]).await?,
        json!({
            "title": "Limpet: what is published", "scripts": 1, "images": 0, "violations": [],
            "origins": [page.origin()],
        })
    );
    // Even if the page made markup of it, the browser would refuse.
    let inject = "
        try { document.body.innerHTML = arguments[0]; return 'markup'; } catch (error) { return error.name; }";
    assert_eq!(page.browser.script(inject, &[MARKUP.into()]).await?, "TypeError");
    let load = "
        const image = new Image();
        image.src = '/debug/page.css?image';
        await new Promise((done) => { image.onerror = done; });
        return violations";
    let violations = page.browser.script(load, &[]).await?;
    assert!(
        violations.to_string().contains("img-src") || violations.to_string().contains("default-src"),
        "{violations}"
    );
    Ok(())
}

#[tokio::test]
async fn a_search_is_in_the_url_and_tells_what_is_left_out() -> Result<()> {
    let page = Page::open("searched").await?;
    page.pods[2].drain().await?;
    page.search("draining").await?;
    let nodes = page
        .until("the route of the draining pod", |nodes| {
            !nodes.iter().any(|node| node.starts_with("find"))
        })
        .await?;
    find(&nodes, "cart-c")?;
    assert!(page.browser.url().await?.ends_with("/debug?q=draining"));
    page.browser.reload().await?;
    page.until("the same again", |again| *again == *nodes).await?;

    // More routes than are shown.
    let routes: Vec<String> = (0..120)
        .map(|number| {
            format!(
                "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: many-{number}}}
spec:
  parentRefs: [{{name: shop}}]
  rules: [{{matches: [{{path: {{value: /many-{number}}}}}], backendRefs: [{{name: search, port: 80}}]}}]
"
            )
        })
        .collect();
    page.namespace.apply(&routes.join("---")).await?;
    page.search("many").await?;
    poll::until("what is left out", async || {
        let status = page.text("#status").await.ok()?;
        status.contains("left out: 20 routes").then_some(())
    })
    .await?;
    page.search("many-119").await?;
    page.until("the last one", |nodes| {
        nodes.iter().any(|node| node.contains("/many-119\n"))
    })
    .await?;

    // The page says that the controller is away.
    let mut page = page;
    page.controller.end().await?;
    poll::until("an error", async || {
        page.text("#status").await.ok()?.starts_with("Not read").then_some(())
    })
    .await
}
