//! Properties of every token, cookie header, duration and configuration.
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

mod applications;
mod bound_elsewhere;
mod configuration;
mod cookie_header;
mod durations;
mod query;
mod spellings;
mod tables;
mod token;
