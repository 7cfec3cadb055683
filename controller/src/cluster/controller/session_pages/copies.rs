//! One copy for all requests of a second.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;

const FRESH: Duration = Duration::from_secs(1);

/// The last copy. Earlier ones exist while they are read, which takes a place of a large answer if they are large.
#[derive(Debug, Default)]
pub(super) struct PageCopies(Mutex<Option<(Instant, Bytes)>>);

impl PageCopies {
    /// A copy that is at most a second old, made if necessary.
    pub(super) fn fresh(&self, now: Instant, content: impl FnOnce() -> Vec<u8>) -> Bytes {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.take_if(|(at, _)| now.saturating_duration_since(*at) >= FRESH);
        let (_, copy) = last.get_or_insert_with(|| (now, content().into()));
        copy.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_within_a_second_gets_the_same_copy() {
        let copies = PageCopies::default();
        let now = Instant::now();
        let first = copies.fresh(now, || vec![1]);
        let other = copies.fresh(now + FRESH / 2, || panic!("there is one"));
        assert_eq!(first.as_ptr(), other.as_ptr());
        assert_eq!(copies.fresh(now + FRESH, || vec![2]), [2][..]);
        assert_eq!(first, [1][..]);
    }
}
