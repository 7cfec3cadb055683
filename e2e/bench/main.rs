//! What the filter costs: CPU time per request of a whole Envoy, with different filters in it.
//!
//! Every Envoy has one worker and the same three backends. The variants take turns in short slices, in an order that
//! changes with every round, so that whatever else the machine does meets all of them; a round compares each variant
//! with its own measurement of no filter at all. What is printed are medians over the rounds, and ratios within the run:
//! absolute figures of different machines or days say nothing.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use limpet_e2e::{Config, Envoy, tools};
use serde_json::{Value, json};

const ROUNDS: usize = 25;
const REQUESTS: u32 = 4000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let (rounds, requests) = match std::env::args().nth(1).as_deref() {
        // Shows that the benchmark works; its figures mean little.
        Some("--brief") => (5, 500),
        _ => (ROUNDS, REQUESTS),
    };
    Command::new("h2load")
        .arg("--version")
        .output()
        .context("expected h2load (Debian: apt-get install nghttp2-client)")?;
    let backends = backends().await?;
    let mut runs = Vec::new();
    for (name, config) in variants(&backends)? {
        runs.push(Run::start(name, config).await?);
    }
    let count = runs.len();
    // The first round warms up: connections, caches, V8's optimised code.
    for round in 0..=rounds {
        for turn in 0..count {
            let at = if round % 2 == 0 {
                round + turn
            } else {
                round + count - turn
            };
            let Some(run) = runs.get_mut(at % count) else { continue };
            let spent = run.slice(requests)?;
            if round > 0 {
                run.spent.push(spent);
            }
        }
        eprint!("\rround {round} of {rounds} ");
    }
    eprintln!();
    report(&runs)
}

/// One Envoy under load.
struct Run {
    name: &'static str,
    envoy: Envoy,
    cookie: String,
    /// Microseconds of CPU per request, a value a round.
    spent: Vec<f64>,
}

impl Run {
    async fn start(name: &'static str, config: Config) -> Result<Self> {
        let envoy = Envoy::start(config.workers(1)).await.with_context(|| name.to_owned())?;
        let first = envoy.get("/").send().await?;
        let cookie = match first.set_cookie("session") {
            Some(cookie) => format!("session={}", cookie.value),
            // Without a filter that sets one: as many bytes, so that all variants parse the same request.
            None => format!("session={}", "x".repeat(60)),
        };
        Ok(Self {
            name,
            envoy,
            cookie,
            spent: Vec::new(),
        })
    }

    /// Sends `requests`, and returns the microseconds of CPU that Envoy spent on each.
    fn slice(&self, requests: u32) -> Result<f64> {
        let before = cpu_time(self.envoy.pid())?;
        let output = Command::new("h2load")
            .args(["--h1", "-t1", "-c8", "-n", &requests.to_string()])
            .args(["-H", &format!("cookie: {}", self.cookie)])
            .arg(format!("http://{}/", self.envoy.address()))
            .output()?;
        let spent = cpu_time(self.envoy.pid())?.saturating_sub(before);
        let text = String::from_utf8_lossy(&output.stdout);
        if !text.contains(&format!("{requests} 2xx")) {
            bail!("{}: expected {requests} answers 2xx, h2load says:\n{text}", self.name);
        }
        Ok(spent.as_secs_f64() * 1e6 / f64::from(requests))
    }
}

/// The CPU time of all threads of a process, from the scheduler's own account in nanoseconds.
fn cpu_time(pid: u32) -> Result<Duration> {
    let mut nanos = 0;
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let file = task?.path().join("schedstat");
        let text = std::fs::read_to_string(&file).with_context(|| format!("expected {} (Linux)", file.display()))?;
        let on_cpu = text.split_whitespace().next().unwrap_or_default();
        nanos += on_cpu.parse::<u64>()?;
    }
    Ok(Duration::from_nanos(nanos))
}

/// An Envoy whose three listeners answer themselves: faster than what is measured.
async fn backends() -> Result<Envoy> {
    let mut config = without_filters()?.workers(1).routes(json!([{
        "match": {"prefix": "/"},
        "direct_response": {"status": 200, "body": {"inline_string": "x".repeat(100)}},
    }]));
    for name in ["second", "third"] {
        config = config.another_listener(name, &json!({}));
    }
    Envoy::start(config).await
}

fn variants(backends: &Envoy) -> Result<Vec<(&'static str, Config)>> {
    let filters = |filters: Value| -> Result<Config> { Ok(without_filters()?.prepend_filters(&filters)) };
    let cookie_session = json!([{
        "name": "native",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSession",
            "session_state": {
                "name": "envoy.http.stateful_session.cookie",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.http.stateful_session.cookie.v3.CookieBasedSessionState",
                    "cookie": {"name": "session", "path": "/"},
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
    let mut variants = Vec::new();
    for (name, config) in [
        (NO_FILTER, without_filters()?),
        ("native stateful_session, cookie", filters(cookie_session)?),
        (EMPTY, filters(empty)?),
        ("limpet wasm, default policy", Config::load("cookie.yaml")?),
        (
            "limpet wasm, policy by route metadata",
            Config::load("cookie.yaml")?.route(&metadata),
        ),
        ("limpet module, default policy", module()?),
        ("limpet module, policy by route metadata", module()?.route(&metadata)),
    ] {
        variants.push((name, config.backend_addresses(&backends.addresses())));
    }
    Ok(variants)
}

const NO_FILTER: &str = "no filter";
const EMPTY: &str = "empty wasm filter of the SDK";

/// `cookie.yaml` with the router alone.
fn without_filters() -> Result<Config> {
    Ok(Config::load("cookie.yaml")?.connection_manager(&json!({
        "early_header_mutation_extensions": null,
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }],
        "route_config": {"request_headers_to_remove": null},
    })))
}

fn module() -> Result<Config> {
    let dist = tools::checkout().join("dist");
    Ok(Config::load("module.yaml")?.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", &dist.to_string_lossy()))
}

fn empty_filter() -> Result<PathBuf> {
    let file = tools::checkout().join("dist/bench-noop.wasm");
    if !file.exists() {
        bail!("expected {}: `make bench` builds it", file.display());
    }
    Ok(file)
}

fn report(runs: &[Run]) -> Result<()> {
    let baseline = &runs.first().context("no variants")?.spent;
    let added: BTreeMap<_, _> = runs
        .iter()
        .map(|run| {
            let added = run.spent.iter().zip(baseline).map(|(spent, base)| spent - base);
            (run.name, added.collect::<Vec<_>>())
        })
        .collect();
    let of = |name: &str| added.get(name).map(|added| quartiles(added)).unwrap_or_default();
    let [_, empty, _] = of(EMPTY);
    println!(
        "CPU of the whole proxy per request, over no filter in the same round; medians of {} rounds\n",
        baseline.len()
    );
    println!(
        "{:40} {:>10} {:>20} {:>22}",
        "", "added us", "quartiles", "times the empty filter"
    );
    for run in runs.iter().filter(|run| run.name != NO_FILTER) {
        let [low, median, high] = of(run.name);
        println!(
            "{:40} {median:10.2} {:>20} {:22.2}",
            run.name,
            format!("{low:.1} to {high:.1}"),
            median / empty
        );
    }
    println!("\nno filter: {:.1} us", quartiles(baseline)[1]);
    Ok(())
}

/// Lower quartile, median and upper quartile.
fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| {
        let at = (sorted.len().saturating_sub(1)) * quarter / 4;
        sorted.get(at).copied().unwrap_or(f64::NAN)
    })
}
