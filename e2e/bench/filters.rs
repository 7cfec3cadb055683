//! The same request many times, with different filters in an Envoy.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use limpet_e2e::{Config, Envoy, tools};
use serde_json::{Value, json};

use crate::load::Load;
use crate::measure::{Effort, Run, quartiles};
use crate::{cookie_policy, counting, module, module_in, module_with, next_request, wasm, without_filters};

const NO_FILTER: &str = "no filter";
const EMPTY: &str = "empty wasm filter of the SDK";
/// What counting sessions is compared with, by build.
const COUNTING: [[&str; 2]; 2] = [
    ["limpet wasm, default policy", "limpet wasm, counting sessions"],
    ["limpet module, default policy", "limpet module, counting sessions"],
];

/// Which variants are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    /// With and without counting sessions.
    Counting,
}

/// Measures variants, and prints what each adds.
pub(crate) async fn run(backends: &Envoy, effort: Effort, which: Which) -> Result<()> {
    let mut envoys = Vec::new();
    let is_one = |name| which == Which::All || [NO_FILTER, EMPTY].contains(&name) || COUNTING.concat().contains(&name);
    for (name, config) in variants(backends)?.into_iter().filter(|(name, _)| is_one(name)) {
        let envoy = Envoy::start(config.workers(1)).await.with_context(|| name.to_owned())?;
        envoys.push((name, envoy));
    }
    let mut runs = Vec::new();
    for (name, envoy) in &envoys {
        let request = next_request(envoy, "bench.example".to_owned(), "/".to_owned()).await?;
        let load = Load::new(envoy.address(), &[request]);
        runs.push(Run::new(*name, envoy, load));
    }
    effort.measure(&mut runs).await?;
    report(&runs)
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
        (NO_FILTER, without_filters()?),
        ("native stateful_session, cookie", filters(cookie_session)?),
        (EMPTY, filters(empty)?),
        ("limpet wasm, default policy", wasm(&cookie)?),
        ("limpet wasm, policy by route metadata", wasm(&cookie)?.route(&metadata)),
        ("limpet wasm, cookie, also two others", wasm(&also)?),
        (
            "limpet wasm, counting sessions",
            wasm(&cookie)?.filter(&counting(&cookie)),
        ),
        ("limpet wasm, query", wasm(&query)?),
        ("limpet wasm, source", wasm(&source)?),
        ("limpet module, default policy", module(&cookie)?),
        (
            "limpet module, policy by route metadata",
            module(&cookie)?.route(&metadata),
        ),
        ("limpet module, cookie, also two others", module(&also)?),
        (
            "limpet module, counting sessions",
            module_with(&tools::checkout().join("dist"), &counting(&cookie))?,
        ),
        ("limpet module, query", module(&query)?),
        ("limpet module, source", module(&source)?),
    ]);
    let variants = variants.into_iter();
    let all = variants.map(|(name, config)| (name, config.backend_addresses(&backends.addresses())));
    Ok(all.collect())
}

/// Both builds of another commit (`FORMER`: a directory that has what `dist` has).
fn former() -> Result<Vec<(&'static str, Config)>> {
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
        ("former limpet wasm, default policy", wasm),
        (
            "former limpet module, default policy",
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

fn report(runs: &[Run<'_>]) -> Result<()> {
    let baseline = runs.iter().find(|run| run.name == NO_FILTER).context("no baseline")?;
    let empty = runs.iter().find(|run| run.name == EMPTY).context("no empty filter")?;
    let [_, empty, _] = quartiles(&empty.over(baseline));
    println!(
        "{:40} {:>10} {:>20} {:>22}",
        "", "added us", "quartiles", "times the empty filter"
    );
    for run in runs.iter().filter(|run| run.name != NO_FILTER) {
        let [low, median, high] = quartiles(&run.over(baseline));
        println!(
            "{:40} {median:10.2} {:>20} {:22.2}",
            run.name,
            format!("{low:.1} to {high:.1}"),
            median / empty
        );
    }
    println!("\nno filter: {:.1} us\n", quartiles(&baseline.spent)[1]);
    println!("{:40} {:>10} {:>20}", "", "times", "quartiles");
    for names in COUNTING {
        let [without, with] = names.map(|name| runs.iter().find(|run| run.name == name));
        let (without, with) = without.zip(with).context("no such variants")?;
        let [low, median, high] = quartiles(&with.times(without));
        println!(
            "{:40} {median:10.3} {:>20}",
            with.name,
            format!("{low:.3} to {high:.3}")
        );
    }
    println!("CPU of the whole proxy, over the same filter that does not count\n");
    Ok(())
}
