//! The xDS server.
//!
//! [`Snapshots`] take what the nodes of a group are to have, [`Server`] serves it, and [`Status`] tells what became of it.
//!
//! - `group`: the resources of a group, and what changed since when. Pure.
//! - `subscriber`: one stream of a node, in either form of the protocol: what is to be sent next. Pure.
//! - `snapshots`, `status`, `counters`: what publishers and observers see.
//! - `service`, `server`, `tls`: gRPC.

mod counters;
mod group;
mod server;
mod service;
mod snapshots;
mod status;
mod subscriber;
#[cfg(test)]
mod tests;
mod tls;
mod wire;

pub use counters::{Counts, TypeCounts};
pub use server::{Options, Security, Server, ServerError};
pub use snapshots::Snapshots;
pub use status::{Node, Progress, Refusal, Status};
pub use tls::{TlsError, TlsFiles};
