//! Sessions without a token: a table says which backend an address has.
//!
//! The table is the adapter's: the dynamic module's is shared by all workers ([`SharedTable`]), the wasm filter's is in
//! Envoy's shared data ([`EntryBucket`]).

mod client;
mod entry_bucket;
mod shared_table;
mod table;
mod table_shard;

pub use client::{EntryKey, SourceRules};
pub use entry_bucket::EntryBucket;
pub use shared_table::{SharedTable, SharedTables};
pub use table::SourceTable;

pub(crate) use client::ScopeId;
