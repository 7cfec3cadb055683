//! What holds for every token, cookie header, duration and configuration, not only for the examples at hand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]

mod bound_elsewhere;
mod configuration;
mod cookie_header;
mod durations;
mod spellings;
mod token;
