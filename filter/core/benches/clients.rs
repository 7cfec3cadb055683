//! The table of clients: what a lookup costs among a thousand and among a million, in one run, with threads that share
//! the table. And what it costs to begin a session in a full table.
#![expect(clippy::expect_used, reason = "a benchmark may panic")]

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use divan::{Bencher, black_box};
use limpet_core::source::{EntryBucket, EntryKey, SharedTable, SourceRules, SourceTable};
use limpet_core::time::Timestamp;
use limpet_core::token::{Claims, DestinationId};

const SIZES: [u32; 3] = [1_000, 100_000, 1_000_000];
const THREADS: [usize; 3] = [1, 2, 8];

fn main() {
    divan::main();
}

fn key(client: u32) -> EntryKey {
    EntryKey::of_client(u128::from(client).to_be_bytes(), 1)
}

fn now() -> Timestamp {
    Timestamp::from_unix_seconds(1_763_718_000)
}

fn claims() -> Claims {
    Claims {
        host: SocketAddr::from(([10, 0, 0, 7], 8080)),
        destination: DestinationId([0; 4]),
        issued_at: now(),
        last_seen: now(),
    }
}

/// A table of each size.
type Tables = [OnceLock<SharedTable>; SIZES.len()];

/// The tables of lookups.
static TABLES: Tables = [const { OnceLock::new() }; SIZES.len()];

/// The tables whose clients go, because new ones come.
static CHANGING: Tables = [const { OnceLock::new() }; SIZES.len()];

/// A table with as many clients as it may have.
fn full(tables: &'static Tables, entries: u32) -> &'static SharedTable {
    let place = SIZES.iter().position(|size| *size == entries).expect("a size of these");
    let table = tables.get(place).expect("a table for each size");
    table.get_or_init(|| {
        let table = SharedTable::new(&SourceRules {
            entries,
            ..SourceRules::DEFAULT
        });
        for client in 0..entries {
            table.put(&key(client), &claims()).expect("memory answers");
        }
        table
    })
}

/// A client in an order that no cache could learn, and that begins elsewhere in each thread.
fn any_of(clients: u32) -> u32 {
    static BEGIN: AtomicU32 = AtomicU32::new(0);
    thread_local! {
        static TURN: Cell<u32> = Cell::new(BEGIN.fetch_add(104_729, Ordering::Relaxed));
    }
    let turn = TURN.replace(TURN.get().wrapping_add(1));
    turn.wrapping_mul(2_654_435_761) % clients
}

fn lookups(bencher: Bencher<'_, '_>, entries: u32, asked: u32) {
    let table = full(&TABLES, entries);
    let later = now().after(Duration::from_secs(1));
    bencher.bench(|| {
        let found = table.find(&key(any_of(asked)), later, &|_| true);
        black_box(found.expect("memory answers").expect("an entry"))
    });
}

/// Requests of all clients. What a million of them need is more than the CPU's caches hold.
#[divan::bench(args = SIZES, threads = THREADS, sample_size = 1000)]
fn lookup_of_all(bencher: Bencher<'_, '_>, entries: u32) {
    lookups(bencher, entries, entries);
}

/// Requests of a thousand clients, which the caches hold: the rest is the cost of searching among all of them.
#[divan::bench(args = SIZES, threads = THREADS, sample_size = 1000)]
fn lookup_of_1000_among(bencher: Bencher<'_, '_>, entries: u32) {
    lookups(bencher, entries, 1000);
}

/// A new client, for which another one has to go.
#[divan::bench(args = SIZES, threads = THREADS, sample_size = 1000)]
fn a_new_client_in_a_full_table(bencher: Bencher<'_, '_>, entries: u32) {
    static NEXT: AtomicU32 = AtomicU32::new(10_000_000);
    let table = full(&CHANGING, entries);
    bencher.bench(|| table.put(&key(NEXT.fetch_add(1, Ordering::Relaxed)), &claims()));
}

/// A lookup in the wasm filter's form, without Envoy's part of it.
#[divan::bench]
fn lookup_in_a_full_name(bencher: Bencher<'_, '_>) {
    let rules = SourceRules {
        entries: 1_000_000,
        ..SourceRules::DEFAULT
    };
    let mut places = EntryBucket::default();
    for client in 0..32 {
        places.insert(&key(client), &claims(), &rules, 0);
    }
    let bytes = places.bytes().to_vec();
    bencher.bench(|| black_box(EntryBucket::read(bytes.clone()).find(&key(31))));
}
