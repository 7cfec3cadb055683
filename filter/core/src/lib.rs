//! What a session is.
//!
//! This crate knows no proxy, no clock and no randomness. An adapter passes the time and a view of a request or
//! response, and carries out the plan that it gets:
//!
//! ```text
//! configuration -> Filter --session(request)--> Session --on_request--> RequestPlan  --carry_out--> Actions
//!                                                       --on_response-> ResponsePlan --carry_out--> Actions
//! ```
//!
//! - [`config`]: the configuration's schema and checks.
//! - [`Filter`]: a configuration in force; it finds the policy and scope of a request.
//! - [`RouteSession`]: the sessions in a route's metadata.
//! - [`Specifier`]: chooses the cluster of a split, if the proxy allows it.
//! - [`RequestSession`]: one request and its response.
//! - [`view`]: the questions to an adapter. [`Actions`]: what it does for a plan.
//! - [`token`]: what a client carries, sealed or signed and bound to its scope. [`keyring`]: its keys.
//! - [`carrier`]: the cookie, header or query of a token. [`source`]: the table of sessions without one.
//! - [`envoy`]: names that the filter and Envoy's configuration share.
//! - `fakes`: a proxy for tests (a feature).
//! - [`census`]: the living sessions of each backend.
//! - [`address`]: addresses of backends as Envoy writes them.
//! - [`outcome`]: the words of metrics and access logs. [`Counters`]: the counters of a configuration.
#![forbid(unsafe_code)]

mod actions;
pub mod address;
mod also;
mod application;
mod arrival;
mod backend;
mod begin_rule;
mod bound_policies;
mod bound_policy;
mod cache_control;
pub mod carrier;
pub mod census;
pub mod config;
mod counters;
mod end_rule;
pub mod envoy;
#[cfg(any(test, feature = "fakes"))]
pub mod fakes;
mod filter;
pub mod keyring;
mod location;
mod move_request;
mod moves;
mod name_conflict;
mod name_watch;
mod newest_token;
pub mod outcome;
mod plan;
mod redirect;
mod request_tokens;
mod route_session;
mod session;
mod siv;
pub mod source;
mod source_session;
mod specifier;
pub mod time;
pub mod token;
pub mod view;

pub use actions::Actions;
pub use counters::{Counters, DefinedCounters};
pub use filter::{Filter, SessionError};
pub use plan::{HeaderEdit, KeyChange, NameConflict, RefusedMove, RequestPlan, ResponsePlan, Steering};
pub use redirect::UnansweredRequests;
pub use route_session::{RouteSession, RouteSessionError, Split, scope_of_cluster};
pub use session::RequestSession;
pub use specifier::Specifier;
