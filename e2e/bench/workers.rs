//! Whether the filter's cost grows from one to eight workers, each time over an Envoy without a filter.

use anyhow::{Result, ensure};
use limpet_e2e::{Config, Envoy, filter_with};
use serde_json::json;

use crate::h2load::Load;
use crate::measure::{Effort, Run, print_added};
use crate::{Filter, cookie_policy, next_request};

const WORKERS: [u8; 4] = [1, 2, 4, 8];
/// Eight for each of the most workers.
const CONNECTIONS: u64 = 64;

pub(crate) async fn run(backends: &Envoy, effort: Effort) -> Result<()> {
    println!("\nCPU of the whole proxy per request, by the number of workers, over {CONNECTIONS} connections\n");
    let (mut envoys, mut runs) = (Vec::new(), Vec::new());
    for filter in Filter::ALL {
        for workers in WORKERS {
            let config = filter.config(&filter_with(&cookie_policy()))?;
            let config = config.backend_addresses(&backends.addresses());
            let envoy = Envoy::start(balanced(config, workers)).await?;
            let request = next_request(&envoy, filter, "bench.example".to_owned(), "/".to_owned()).await?;
            let load = Load::new(envoy.address(), &request).over(CONNECTIONS);
            let name = format!("{}, {}", filter.name(), count(workers));
            runs.push(Run::new(name, envoy.pid(), load));
            envoys.push((envoy, workers));
        }
    }
    effort.measure(&mut runs.iter_mut().collect::<Vec<_>>()).await?;
    for (envoy, workers) in &envoys {
        ensure_each_had(CONNECTIONS / u64::from(*workers), envoy, *workers).await?;
    }
    print_added(&runs, WORKERS.len(), &count(1))
}

pub(crate) fn count(workers: u8) -> String {
    if workers == 1 {
        "1 worker".to_owned()
    } else {
        format!("{workers} workers")
    }
}

/// By default, the kernel draws lots, and a worker may get no connection.
pub(crate) fn balanced(config: Config, workers: u8) -> Config {
    let balance = json!({"connection_balance_config": {"exact_balance": {}}});
    config.workers(workers).change_listener(&balance)
}

pub(crate) async fn ensure_each_had(least: u64, envoy: &Envoy, workers: u8) -> Result<()> {
    let connections = envoy.stats("worker_.*downstream_cx_total").await?;
    ensure!(
        connections.len() == usize::from(workers) && connections.values().all(|number| *number >= least),
        "expected {} with at least {least} connections each, found {connections:?}",
        count(workers)
    );
    Ok(())
}
