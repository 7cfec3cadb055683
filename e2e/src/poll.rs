//! Waits for conditions.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// The machine may be busy, and some waits are for a Lease of 15 seconds to expire.
const PATIENCE: Duration = Duration::from_secs(90);
const INTERVAL: Duration = Duration::from_millis(20);
/// A long wait is polled less often, which loses at most a tenth.
const LONGEST_INTERVAL: Duration = Duration::from_millis(200);

/// Calls `check` until it returns a value.
///
/// # Errors
/// If it does not in a minute and a half.
pub async fn until<T>(what: &str, check: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    until_within(PATIENCE, what, check).await
}

/// As [`until`], with this limit.
///
/// # Errors
/// If there is no value in that time.
pub async fn until_within<T>(patience: Duration, what: &str, check: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    poll(INTERVAL, patience, what, check).await
}

/// As [`until`], for what mostly takes milliseconds.
///
/// # Errors
/// As [`until`].
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

/// Waits for a future, for a minute and a half: a hanging test would not say where.
///
/// # Errors
/// If it fails, or takes longer.
pub async fn patiently<T>(what: &str, future: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = tokio::time::timeout(PATIENCE, future).await;
    answer.with_context(|| format!("waited {} s for: {what}", PATIENCE.as_secs()))?
}
