//! Processor time and memory of processes.

use std::time::Duration;

use anyhow::{Context, Result};

/// A process's times since its start, summed over threads, from the scheduler in nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scheduled {
    /// The time on a CPU.
    pub ran: Duration,
    /// The time waiting for a CPU.
    pub waited: Duration,
}

impl Scheduled {
    /// The times until now, without ended threads.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn of(pid: u32) -> Result<Self> {
        let (mut ran, mut waited) = (0, 0);
        for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let file = task?.path().join("schedstat");
            // A thread may end meanwhile.
            let Ok(text) = std::fs::read_to_string(&file) else {
                continue;
            };
            let mut numbers = text.split_whitespace().map(str::parse::<u64>);
            ran += numbers.next().context("schedstat is empty")??;
            waited += numbers.next().context("schedstat is too short")??;
        }
        Ok(Self {
            ran: Duration::from_nanos(ran),
            waited: Duration::from_nanos(waited),
        })
    }

    /// The times since `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            ran: self.ran.saturating_sub(before.ran),
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

/// A figure in KiB from a file of a process or `self` in /proc, such as `VmRSS:` of `status`.
///
/// # Errors
/// If the process has ended, or the file has no such field.
pub fn kibibytes(process: &str, file: &str, field: &str) -> Result<u64> {
    let file = format!("/proc/{process}/{file}");
    let text = std::fs::read_to_string(&file).with_context(|| format!("expected {file} (Linux)"))?;
    let value = text.lines().find_map(|line| line.strip_prefix(field));
    let value = value.with_context(|| format!("{file} has no {field}"))?;
    Ok(value.trim().trim_end_matches(" kB").parse()?)
}
