//! The process that is measured.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use limpet_e2e::Scheduled;
use limpet_e2e::kube::Controller;

use crate::report::{memory, peak_memory};

/// Quiet: less than `BUSY` in each of several samples, without waiting for a CPU.
const SAMPLE: Duration = Duration::from_millis(20);
const QUIET_SAMPLES: usize = 8;
const BUSY: Duration = Duration::from_micros(400);
const PATIENCE: Duration = Duration::from_secs(600);

/// How long no status is written at the end; statuses wait ten seconds for Envoys.
const NO_STATUS: Duration = Duration::from_secs(12);

/// Many statuses take minutes.
pub(crate) async fn until_statuses_are_written(controller: &Controller) -> Result<()> {
    let (start, mut last, mut since) = (Instant::now(), None, Instant::now());
    while since.elapsed() < NO_STATUS {
        ensure!(start.elapsed() < PATIENCE, "statuses are written all the time");
        tokio::time::sleep(Duration::from_millis(500)).await;
        let page = controller.page("/metrics").await?;
        let text = String::from_utf8_lossy(&page.body);
        let written: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with("limpet_status_writes_total"))
            .map(str::to_owned)
            .collect();
        if last.as_ref() != Some(&written) {
            (last, since) = (Some(written), Instant::now());
        }
    }
    ensure!(last.is_some_and(|written| !written.is_empty()), "no status was written");
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject(pub(crate) u32);

impl Subject {
    pub(crate) fn ran(self) -> Result<Duration> {
        Ok(Scheduled::of(self.0)?.ran)
    }

    pub(crate) fn ran_since(self, before: Duration) -> Result<Duration> {
        Ok(self.ran()?.saturating_sub(before))
    }

    pub(crate) async fn idle(self) -> Result<f64> {
        let (before, start) = (self.ran()?, Instant::now());
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(self.ran_since(before)?.as_secs_f64() / start.elapsed().as_secs_f64())
    }

    /// Returns how long that took.
    pub(crate) async fn until_quiet(self) -> Result<Duration> {
        let (start, mut quiet, mut last) = (Instant::now(), 0, Scheduled::of(self.0)?);
        while quiet < QUIET_SAMPLES {
            ensure!(start.elapsed() < PATIENCE, "the process does not come to rest");
            tokio::time::sleep(SAMPLE).await;
            let now = Scheduled::of(self.0)?;
            let Scheduled { ran, waited } = now.since(last);
            quiet = if ran < BUSY && waited < SAMPLE / 2 {
                quiet + 1
            } else {
                0
            };
            last = now;
        }
        Ok(start.elapsed())
    }

    /// After a start, statuses follow for a while.
    pub(crate) async fn until_at_rest(self) -> Result<()> {
        let mut quiet = 0;
        while quiet < 3 {
            let waited = self.until_quiet().await?;
            quiet = if waited < 2 * SAMPLE * u32::try_from(QUIET_SAMPLES)? {
                quiet + 1
            } else {
                0
            };
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(())
    }

    /// In KiB.
    pub(crate) fn memory(self) -> Result<u64> {
        memory(&self.0.to_string())
    }

    /// In KiB.
    pub(crate) fn peak_memory(self) -> Result<u64> {
        peak_memory(&self.0.to_string())
    }
}
