//! Whether the application of a policy sets a cookie or header of the session's name (`name_conflict`).

use std::sync::atomic::{AtomicBool, Ordering};

/// What is known of the application of a policy, for all requests. Nothing depends on the order of these accesses.
#[derive(Debug, Default)]
pub(crate) struct NameWatch {
    suspected: AtomicBool,
    told: AtomicBool,
}

impl NameWatch {
    /// From now on, look at every response of the policy.
    pub(crate) fn suspect(&self) {
        self.suspected.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_suspected(&self) -> bool {
        self.suspected.load(Ordering::Relaxed)
    }

    /// Whether this is the first conflict of the policy.
    pub(crate) fn tell(&self) -> bool {
        !self.told.swap(true, Ordering::Relaxed)
    }
}
