//! What counting sessions takes: memory by backend, and nothing in the steady state.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;

use allocation_counter::measure;
use limpet_core::census::{Backend, Census, ObservedSession, SessionIdentity};
use limpet_core::time::Timestamp;
use limpet_core::token::DestinationId;

const LIVE_FOR: u32 = 1200;

fn backend(number: u32) -> Backend {
    Backend {
        destination: DestinationId([0; 4]),
        host: SocketAddr::from((number.to_be_bytes(), 8080)),
        live_for: LIVE_FOR,
    }
}

/// A session of a backend, with nonces as unlike as random ones.
fn seen(number: u32, session: u32, seconds: u64) -> ObservedSession {
    let at = Timestamp::from_unix_seconds(1_800_000_000 + seconds);
    let nonce = (number << 16 | session).wrapping_mul(0x9e37_79b9);
    ObservedSession {
        backend: backend(number),
        session: SessionIdentity::Token(nonce.to_be_bytes()),
        began: at,
        at,
    }
}

/// One test, because another one's allocations would count. Takes seconds: eleven million sessions are counted.
#[test]
fn memory_by_backend_and_no_allocation_in_the_steady_state() {
    // Runs differ by up to 100 bytes: a random seed decides which of the map's shards have grown.
    for (sessions, most) in [(1, 850), (10, 1_450), (100, 4_800), (1_000, 17_000), (10_000, 17_000)] {
        let backends = 200;
        let census = Census::new([0; 16], backends as usize);
        // All of them in each sub-window, which is the most.
        let filled = measure(|| {
            for window in 0..5 {
                for number in 0..backends {
                    for session in 0..sessions {
                        census.record(&seen(number, session, window * u64::from(LIVE_FOR) / 4));
                    }
                }
            }
        });
        let bytes = filled.bytes_current / i64::from(backends);
        println!("{sessions} sessions: {bytes} bytes for a backend");
        assert!(bytes <= most, "{sessions} sessions: {bytes} bytes for a backend");

        let steady = measure(|| {
            for session in 0..sessions {
                census.record(&seen(0, session, u64::from(LIVE_FOR)));
            }
        });
        assert_eq!(steady.count_total, 0, "{sessions} sessions");
    }
}
