//! Resource usage of the controller and the Envoys, from their cgroups.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use limpet_e2e::chaos::{Role, Sample};

use crate::processes::{Processes, cgroup};

const INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(crate) struct Samples(Arc<Mutex<Vec<Sample>>>);

impl Samples {
    pub(crate) fn take(begun: Instant, processes: Processes) -> Result<Self> {
        let samples = Self(Arc::default());
        let taken = samples.clone();
        let thread = std::thread::Builder::new().name("samples".to_owned());
        thread.spawn(move || {
            loop {
                taken.once(begun, &processes);
                std::thread::sleep(INTERVAL);
            }
        })?;
        Ok(samples)
    }

    fn once(&self, begun: Instant, processes: &Processes) {
        let running = processes.all().into_iter().filter(|process| process.gone.is_none());
        for process in running.filter(|process| process.role != Role::Application) {
            let memory = cgroup(process.id, "memory").and_then(|folder| memory(&folder));
            let cpu = cgroup(process.id, "cpuacct").or_else(|| cgroup(process.id, "cpu"));
            let cpu = cpu.and_then(|folder| cpu_time(&folder));
            // An ended one has none.
            let Some((memory, cpu)) = memory.zip(cpu) else { continue };
            let sample = Sample {
                at: begun.elapsed(),
                role: process.role,
                process: process.number,
                memory,
                cpu,
            };
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
        }
    }

    pub(crate) fn all(&self) -> Vec<Sample> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The resident bytes without a file.
fn memory(folder: &Path) -> Option<u64> {
    let stat = fs::read_to_string(folder.join("memory.stat")).ok()?;
    field(&stat, "total_rss ").or_else(|| field(&stat, "anon "))
}

fn cpu_time(folder: &Path) -> Option<Duration> {
    if let Ok(nanoseconds) = fs::read_to_string(folder.join("cpuacct.usage")) {
        return Some(Duration::from_nanos(nanoseconds.trim().parse().ok()?));
    }
    let stat = fs::read_to_string(folder.join("cpu.stat")).ok()?;
    field(&stat, "usage_usec ").map(Duration::from_micros)
}

fn field(stat: &str, name: &str) -> Option<u64> {
    stat.lines()
        .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}
