use std::sync::atomic::{AtomicBool, Ordering};

/// The moves of a policy, shared by its requests.
#[derive(Debug)]
pub(crate) struct Moves {
    /// The response header, in lower case.
    pub(crate) header: String,
    said: AtomicBool,
}

impl Moves {
    pub(crate) fn new(header: String) -> Self {
        Self {
            header,
            said: AtomicBool::new(false),
        }
    }

    /// Notes a refused move. Returns whether it is the policy's first.
    pub(crate) fn refuse(&self) -> bool {
        !self.said.swap(true, Ordering::Relaxed)
    }
}
