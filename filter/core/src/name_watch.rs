//! Watches whether a policy's application sets the session's name (`name_conflict`).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Responses checked after a request without a valid token: a limit, because any client can send one.
const LOOKS: u32 = 100;

/// The observations of a policy, shared by its requests. Nothing depends on the order of these accesses.
#[derive(Debug, Default)]
pub(crate) struct NameWatch {
    looks: AtomicU32,
    conflicts: AtomicBool,
}

impl NameWatch {
    /// Checks the next responses.
    pub(crate) fn start(&self) {
        self.looks.store(LOOKS, Ordering::Relaxed);
    }

    /// Whether to check this response.
    pub(crate) fn is_due(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        self.conflicts.load(Ordering::Relaxed)
            || self
                .looks
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
    }

    /// Notes a conflict. Returns whether it is the policy's first.
    pub(crate) fn conflict(&self) -> bool {
        !self.conflicts.swap(true, Ordering::Relaxed)
    }
}
