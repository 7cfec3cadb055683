//! Waiting for something to become true.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long to wait before giving up. Generous: the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(20);

/// Asks again and again, until there is an answer.
///
/// # Errors
/// When there is none after half a minute; `what` says what was awaited.
pub async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> Result<T> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(answer) = check().await {
            return Ok(answer);
        }
        tokio::time::sleep(INTERVAL).await;
    }
    bail!("waited {} s in vain for: {what}", PATIENCE.as_secs())
}

/// Waits for something that comes by itself, but not for ever: a test that hangs would not say where.
///
/// # Errors
/// Those of the future; or it took more than half a minute, and `what` says what was awaited.
pub async fn patiently<T>(what: &str, future: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = tokio::time::timeout(PATIENCE, future).await;
    answer.with_context(|| format!("waited {} s in vain for {what}", PATIENCE.as_secs()))?
}
