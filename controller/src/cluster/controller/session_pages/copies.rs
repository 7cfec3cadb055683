//! What all who ask within a second get: one copy. Slow readers keep older ones, of which there are only so many.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::body::Bytes;

/// How long a copy is fresh.
const FRESH: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Copies {
    most: usize,
    made: Mutex<Made>,
}

#[derive(Debug, Default)]
struct Made {
    last: Option<(Instant, Arc<Vec<u8>>)>,
    /// Those before, which are there as long as somebody reads them.
    before: Vec<Weak<Vec<u8>>>,
}

/// What holds a copy until it is read.
struct Reader(Arc<Vec<u8>>);

impl AsRef<[u8]> for Reader {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

fn read(copy: &Arc<Vec<u8>>) -> Bytes {
    Bytes::from_owner(Reader(Arc::clone(copy)))
}

impl Copies {
    /// At most so many at once.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            made: Mutex::default(),
        }
    }

    /// A copy that is at most a second old, which is made if there is none; `None` if there may be no other one.
    pub(super) fn fresh(&self, now: Instant, content: impl FnOnce() -> Vec<u8>) -> Option<Bytes> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, copy)) = &made.last
            && now.saturating_duration_since(*at) < FRESH
        {
            return Some(read(copy));
        }
        let last = made.last.as_ref().map(|(_, copy)| copy);
        let is_read = last.is_some_and(|last| Arc::strong_count(last) > 1);
        made.before.retain(|copy| copy.strong_count() > 0);
        if made.before.len() + usize::from(is_read) >= self.most {
            return None;
        }
        if let Some((_, last)) = made.last.take() {
            made.before.push(Arc::downgrade(&last));
        }
        let (_, copy) = made.last.insert((now, Arc::new(content())));
        Some(read(copy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_within_a_second_gets_the_same_copy() {
        let copies = Copies::new(2);
        let now = Instant::now();
        let first = copies.fresh(now, || vec![1]).unwrap();
        let other = copies.fresh(now + FRESH / 2, || panic!("there is one")).unwrap();
        assert_eq!(first.as_ptr(), other.as_ptr());
        assert_eq!(copies.fresh(now + FRESH, || vec![2]).unwrap(), [2][..]);
        assert_eq!(first, [1][..]);
    }

    #[test]
    fn slow_readers_keep_no_more_copies_than_there_may_be() {
        let copies = Copies::new(2);
        let at = |second| Instant::now() + second * FRESH;
        let slow = copies.fresh(at(1), || vec![1]).unwrap();
        let slower = copies.fresh(at(3), || vec![2]).unwrap();
        assert_eq!(copies.fresh(at(5), || vec![3]), None);
        drop(slow);
        assert_eq!(copies.fresh(at(7), || vec![4]).unwrap(), [4][..]);
        drop(slower);
        // Who reads at once keeps nothing.
        for second in 8..20 {
            assert!(copies.fresh(at(2 * second), || vec![5]).is_some());
        }
    }
}
