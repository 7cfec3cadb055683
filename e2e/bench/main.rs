//! The filter's CPU time per request of a whole proxy, and latencies: beside other proxies ([`comparison`]), with many
//! routes ([`scale`]) and with many workers ([`workers`]); then its memory ([`memory`]), and latencies while its
//! configuration is pushed ([`pushes`]).
//!
//! Every proxy has the same three backends, and one worker unless said otherwise. Results are medians over rounds and
//! ratios within the run: absolute figures of different machines or days cannot be compared.

mod comparison;
mod h2load;
mod load;
mod measure;
mod memory;
mod plot;
mod pushes;
mod results;
mod scale;
mod variants;
mod workers;

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use limpet_e2e::{Config, Envoy, filter_with, tools};
use serde_json::{Value, json};

use load::Get;
use measure::Effort;
use variants::Choice;

const ROUNDS: usize = 40;

/// The fewest rounds of a published page.
const ROUNDS_OF_A_PAGE: usize = 16;

const UPDATE: &str = "UPDATE_BENCHMARKS";

/// The filter's configuration in `module.yaml`.
const MODULE_CONFIGURATION: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/\
    http_filters/0/typed_config/filter_config/value";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let rounds = match std::env::var("ROUNDS").ok().filter(|rounds| !rounds.is_empty()) {
        None => ROUNDS,
        Some(rounds) => rounds.parse().with_context(|| format!("ROUNDS={rounds}"))?,
    };
    let mut effort = Effort { rounds, requests: 4000 };
    let (mut choice, mut scale, mut workers) = (Some(Choice::All), true, true);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--filters" => (scale, workers) = (false, false),
            "--scale" => (choice, workers) = (None, false),
            "--workers" => (choice, scale) = (None, false),
            // More rounds, because counting costs little.
            "--counting" => {
                (choice, scale, workers) = (Some(Choice::Counting), false, false);
                effort = Effort {
                    rounds: 2 * rounds,
                    requests: 6000,
                }
            }
            other => bail!("expected --filters, --counting, --scale or --workers, found {other}"),
        }
    }
    let is_whole = choice == Some(Choice::All) && rounds >= ROUNDS_OF_A_PAGE;
    ensure!(
        is_whole || std::env::var_os(UPDATE).is_none(),
        "{UPDATE} writes what is published, expected all filters and {ROUNDS_OF_A_PAGE} rounds at least"
    );
    let backends = backends().await?;
    if let Some(choice) = choice {
        comparison::run(&backends, effort, choice).await?;
    }
    if scale {
        scale::run(&backends, effort).await?;
    }
    if workers {
        workers::run(&backends, effort).await?;
        memory::run(&backends).await?;
        pushes::run(&backends).await?;
    }
    Ok(())
}

/// An Envoy that answers requests itself, faster than the measured Envoys.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    None,
    Module,
    Wasm,
}

impl Filter {
    const ALL: [Self; 3] = [Self::None, Self::Module, Self::Wasm];

    fn name(self) -> &'static str {
        match self {
            Self::None => "no filter",
            Self::Module => "module",
            Self::Wasm => "wasm",
        }
    }

    fn config(self, filter: &Value) -> Result<Config> {
        match self {
            Self::None => without_filters(),
            Self::Module => module_with(&tools::checkout().join("dist"), filter),
            Self::Wasm => Ok(Config::load("cookie.yaml")?.filter(filter)),
        }
    }
}

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

fn module(policy: &Value) -> Result<Config> {
    module_in(&tools::checkout().join("dist"), policy)
}

fn module_in(dist: &Path, policy: &Value) -> Result<Config> {
    module_with(dist, &filter_with(policy))
}

fn module_with(dist: &Path, filter: &Value) -> Result<Config> {
    let config = Config::load("module.yaml")?.env("ENVOY_DYNAMIC_MODULES_SEARCH_PATH", &dist.to_string_lossy());
    Ok(config.edit(|bootstrap| {
        if let Some(configuration) = bootstrap.pointer_mut(MODULE_CONFIGURATION) {
            *configuration = filter.to_string().into();
        }
    }))
}

/// This policy with counted sessions. No controller gets the reports.
fn counting(policy: &Value) -> Value {
    let mut filter = filter_with(policy);
    let reports = json!({"cluster": "limpet.controller", "nodeCluster": "bench"});
    if let Value::Object(fields) = &mut filter {
        fields.insert("reportSessions".to_owned(), reports);
    }
    filter
}

fn wasm(policy: &Value) -> Result<Config> {
    Ok(Config::load("cookie.yaml")?.policy(policy))
}

fn cookie_policy() -> Value {
    json!({"cookie": {"name": "limpet-session"}})
}

fn with_policies(first: &Value, count: usize) -> Value {
    let mut filter = filter_with(first);
    if let Some(policies) = filter.get_mut("policies").and_then(Value::as_object_mut) {
        policies.extend((1..count).map(|number| (policy_name(number), cookie_policy())));
    }
    filter
}

/// The first policy is the default of [`filter_with`].
fn policy_name(number: usize) -> String {
    if number == 0 {
        "web".to_owned()
    } else {
        format!("policy-{number:04}")
    }
}

async fn next_request(envoy: &Envoy, filter: Filter, host: String, path: String) -> Result<Get> {
    let first = envoy.get(&path).header("host", &host).send().await?;
    let begins = first.set_cookie("limpet-session").is_some();
    ensure!(
        first.status == 200 && begins == (filter != Filter::None),
        "{}: a session begins: {begins}: {first:?}",
        filter.name()
    );
    Ok(Get {
        host,
        ..comparison::next(&first, &path, false)
    })
}
