//! What a configuration may be. Every rule has a test that finds the field by its path, whatever the words.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod base;

mod carriers;
mod keys;
mod policies;
mod references;
mod secrets;
mod shape;
