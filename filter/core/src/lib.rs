//! What a session is.
//!
//! This crate knows no proxy, no clock and no source of randomness. An adapter hands it a view of a request or response and
//! the time, and carries out what it answers:
//!
//! ```text
//! configuration -> Filter --session(request)--> Session --on_request--> RequestPlan  (edits, steering)
//!                                                       --on_response-> ResponsePlan (edits)
//! ```
//!
//! - [`config`]: the configuration's schema, and every check on it.
//! - [`Filter`]: a configuration in force; which policy and scope a request belongs to.
//! - [`RouteSession`]: what a route's metadata says of that.
//! - [`Session`]: one request and its response.
//! - [`token`]: what a client carries; sealed or signed, bound to its scope. [`keyring`]: what it is made with.
//! - [`carrier`]: the cookie or header it travels in.
//! - [`names`]: headers, metadata and other names on the wire.
//! - [`address`]: backends' addresses in Envoy's words.
//! - [`outcome`]: the words that metrics and access logs use; [`Counters`]: which counter is whose.
#![forbid(unsafe_code)]

pub mod address;
mod application;
mod bound_policy;
mod cache_control;
pub mod carrier;
pub mod config;
mod counters;
mod filter;
pub mod keyring;
pub mod names;
pub mod outcome;
mod request_tokens;
mod route_session;
mod session;
mod siv;
pub mod time;
pub mod token;
pub mod view;

pub use counters::Counters;
pub use filter::{Filter, SessionError};
pub use route_session::{RouteSession, RouteSessionError};
pub use session::{HeaderEdit, RequestPlan, ResponsePlan, Session, Steering};
