//! Sessions without a token: a table says which backend an address has.
//!
//! The table is the adapter's: the dynamic module's is shared by all workers ([`SharedTable`]), the wasm filter's is in
//! Envoy's shared data ([`Places`]).

mod client;
mod part;
mod places;
mod shared_table;
mod table;

pub use client::{Key, Rules};
pub use places::Places;
pub use shared_table::{SharedTable, Tables};
pub use table::Table;

pub(crate) use client::ScopeId;
