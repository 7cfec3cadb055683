//! Sessions without a token: a table says which backend an address has.
//!
//! The core decides what an entry means. Where the table lives is the adapter's: the dynamic module has one for all
//! workers ([`SharedTable`]), the wasm filter keeps one in Envoy's shared data ([`Places`]).

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
