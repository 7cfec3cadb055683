//! Which VM of the process reports for all.
//!
//! Envoy has a VM for each worker and one for its main thread, which has the xDS connections. One VM holds a lease in
//! shared data and renews it with each turn. A VM that serves requests yields it to one that does not, which is soon
//! the main thread's. For a moment, two holders may report, but nothing twice: what is handed over has one taker.

use std::cell::Cell;

use proxy_wasm::hostcalls;

const NAME: &str = "limpet.sessions.reporter";
/// Turns of this VM (not a clock) without a renewal until the holder counts as gone.
const PATIENCE: u32 = 6;

thread_local! {
    static SERVES: Cell<bool> = const { Cell::new(false) };
}

/// This VM serves requests, so its thread is a worker.
pub(crate) fn mark_serving() {
    SERVES.set(true);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LeaseOwner {
    id: u64,
    serves: bool,
}

impl LeaseOwner {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (id, [serves]) = bytes.split_first_chunk()? else {
            return None;
        };
        Some(Self {
            id: u64::from_be_bytes(*id),
            serves: *serves != 0,
        })
    }

    fn bytes(self) -> [u8; 9] {
        let mut bytes = [u8::from(self.serves); 9];
        bytes[..8].copy_from_slice(&self.id.to_be_bytes());
        bytes
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseRole {
    Reports,
    HandsOver(u64),
    Waits,
}

#[derive(Debug, Default)]
pub(super) struct Lease {
    version: Option<u32>,
    unchanged: u32,
    is_held: bool,
}

impl Lease {
    /// Renews the lease, or takes it if possible.
    pub(super) fn turn(&mut self, id: u64) -> LeaseRole {
        let serves = SERVES.get();
        let own = LeaseOwner { id, serves };
        self.is_held = false;
        let Ok((bytes, version)) = hostcalls::get_shared_data(NAME) else {
            return LeaseRole::Waits;
        };
        let holder = bytes.and_then(|bytes| LeaseOwner::read(&bytes));
        if let Some(other) = self.other(own, holder, version) {
            return LeaseRole::HandsOver(other);
        }
        // Of several that come first, the last one stays.
        self.is_held = hostcalls::set_shared_data(NAME, Some(&own.bytes()), version).is_ok();
        if self.is_held {
            LeaseRole::Reports
        } else {
            LeaseRole::Waits
        }
    }

    pub(super) fn is_held(&self) -> bool {
        self.is_held
    }

    /// The lease's other holder; `None` if this VM may take it.
    fn other(&mut self, own: LeaseOwner, holder: Option<LeaseOwner>, version: Option<u32>) -> Option<u64> {
        let is_same = self.version == version;
        self.unchanged = if is_same { self.unchanged + 1 } else { 0 };
        self.version = version;
        let gives_way = |other: &LeaseOwner| other.serves && !own.serves;
        holder
            .filter(|other| other.id != own.id && self.unchanged < PATIENCE && !gives_way(other))
            .map(|other| other.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: LeaseOwner = LeaseOwner { id: 1, serves: false };

    fn holder(serves: bool) -> LeaseOwner {
        LeaseOwner { id: 2, serves }
    }

    #[test]
    fn a_lease_is_taken_when_its_holder_is_gone() {
        let serves = LeaseOwner { serves: true, ..OWN };
        let mut lease = Lease::default();
        assert_eq!(lease.other(OWN, None, None), None);
        for version in 1..20 {
            assert_eq!(lease.other(serves, Some(holder(true)), Some(version)), Some(2));
        }
        for _ in 1..PATIENCE {
            assert_eq!(lease.other(serves, Some(holder(true)), Some(19)), Some(2));
        }
        assert_eq!(lease.other(serves, Some(holder(true)), Some(19)), None);
    }

    #[test]
    fn who_serves_requests_gives_way_to_who_does_not() {
        let serves = LeaseOwner { serves: true, ..OWN };
        let mut lease = Lease::default();
        assert_eq!(lease.other(OWN, Some(holder(true)), Some(1)), None);
        for (own, other) in [(OWN, false), (serves, false), (serves, true)] {
            assert_eq!(lease.other(own, Some(holder(other)), Some(2)), Some(2));
        }
        assert_eq!(lease.other(serves, Some(serves), Some(3)), None);
    }

    #[test]
    fn a_holder_is_read_as_it_is_written() {
        for serves in [false, true] {
            let own = LeaseOwner {
                id: 0x0102_0304_0506_0708,
                serves,
            };
            assert_eq!(LeaseOwner::read(&own.bytes()), Some(own));
        }
        assert_eq!(LeaseOwner::read(&[0; 8]), None);
        assert_eq!(LeaseOwner::read(&[]), None);
    }
}
