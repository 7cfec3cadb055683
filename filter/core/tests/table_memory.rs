//! The memory of a table of clients, which may come from anywhere and be as many as the policy allows.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::alloc::System;
use std::net::SocketAddr;
use std::time::Duration;

use limpet_core::source::{Key, Rules, SharedTable, Table};
use limpet_core::time::Timestamp;
use limpet_core::token::{Claims, Destination};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// What an entry may take.
const BYTES: usize = 120;

fn key(client: u32) -> Key {
    Key::of_client(u128::from(client).to_be_bytes(), 1)
}

fn claims(client: u32) -> Claims {
    let now = Timestamp::from_unix_seconds(1_763_718_000).after(Duration::from_millis(client.into()));
    Claims {
        host: SocketAddr::from(([10, 0, 0, 7], 8080)),
        destination: Destination([0; 4]),
        issued_at: now,
        last_seen: now,
    }
}

/// The table is measured again and again while it fills, and then while others come in the place of the oldest.
#[test]
fn an_entry_takes_at_most_120_bytes() {
    for entries in [1_000, 100_000, 1_000_000] {
        let region = Region::new(COUNTING);
        let taken = || {
            let stats = region.change();
            stats.bytes_allocated - stats.bytes_deallocated
        };
        let table = SharedTable::new(&Rules {
            entries,
            ..Rules::DEFAULT
        });
        let mut most = 0;
        for client in 0..entries + entries / 2 {
            table.put(&key(client), &claims(client)).unwrap();
            if client > entries / 16 && client % (entries / 128) == 0 {
                most = most.max(taken() / table.len());
            }
        }
        assert_eq!(table.len(), entries as usize);
        println!(
            "{entries}: at most {most} bytes for an entry, {} when it is full",
            taken() / table.len()
        );
        assert!(most <= BYTES, "{most} bytes for an entry of {entries}");
        drop(table);
        // The test harness has some of its own.
        assert!(taken() < 32 * 1024, "{} bytes stay", taken());
    }
}
