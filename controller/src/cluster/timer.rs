//! Timers that may not be set.

use tokio::time::{Instant, sleep_until};

/// Waits until this time, or for ever.
pub(crate) async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
