//! The filter's counters in each Envoy. An Envoy that ends takes its own with it, so they are read all the time, and
//! the last ones of each count.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::Request;
use limpet_e2e::chaos::Role;
use limpet_model::ADMIN_PORT;

use crate::processes::Processes;

const INTERVAL: Duration = Duration::from_secs(2);

/// The argument with which this program reads the counters of the Envoy whose network it is in.
pub(crate) const READ: &str = "read-counters";

/// The counters by their names, such as `refused.expired`, summed over policies.
pub(crate) type Counts = BTreeMap<String, u64>;

/// The last counters of each Envoy, by the id of its process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters(Arc<Mutex<BTreeMap<u32, Counts>>>);

impl Counters {
    /// Reads until the program ends.
    pub(crate) fn watch(processes: Processes) -> Self {
        let counters = Self::default();
        let watching = counters.clone();
        tokio::spawn(async move {
            loop {
                let running = processes.all().into_iter().filter(|process| process.gone.is_none());
                for process in running.filter(|process| process.role == Role::Envoy) {
                    let read = tokio::task::spawn_blocking(move || read(process.id)).await;
                    // One that has just begun, or ended, has none.
                    if let Ok(Ok(counts)) = read {
                        watching
                            .0
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .insert(process.id, counts);
                    }
                }
                tokio::time::sleep(INTERVAL).await;
            }
        });
        counters
    }

    /// The sums over all Envoys, and how many there are.
    pub(crate) fn sums(&self) -> (usize, Counts) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = Counts::new();
        for (name, count) in all.values().flatten() {
            *sums.entry(name.clone()).or_default() += count;
        }
        (all.len(), sums)
    }
}

/// The admin interface is for the pod alone.
fn read(process: u32) -> Result<Counts> {
    let output = Command::new("nsenter")
        .args(["--target", &process.to_string(), "--net"])
        // Its file may have another one in its place by now.
        .arg(format!("/proc/{}/exe", std::process::id()))
        .arg(READ)
        .output()
        .context("cannot run nsenter")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(summed(&String::from_utf8(output.stdout)?))
}

/// Prints what the Envoy beside this program says.
pub(crate) async fn print() -> Result<()> {
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT));
    let answer = Request::get(admin, "/stats?filter=limpet&usedonly").send().await?;
    ensure!(answer.status == 200, "Envoy answers {}", answer.status);
    print!("{}", String::from_utf8_lossy(&answer.body));
    Ok(())
}

/// The filter's counters: `wasmcustom.limpet.POLICY.NAME: COUNT`.
fn summed(stats: &str) -> Counts {
    let mut counts = Counts::new();
    for line in stats.lines() {
        let Some((name, count)) = line.split_once(": ") else {
            continue;
        };
        let Some((_, name)) = name.split_once("custom.limpet.") else {
            continue;
        };
        let name = match name.split_once('.') {
            Some(("keys", _)) => continue,
            Some((_, of_policy)) => of_policy,
            None => name,
        };
        if let Ok(count) = count.parse::<u64>() {
            *counts.entry(name.to_owned()).or_default() += count;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_policies() {
        let stats = "
cluster.limpet.controller.upstream_rq_total: 7
wasmcustom.limpet.a.refused.expired: 1
wasmcustom.limpet.b.refused.expired: 2
wasmcustom.limpet.keys.1.given: 5
dynamicmodulescustom.limpet.host_errors: 3";
        let expected = [("host_errors", 3), ("refused.expired", 3)];
        assert_eq!(
            summed(stats),
            expected.map(|(name, count)| (name.to_owned(), count)).into()
        );
    }
}
