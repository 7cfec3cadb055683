//! Waiting for something to become true.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long to wait before giving up. The machine may be busy with other tests, and some waits are for a Lease of 15
/// seconds to expire.
const PATIENCE: Duration = Duration::from_secs(90);
const INTERVAL: Duration = Duration::from_millis(20);
/// What takes longer is asked for less often: at most a tenth of a wait is lost, and the machine is left to the rest.
const LONGEST_INTERVAL: Duration = Duration::from_millis(200);

/// Calls `check` repeatedly until it returns a value.
///
/// # Errors
/// If it returns none in a minute and a half. The error names `what`.
pub async fn until<T>(what: &str, check: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    until_within(PATIENCE, what, check).await
}

/// As [`until`], for what takes longer: the rollout of a Deployment whose pods drain, for example.
///
/// # Errors
/// If it returns none in that time. The error names `what`.
pub async fn until_within<T>(patience: Duration, what: &str, check: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    poll(INTERVAL, patience, what, check).await
}

/// As [`until`], for what is mostly there after milliseconds.
///
/// # Errors
/// If it returns none in a minute and a half. The error names `what`.
pub async fn soon<T>(what: &str, check: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    poll(INTERVAL / 10, PATIENCE, what, check).await
}

async fn poll<T>(
    interval: Duration,
    patience: Duration,
    what: &str,
    mut check: impl AsyncFnMut() -> Option<T>,
) -> Result<T> {
    let start = Instant::now();
    while start.elapsed() < patience {
        if let Some(answer) = check().await {
            return Ok(answer);
        }
        tokio::time::sleep(interval.max(start.elapsed() / 10).min(LONGEST_INTERVAL)).await;
    }
    bail!("waited {} s for: {what}", patience.as_secs())
}

/// Waits for a future, but not forever: a test that hangs would not say where.
///
/// # Errors
/// If the future fails, or takes more than a minute and a half. The error names `what`.
pub async fn patiently<T>(what: &str, future: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = tokio::time::timeout(PATIENCE, future).await;
    answer.with_context(|| format!("waited {} s for: {what}", PATIENCE.as_secs()))?
}
