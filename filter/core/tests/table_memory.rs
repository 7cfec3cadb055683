//! The memory of a table of clients.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;
use std::time::Duration;

use allocation_counter::measure;
use limpet_core::source::{EntryKey, SharedTable, SourceRules, SourceTable};
use limpet_core::time::Timestamp;
use limpet_core::token::{Claims, DestinationId};

const BYTES: i64 = 120;

fn key(client: u32) -> EntryKey {
    EntryKey::of_client(u128::from(client).to_be_bytes(), 1)
}

fn claims(client: u32) -> Claims {
    let now = Timestamp::from_unix_seconds(1_763_718_000).after(Duration::from_millis(client.into()));
    Claims {
        host: SocketAddr::from(([10, 0, 0, 7], 8080)),
        destination: DestinationId([0; 4]),
        issued_at: now,
        last_seen: now,
    }
}

/// Measured while the table fills, and while others replace the oldest.
#[test]
fn an_entry_takes_at_most_120_bytes() {
    for entries in [1_000, 100_000, 1_000_000] {
        let mut table = None;
        let rules = SourceRules {
            entries,
            ..SourceRules::DEFAULT
        };
        let mut taken = measure(|| table = Some(SharedTable::new(&rules))).bytes_current;
        let table = table.unwrap();
        let of_entry = |taken: i64| taken / i64::try_from(table.len()).unwrap();
        let mut most = 0;
        for client in 0..entries + entries / 2 {
            taken += measure(|| _ = table.put(&key(client), &claims(client)).unwrap()).bytes_current;
            if client > entries / 16 && client % (entries / 128) == 0 {
                most = most.max(of_entry(taken));
            }
        }
        assert_eq!(table.len(), entries as usize);
        println!(
            "{entries}: at most {most} bytes for an entry, {} when it is full",
            of_entry(taken)
        );
        assert!(most <= BYTES, "{most} bytes for an entry of {entries}");
        taken += measure(|| drop(table)).bytes_current;
        assert_eq!(taken, 0, "bytes that stay");
    }
}
