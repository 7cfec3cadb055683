//! How a backend answers.

use std::time::Duration;

/// How a backend answers.
#[derive(Debug, Clone)]
pub struct Answering {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) delay: Duration,
    pub(super) hang_up: bool,
}

impl Answering {
    /// With this status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        Self {
            status,
            headers: Vec::new(),
            delay: Duration::ZERO,
            hang_up: false,
        }
    }

    /// With 200.
    #[must_use]
    pub fn ok() -> Self {
        Self::status(200)
    }

    /// Not at all: the connection is closed once the request is there.
    #[must_use]
    pub fn hanging_up() -> Self {
        Self {
            hang_up: true,
            ..Self::ok()
        }
    }

    /// With one header more.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// After a while.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}
