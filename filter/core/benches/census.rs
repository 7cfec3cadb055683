//! What it costs to count a session that a backend answered, in one run: a request has this once.

use std::cell::Cell;
use std::net::SocketAddr;

use divan::Bencher;
use limpet_core::census::{Backend, Census, ObservedSession, SessionIdentity};
use limpet_core::time::Timestamp;
use limpet_core::token::DestinationId;

fn main() {
    divan::main();
}

/// Sessions of 100 backends in turn, so many of each. All of them are known: that is the steady state.
#[divan::bench(args = [1, 100, 10_000], threads = [1, 2, 8], sample_size = 10_000)]
fn see(bencher: Bencher<'_, '_>, sessions: u32) {
    thread_local! {
        static TURN: Cell<u32> = const { Cell::new(0) };
    }
    let census = Census::new([7; 16], 2000);
    let seen = |turn: u32| {
        let at = Timestamp::from_unix_seconds(1_800_000_000);
        let [.., last] = turn.to_be_bytes();
        ObservedSession {
            backend: Backend {
                destination: DestinationId([1, 2, 3, 4]),
                host: SocketAddr::from(([10, 0, 0, last % 100], 8080)),
                live_for: 1200,
            },
            session: SessionIdentity::Token((turn / 100 % sessions).wrapping_mul(0x9e37_79b9).to_be_bytes()),
            began: at,
            at,
        }
    };
    for turn in 0..sessions * 100 {
        census.record(&seen(turn));
    }
    bencher.bench(|| {
        let turn = TURN.get();
        TURN.set(turn.wrapping_add(1));
        census.record(&seen(turn));
    });
}
