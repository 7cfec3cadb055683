//! What the objects mean: [`build`] turns them into a [`Graph`] and [`Reports`].
//!
//! All of it is pure: no kube, no clock, no environment; objects in, a graph and the conditions of every object out. An invalid reference stays in the
//! graph as what it is (a destination that answers 500, with its weight), and in a report with its field's path, so that one bad object never affects
//! another's traffic.
//!
//! Endpoints do not go through the graph: clusters name their Service, and a change of its EndpointSlices touches one Envoy resource
//! ([`endpoints`]).

mod assemble;
mod build;
mod certificate;
pub mod endpoints;
mod foreign;
mod gateways;
pub mod graph;
mod objects;
mod problem;
mod references;
pub mod reports;
mod routes;
mod session_fields;
mod sessions;
mod settings;
/// Hashes for names.
pub mod short_hash;
mod unread;
mod unsupported;

pub use build::build;
pub use certificate::Certificate;
pub use graph::Graph;
pub use objects::{Objects, SessionPolicyKind, SessionPolicyName};
pub use references::{MANAGED_BY, MANAGER, References, Referrer, is_ours, selector_service};
pub use reports::Reports;
pub use session_fields::{CookiePath, SessionFields};
pub use sessions::check_defaults;
pub use settings::{CONTROLLER_NAME, Gateways, Settings};
pub use short_hash::short_hash;
pub use unsupported::{Extent, Unsupported};
