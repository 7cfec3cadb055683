//! The claims of docs/background/comparison.md, tested with Envoy's own cookie session, HAProxy's `cookie ... insert`,
//! and Limpet: a module for each row, with a test for each product in it.

mod absolute_timeout;
mod applications_cookie;
mod applications_header;
mod begun_by_posts;
mod bound_to_its_rule;
mod ended_by_the_application;
mod forged_by_anybody;
mod header_carrier;
mod idle_timeout;
mod key_rotation;
mod moved_by_the_application;
mod only_in_haproxy;
mod query_carrier;
mod readable;
mod redispatch;
mod removed_before_the_backend;
mod replaced_backend;
mod rewritten_cookie;
mod source_address;
mod strict;
mod timeouts_rewritten;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use base64::prelude::{BASE64_STANDARD, Engine};
use limpet_e2e::haproxy::Haproxy;
use limpet_e2e::{Answer, Backend, Config, Envoy, Request, SetCookie};
use serde_json::{Value, json};

const COOKIE: &str = "limpet-session";

/// Envoy's own cookie session, without Limpet.
async fn native(backends: &[Backend]) -> Result<Envoy> {
    Envoy::serve(native_config(&json!({}), &json!({}))?.backends(backends)).await
}

/// Merges `filter` into the session filter and `cookie` into its cookie.
fn native_config(filter: &Value, cookie: &Value) -> Result<Config> {
    let mut config = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
        "session_state": native_cookie(COOKIE),
    });
    add(&mut config, filter);
    add(&mut config["session_state"]["typed_config"]["cookie"], cookie);
    native_filter(&config)
}

fn native_cookie(name: &str) -> Value {
    json!({
        "name": "envoy.http.stateful_session.cookie",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState",
            "cookie": {"name": name, "path": "/"},
        },
    })
}

fn native_filter(config: &Value) -> Result<Config> {
    Ok(Config::load("cookie.yaml")?.connection_manager(&json!({
        "early_header_mutation_extensions": null,
        "http_filters": [
            {"name": "envoy.filters.http.stateful_session", "typed_config": config},
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
            },
        ],
        "route_config": {"request_headers_to_remove": null},
    })))
}

fn add(object: &mut Value, more: &Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        object[name] = value.clone();
    }
}

/// A `backend` section with these lines. Servers and cookie values have the names of the backends.
async fn haproxy(lines: &str, backends: &[Backend]) -> Result<Haproxy> {
    Haproxy::start(&section(lines, &servers(backends, |name| format!("cookie {name}")))).await
}

async fn haproxy_with_key(key: &str, backends: &[Backend]) -> Result<Haproxy> {
    let lines = format!("cookie limpet-session insert indirect dynamic\ndynamic-cookie-key {key}");
    Haproxy::start(&section(&lines, &servers(backends, |_| String::new()))).await
}

fn section(lines: &str, servers: &str) -> String {
    format!("default_backend web\nbackend web\n{lines}\n{servers}")
}

/// The `server` lines, with `options` for each name.
fn servers(backends: &[Backend], options: impl Fn(&str) -> String) -> String {
    let server = |backend: &Backend| {
        let name = backend.name();
        format!("server {name} {} {}\n", backend.address(), options(name))
    };
    backends.iter().map(server).collect()
}

async fn limpet(policy: &Value, backends: &[Backend]) -> Result<Envoy> {
    let mut changed = json!({"cookie": {"name": COOKIE}});
    add(&mut changed, policy);
    Envoy::serve(Config::load("cookie.yaml")?.policy(&changed).backends(backends)).await
}

#[derive(Debug)]
struct Session {
    at: SocketAddr,
    backend: String,
    cookie: SetCookie,
    since: Instant,
}

impl Session {
    async fn begin(at: SocketAddr) -> Result<Self> {
        Self::begin_on(at, "/").await
    }

    async fn begin_on(at: SocketAddr, path: &str) -> Result<Self> {
        let answer = Request::get(at, path).send().await?;
        Ok(Self {
            at,
            backend: answer.backend().context("no backend answered")?.to_owned(),
            cookie: answer.set_cookies().into_iter().next().context("no cookie was set")?,
            since: Instant::now(),
        })
    }

    async fn send(&self) -> Result<Answer> {
        Request::get(self.at, "/").cookie(self.cookie.pair()).send().await
    }

    async fn holds_with(&self, pair: &str) -> Result<bool> {
        Ok(reached(self.at, pair).await? == one(&self.backend))
    }

    async fn holds(&self) -> Result<bool> {
        self.holds_with(&self.cookie.pair()).await
    }

    /// Sends the first cookie until it is refused. Returns how long that took.
    async fn until_it_ends(&self) -> Result<Duration> {
        while self.holds().await? {
            if self.since.elapsed() > Duration::from_secs(15) {
                bail!("the session does not end");
            }
            pass(0.2).await;
        }
        Ok(self.since.elapsed())
    }
}

/// The backends that six requests reach: without a session several, because all products take turns.
async fn reached(at: SocketAddr, pair: &str) -> Result<BTreeSet<String>> {
    let mut backends = BTreeSet::new();
    for _ in 0..6 {
        let answer = Request::get(at, "/").cookie(pair).send().await?;
        backends.insert(answer.backend().unwrap_or("none").to_owned());
    }
    Ok(backends)
}

async fn stop(backends: &mut [Backend; 3], session: &Session) -> Result<()> {
    let backend = backends.iter_mut().find(|backend| backend.name() == session.backend);
    backend.context("another test's backend answered")?.stop().await;
    Ok(())
}

fn one(name: &str) -> BTreeSet<String> {
    BTreeSet::from([name.to_owned()])
}

async fn pass(seconds: f64) {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
}

/// A cookie of Envoy's own session without its optional parts, which needs only an address.
fn native_forgery(address: &str) -> String {
    format!("{COOKIE}={}", BASE64_STANDARD.encode(address))
}

fn native_bytes(cookie: &SetCookie) -> Result<Vec<u8>> {
    Ok(BASE64_STANDARD.decode(cookie.value.trim_matches('"'))?)
}

#[test]
fn the_page_and_modules_have_the_same_rows() {
    let modules: BTreeSet<_> = include_str!("mod.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
        .collect();
    let explained: BTreeSet<_> = include_str!("../../../../design/comparison.md")
        .lines()
        .filter_map(|line| line.strip_prefix("### ")?.split_once(": `")?.1.strip_suffix('`'))
        .collect();
    assert_eq!(modules, explained);
}
