//! Whether the application of a policy sets a cookie or header of the session's name (`name_conflict`).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// How many responses are looked at after a request whose token is none. Anybody can send such a request, so it must
/// not cost the policy more than this.
const LOOKS: u32 = 100;

/// What is known of the application of a policy, for all requests. Nothing depends on the order of these accesses.
#[derive(Debug, Default)]
pub(crate) struct NameWatch {
    looks: AtomicU32,
    conflicts: AtomicBool,
}

impl NameWatch {
    /// Look at the next responses of the policy.
    pub(crate) fn suspect(&self) {
        self.looks.store(LOOKS, Ordering::Relaxed);
    }

    /// Whether to look at this response: at every one if the application was seen to do it.
    pub(crate) fn looks(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        self.conflicts.load(Ordering::Relaxed)
            || self
                .looks
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
                .is_ok()
    }

    /// Remembers a conflict. Whether it is the first one of the policy.
    pub(crate) fn conflict(&self) -> bool {
        !self.conflicts.swap(true, Ordering::Relaxed)
    }
}
