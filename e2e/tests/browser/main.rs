//! Sessions as a real browser keeps and loses them, on real Envoy with TLS: docs/background/modes.md.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

mod ends;
mod frames;
mod kinds;
mod same_site;
mod scripts;
mod streams;

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, Result};
use limpet_e2e::protocols::Chat;
use limpet_e2e::{Answering, Browser, Config, Site};
use serde_json::{Value, json};

/// The site with the session.
const SHOP: &str = "https://shop.example";
/// A host of the same site, without a session.
const SIBLING: &str = "https://www.shop.example";
/// Other sites, without a session.
const OTHER: &str = "https://other.example";
const THIRD: &str = "https://third.example";

const COOKIE: &str = "limpet-session";

/// For the browser, the site is `https://shop.example`.
struct Shop {
    site: Site,
    browser: Browser,
}

impl Shop {
    async fn open(policy: &Value) -> Result<Self> {
        Self::open_for(policy, &json!({})).await
    }

    async fn open_for(policy: &Value, preferences: &Value) -> Result<Self> {
        let site = Site::start_speaking(config(policy)?, &[Arc::new(Chat)]).await?;
        let browser = Browser::start_with(site.envoy.address(), preferences).await?;
        Ok(Self { site, browser })
    }

    async fn visit(&self, path: &str) -> Result<Value> {
        self.browser.go(&format!("{SHOP}{path}")).await?;
        self.browser.page().await
    }

    /// What a script of the present page gets: `seen` by the backend, and the answer's `headers`.
    async fn fetch(&self, url: &str, options: &Value) -> Result<Value> {
        let fetch = "
            const answer = await fetch(arguments[0], arguments[1]);
            return {seen: await answer.json(), headers: Object.fromEntries(answer.headers)}";
        self.browser.script(fetch, &[url.into(), options.clone()]).await
    }

    async fn fetched_from(&self, url: &str, options: &Value) -> Result<BTreeSet<String>> {
        let mut backends = BTreeSet::new();
        for _ in 0..8 {
            backends.insert(name(&self.fetch(url, options).await?["seen"])?);
        }
        Ok(backends)
    }

    async fn visited_at(&self, path: &str) -> Result<BTreeSet<String>> {
        let mut backends = BTreeSet::new();
        for _ in 0..6 {
            backends.insert(name(&self.visit(path).await?)?);
        }
        Ok(backends)
    }

    /// The next answer of each backend sets the application's cookie `basket`.
    fn set_basket(&self) {
        for backend in &self.site.backends {
            backend.answer_next(Answering::ok().header("set-cookie", "basket=seven; Path=/; Secure; HttpOnly"));
        }
    }

    /// The token in the browser's cookie for the present page.
    async fn token(&self) -> Result<Option<String>> {
        let cookies = self.browser.cookies().await?;
        Ok(cookies
            .into_iter()
            .find(|(name, _)| name == COOKIE)
            .map(|(_, value)| value))
    }
}

/// As a preference. Debian's Chromium blocks them by default.
fn third_parties(blocked: bool) -> Value {
    json!({"profile.cookie_controls_mode": u8::from(blocked)})
}

fn name(seen: &Value) -> Result<String> {
    let name = seen["backend"].as_str();
    Ok(name
        .with_context(|| format!("no answer of a backend: {seen}"))?
        .to_owned())
}

fn one(name: &str) -> BTreeSet<String> {
    BTreeSet::from([name.to_owned()])
}

fn cookies(seen: &Value) -> Option<&str> {
    let headers = seen["headers"].as_array()?;
    let cookie = headers.iter().find(|pair| pair[0] == "cookie")?;
    cookie[1].as_str()
}

/// `streams.yaml` with TLS and HTTP/2, this policy for the shop but not for its `/empty`, and other sites. One worker
/// takes turns among backends.
fn config(policy: &Value) -> Result<Config> {
    let filter = json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"web": policy},
        "routes": [{"route": "web", "policy": "web"}],
    });
    let tls = tls()?;
    let config = Config::load("streams.yaml")?.workers(1).filter(&filter);
    let config = config.edit(|bootstrap| {
        bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["transport_socket"] = tls;
    });
    Ok(config.route_configuration(|routes| {
        let shop = routes["virtual_hosts"][0]["routes"][0].clone();
        // A browser asks for the icon at any time.
        routes["virtual_hosts"][0]["routes"] = json!([page("/favicon.ico"), page("/empty"), shop]);
        if let Some(hosts) = routes["virtual_hosts"].as_array_mut() {
            hosts.push(other_sites());
        }
    }))
}

/// An empty page, and redirects from `/redirect/…` to the shop's `/way/…`.
fn other_sites() -> Value {
    json!({
        "name": "others",
        "domains": ["www.shop.example", "other.example", "third.example"],
        "routes": [
            {
                "match": {"prefix": "/redirect/"},
                "redirect": {"host_redirect": "shop.example", "prefix_rewrite": "/way/", "response_code": "FOUND"},
            },
            page("/"),
        ],
    })
}

fn page(prefix: &str) -> Value {
    json!({
        "match": {"prefix": prefix},
        "direct_response": {"status": 200, "body": {"inline_string": "<!doctype html><title>A page</title><body>"}},
        "response_headers_to_add": [{"header": {"key": "content-type", "value": "text/html"}}],
    })
}

fn tls() -> Result<Value> {
    let made = rcgen::generate_simple_self_signed(["*.example".to_owned()])?;
    Ok(json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "common_tls_context": {
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_certificates": [{
                    "certificate_chain": {"inline_string": made.cert.pem()},
                    "private_key": {"inline_string": made.signing_key.serialize_pem()},
                }],
            },
        },
    }))
}
