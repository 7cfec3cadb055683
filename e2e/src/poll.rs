//! Waiting for something to become true.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// How long [`until`] waits before it gives up. Generous: the machine may be busy with other tests.
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
