//! The measured proxies.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use limpet_e2e::haproxy::Haproxy;
use limpet_e2e::{Config, Envoy, tools};
use serde_json::{Value, json};

use crate::comparison::{Kind, Proxy};
use crate::{cookie_policy, counting, module, module_in, module_with, wasm, without_filters};

pub(crate) const NO_FILTER: &str = "Envoy without filters";
pub(crate) const EMPTY: &str = "Envoy, empty wasm filter of the SDK";
pub(crate) const NATIVE: &str = "Envoy, its own cookie filter";
pub(crate) const HAPROXY: &str = "HAProxy, cookie insert dynamic";
/// Variants with and without counting sessions, by build.
pub(crate) const COUNTING: [[&str; 2]; 2] = [
    ["Limpet wasm, cookie", "Limpet wasm, cookie, counting sessions"],
    ["Limpet module, cookie", "Limpet module, cookie, counting sessions"],
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    All,
    Counting,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Variant {
    pub(crate) name: &'static str,
    sessions: Sessions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sessions {
    None,
    Tokens,
    /// Without a token to lack or refuse; all clients have one address here.
    ByAddress,
}

impl Variant {
    pub(crate) fn has_session(&self) -> bool {
        self.sessions == Sessions::Tokens
    }

    pub(crate) fn has(&self, kind: Kind) -> bool {
        kind == Kind::Steady || self.has_session()
    }
}

pub(crate) async fn start(backends: &Envoy, choice: Choice) -> Result<Vec<(Variant, Proxy)>> {
    let mut started = Vec::new();
    let is_one =
        |name| choice == Choice::All || [NO_FILTER, EMPTY, NATIVE].contains(&name) || COUNTING.concat().contains(&name);
    let envoys = envoys(backends)?;
    for (name, sessions, config) in envoys.into_iter().filter(|(name, ..)| is_one(name)) {
        let envoy = Envoy::start(config.workers(1)).await.with_context(|| name.to_owned())?;
        started.push((Variant { name, sessions }, Proxy::Envoy(Box::new(envoy))));
    }
    if is_one(HAPROXY) {
        let variant = Variant {
            name: HAPROXY,
            sessions: Sessions::Tokens,
        };
        started.insert(0, (variant, Proxy::Haproxy(haproxy(backends).await?)));
    }
    Ok(started)
}

async fn haproxy(backends: &Envoy) -> Result<Haproxy> {
    let servers = backends.addresses().into_iter().enumerate();
    let servers: Vec<_> = servers.map(|(number, at)| format!("  server s{number} {at}")).collect();
    let lines = "  cookie limpet-session insert dynamic\n  dynamic-cookie-key bench";
    Haproxy::start(&format!(
        "  default_backend web\nbackend web\n  balance roundrobin\n  http-reuse always\n{lines}\n{}\n\
        global\n  nbthread 1",
        servers.join("\n")
    ))
    .await
}

type Measured = (&'static str, Sessions, Config);

fn envoys(backends: &Envoy) -> Result<Vec<Measured>> {
    let filters = |filters: Value| -> Result<Config> { Ok(without_filters()?.prepend_filters(&filters)) };
    let cookie_session = json!([{
        "name": "native",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
            "session_state": {
                "name": "envoy.http.stateful_session.cookie",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3.\
                    CookieBasedSessionState",
                    "cookie": {"name": "limpet-session", "path": "/"},
                },
            },
        },
    }]);
    let empty = json!([{
        "name": "empty",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "config": {"name": "empty", "vm_config": {
                "runtime": "envoy.wasm.runtime.v8",
                "code": {"local": {"filename": empty_filter()?}},
            }},
        },
    }]);
    let metadata = json!({"metadata": {"filter_metadata": {"limpet": {"session": "web/HTTPRoute/shop/web/all"}}}});
    let cookie = cookie_policy();
    let also = json!({
        "cookie": {"name": "limpet-session"},
        "also": [{"header": {"name": "x-session"}}, {"query": {"name": "session"}}],
    });
    let query = json!({"query": {"name": "session"}, "tell": {"header": {"name": "x-session"}}});
    let source = json!({"source": {}});
    let mut variants = former()?;
    variants.extend([
        (NO_FILTER, Sessions::None, without_filters()?),
        (NATIVE, Sessions::Tokens, filters(cookie_session)?),
        (EMPTY, Sessions::None, filters(empty)?),
        ("Limpet wasm, cookie", Sessions::Tokens, wasm(&cookie)?),
        (
            "Limpet wasm, cookie, policy by route metadata",
            Sessions::Tokens,
            wasm(&cookie)?.route(&metadata),
        ),
        (
            "Limpet wasm, cookie, also a header and a query",
            Sessions::Tokens,
            wasm(&also)?,
        ),
        (
            "Limpet wasm, cookie, counting sessions",
            Sessions::Tokens,
            wasm(&cookie)?.filter(&counting(&cookie)),
        ),
        ("Limpet wasm, query", Sessions::Tokens, wasm(&query)?),
        ("Limpet wasm, session by address", Sessions::ByAddress, wasm(&source)?),
        ("Limpet module, cookie", Sessions::Tokens, module(&cookie)?),
        (
            "Limpet module, cookie, policy by route metadata",
            Sessions::Tokens,
            module(&cookie)?.route(&metadata),
        ),
        (
            "Limpet module, cookie, also a header and a query",
            Sessions::Tokens,
            module(&also)?,
        ),
        (
            "Limpet module, cookie, counting sessions",
            Sessions::Tokens,
            module_with(&tools::checkout().join("dist"), &counting(&cookie))?,
        ),
        ("Limpet module, query", Sessions::Tokens, module(&query)?),
        (
            "Limpet module, session by address",
            Sessions::ByAddress,
            module(&source)?,
        ),
    ]);
    let variants = variants.into_iter();
    let all = variants.map(|(name, sessions, config)| {
        let config = config.backend_addresses(&backends.addresses());
        (name, sessions, config)
    });
    Ok(all.collect())
}

/// Both builds of another commit (`FORMER`: its `dist`).
fn former() -> Result<Vec<Measured>> {
    let Some(dist) = std::env::var("FORMER").ok().filter(|dist| !dist.is_empty()) else {
        return Ok(Vec::new());
    };
    let dist = std::fs::canonicalize(&dist).with_context(|| format!("FORMER={dist}"))?;
    let wasm = Config::load("cookie.yaml")?.edit(|bootstrap| {
        let filters =
            bootstrap.pointer_mut("/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters");
        for filter in filters.and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(file) = filter.pointer_mut("/typed_config/config/vm_config/code/local/filename") {
                *file = dist.join("limpet.wasm").to_string_lossy().into();
            }
        }
    });
    Ok(vec![
        ("former Limpet wasm, cookie", Sessions::Tokens, wasm),
        (
            "former Limpet module, cookie",
            Sessions::Tokens,
            module_in(&dist, &cookie_policy())?,
        ),
    ])
}

fn empty_filter() -> Result<PathBuf> {
    let file = tools::checkout().join("dist/bench-noop.wasm");
    if !file.exists() {
        bail!("expected {}: `make bench` builds it", file.display());
    }
    Ok(file)
}
