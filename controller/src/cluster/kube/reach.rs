//! Logs once when the API server can or cannot be reached any more.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::backoff::Backoff;

/// A shared handle.
#[derive(Debug, Clone)]
pub(super) struct ApiReachability {
    address: Arc<str>,
    is_away: Arc<AtomicBool>,
}

type BoxError = Box<dyn Error + Send + Sync>;

impl ApiReachability {
    pub(super) fn new(address: &str) -> Self {
        Self {
            address: address.into(),
            is_away: Arc::default(),
        }
    }

    /// Any answer counts as reached.
    pub(super) fn observe<T>(&self, result: Result<T, BoxError>) -> Result<T, BoxError> {
        self.log_change(result.as_ref().err());
        result
    }

    fn log_change(&self, error: Option<&BoxError>) {
        let was_away = self.is_away.swap(error.is_some(), Ordering::Relaxed);
        let address = &self.address;
        match error {
            Some(error) if !was_away => {
                let (error, longest) = (cause(&**error), Backoff::LONGEST.as_secs());
                tracing::warn!(
                    "cannot reach the API server at {address}: {error}; trying again, in the end every {longest} s"
                );
            }
            None if was_away => tracing::info!("the API server at {address} is reached again"),
            _ => {}
        }
    }
}

/// The API server's message on a failed request, or why there is no answer.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        _ => cause(error),
    }
}

/// The innermost error, which says what happened.
fn cause(mut error: &(dyn Error + 'static)) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_error_is_said() {
        #[derive(Debug, thiserror::Error)]
        #[error("client error (Connect)")]
        struct Outer(#[source] std::io::Error);
        let refused = || std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(cause(&Outer(refused())), "connection refused");
        assert_eq!(cause(&refused()), "connection refused");
    }
}
