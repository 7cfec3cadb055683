//! The rules for configurations. Tests find a problem by the path of its field, not by its words.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
#![allow(
    clippy::format_collect,
    clippy::needless_pass_by_value,
    clippy::unnecessary_wraps,
    reason = "a test is to be read"
)]

mod base;

mod begin;
mod carriers;
mod further;
mod keyring_document;
mod keys;
mod moves;
mod places;
mod policies;
mod policy_json;
mod rebalance;
mod references;
mod reports;
mod sds_keys;
mod secrets;
mod shape;
mod source;
mod wrapped_keys;
