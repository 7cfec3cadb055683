//! How a backend answers.

use std::time::Duration;

/// Answers of a backend, except to `/healthz`, `/echo` and `/events`.
#[derive(Debug, Clone)]
pub struct Answering {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) delay: Duration,
    pub(super) hang_up: bool,
}

impl Answering {
    /// Answers with this status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            delay: Duration::ZERO,
            hang_up: false,
        }
    }

    /// Answers with 200.
    #[must_use]
    pub fn ok() -> Self {
        Self::status(200)
    }

    /// Closes the connection without an answer once the request has arrived.
    #[must_use]
    pub fn hanging_up() -> Self {
        Self {
            hang_up: true,
            ..Self::ok()
        }
    }

    /// Adds a header to the answer.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Waits before it answers.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}
