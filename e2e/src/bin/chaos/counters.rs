//! The filter's counters in each Envoy. An Envoy that ends takes its own with it, so they are read all the time, and
//! the last ones of each count.

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

/// The argument with which this program reads the counters of the Envoy whose network it is in.
pub(crate) const READ: &str = "read-counters";

/// The counters by their names, such as `refused.expired`, summed over policies.
pub(crate) type Counts = BTreeMap<String, u64>;

/// The last counters of each Envoy, by the number of its process.
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
                            .insert(process.number, counts);
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
