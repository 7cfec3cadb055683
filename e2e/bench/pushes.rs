//! Latencies while the filter's configuration is pushed by a file (ECDS), each time with one changed policy, and
//! without pushes.

use std::time::Duration;

use anyhow::{Result, ensure};
use limpet_e2e::{Build, Config, Envoy, Scheduled, SteadyLoad, worst};
use serde_json::{Value, json};
use tokio::time::{Instant, interval_at};

use crate::workers::{balanced, count};
use crate::{Filter, next_request, with_policies};

const POLICIES: [(usize, &str); 2] = [(1, "1 policy"), (1000, "1,000 policies")];
const WORKERS: u8 = 2;
const RATE: f64 = 500.0;
const CONNECTIONS: u32 = 8;
/// One for each second of a load.
const PUSHES: u32 = 20;
const SECOND: Duration = Duration::from_secs(1);

/// Envoy's count of accepted configurations.
const RELOADS: &str = "extension_config_discovery.http_filter.limpet.config_reload";

pub(crate) async fn run(backends: &Envoy) -> Result<()> {
    println!(
        "\nLatency while the filter's configuration is pushed, once a second: {RATE} requests a second over \
        {CONNECTIONS} connections, {}; a request that fails ends the run\n",
        count(WORKERS)
    );
    for (filter, build) in [(Filter::Module, Build::Module), (Filter::Wasm, Build::Wasm)] {
        for (policies, named) in POLICIES {
            let config = balanced(Config::load("ecds.yaml")?.build(build), WORKERS);
            let config = config.backend_addresses(&backends.addresses());
            let mut envoy = Envoy::start(config.filter(&configuration(policies, 0))).await?;
            let request = next_request(&envoy, filter, "bench.example".to_owned(), "/".to_owned()).await?;
            let load = SteadyLoad {
                address: envoy.address(),
                request: request.bytes(),
                rate: RATE,
                connections: CONNECTIONS,
            };
            // Warms up connections, caches and V8's optimised code.
            let warming = load.clone();
            tokio::task::spawn_blocking(move || warming.send(SECOND)).await??;
            for pushes in [0, PUSHES] {
                let before = envoy.stat(RELOADS).await?;
                let (start, ran) = (Instant::now(), Scheduled::of(envoy.pid())?);
                let latencies = measure(&mut envoy, &load, policies, pushes).await?;
                let (took, ran) = (start.elapsed(), Scheduled::of(envoy.pid())?.since(ran).ran);
                // Merged or refused pushes would not be measured.
                envoy.until_stat(RELOADS, before + u64::from(pushes)).await?;
                let what = format!("{}, {named}, {pushes} pushes", filter.name());
                println!(
                    "  {what:36} {}, {:.0} % of a core",
                    worst(&latencies)?,
                    100.0 * ran.as_secs_f64() / took.as_secs_f64()
                );
            }
        }
    }
    Ok(())
}

async fn measure(envoy: &mut Envoy, load: &SteadyLoad, policies: usize, pushes: u32) -> Result<Vec<Duration>> {
    let sending = load.clone();
    let sent = tokio::task::spawn_blocking(move || sending.send(SECOND * PUSHES));
    let mut seconds = interval_at(Instant::now() + SECOND / 2, SECOND);
    for push in 1..=pushes {
        seconds.tick().await;
        ensure!(!sent.is_finished(), "the load ended before push {push}");
        envoy.update(|config| config.filter(&configuration(policies, push)))?;
    }
    sent.await?
}

fn configuration(policies: usize, push: u32) -> Value {
    let first = json!({"cookie": {"name": "limpet-session"}, "absoluteTimeout": format!("{}s", 36_000 + push)});
    with_policies(&first, policies)
}
