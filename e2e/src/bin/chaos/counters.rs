//! The filter's counters in each Envoy, read all the time: an ended Envoy's last ones count.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::Request;
use limpet_e2e::chaos::{Role, summed};
use limpet_model::ADMIN_PORT;

use crate::processes::Processes;

const INTERVAL: Duration = Duration::from_secs(2);

/// The argument with which this program reads the counters in an Envoy's network.
pub(crate) const READ: &str = "read-counters";

/// Counters by name, such as `refused.expired`, summed over policies.
pub(crate) type Counts = BTreeMap<String, u64>;

/// The last counters of each Envoy, by process number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters(Arc<Mutex<BTreeMap<u32, Counts>>>);

impl Counters {
    pub(crate) fn watch(processes: Processes) -> Self {
        let counters = Self::default();
        let watching = counters.clone();
        tokio::spawn(async move {
            loop {
                let running = processes.all().into_iter().filter(|process| process.gone.is_none());
                for process in running.filter(|process| process.role == Role::Envoy) {
                    let read = tokio::task::spawn_blocking(move || read(process.id)).await;
                    // A new or ended one has none.
                    if let Ok(Ok(counts)) = read {
                        watching
                            .0
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .insert(process.number, counts);
                    }
                }
                tokio::time::sleep(INTERVAL).await;
            }
        });
        counters
    }

    pub(crate) fn sums(&self) -> (usize, Counts) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums = Counts::new();
        for (name, count) in all.values().flatten() {
            *sums.entry(name.clone()).or_default() += count;
        }
        (all.len(), sums)
    }
}

/// Runs in the pod's network, as only that reaches the admin interface.
fn read(process: u32) -> Result<Counts> {
    let output = Command::new("nsenter")
        .args(["--target", &process.to_string(), "--net"])
        // Its file may have been replaced by now.
        .arg(format!("/proc/{}/exe", std::process::id()))
        .arg(READ)
        .output()
        .context("cannot run nsenter")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(summed(&String::from_utf8(output.stdout)?))
}

pub(crate) async fn print() -> Result<()> {
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, ADMIN_PORT));
    let answer = Request::get(admin, "/stats?filter=limpet&usedonly").send().await?;
    ensure!(answer.status == 200, "Envoy answers {}", answer.status);
    print!("{}", String::from_utf8_lossy(&answer.body));
    Ok(())
}
