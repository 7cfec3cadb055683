//! Sessions from outside: a filter, a fake proxy, and clients that keep their tokens.
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

mod world;

mod also;
mod begin;
mod caching;
mod census;
mod cookie;
mod cost;
mod end;
mod fences;
mod former_lags;
mod header;
mod issuing;
mod keys;
mod modes;
mod moves;
mod name_conflicts;
mod newest;
mod per_scope;
mod preflight;
mod query;
mod rebalance;
mod redirects;
mod remembered;
mod renamed;
mod routes;
mod source;
mod splits;
mod strict;
mod tell;
mod time;
