//! What a session is.
//!
//! This crate knows no proxy, no clock and no source of randomness: an adapter hands it a view of a request or response,
//! the time and random bytes, and carries out what it answers.
//!
//! - [`token`]: what a client carries; sealed or signed, bound to a scope.
//! - [`keyring`]: the keys, and which one signs.
pub mod cache_control;
pub mod carrier;
pub mod keyring;
pub mod time;
pub mod token;
