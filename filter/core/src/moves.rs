//! How the application of a policy moves sessions (`moved`).

use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of the moves of a policy, for all requests.
#[derive(Debug)]
pub(crate) struct Moves {
    /// The response header, in lower case.
    pub(crate) header: String,
    /// Whether the log has a line about a refused move.
    said: AtomicBool,
}

impl Moves {
    pub(crate) fn by(header: String) -> Self {
        Self {
            header,
            said: AtomicBool::new(false),
        }
    }

    /// Remembers a refused move. Whether it is the first one of the policy.
    pub(crate) fn refuse(&self) -> bool {
        !self.said.swap(true, Ordering::Relaxed)
    }
}
