//! An incremental and state-of-the-world xDS server for Envoy: resources in, streams out.
//!
//! It knows neither Kubernetes nor what the resources mean, so any control plane can use it:
//!
//! 1. Publish the resources of each group of nodes with [`Snapshots::publish`]. A node's group is its `node.cluster`.
//! 2. Serve them with [`Server::bind`] and [`Server::serve`]: ADS, and ECDS for nodes that take only the filter's
//!    configuration. A [`ReportHandler`] receives what nodes report of their traffic.
//! 3. Ask [`AckStatus`] which nodes are connected, what they have acknowledged, and what they refuse and why.
//!
//! ```no_run
//! use limpet_resources::{Resource, ResourceType, Resources};
//! use limpet_xds::{Server, ServerOptions, ServerSecurity, Snapshots};
//!
//! # async fn serve(cluster: Vec<u8>) -> Result<(), limpet_xds::ServerError> {
//! let snapshots = Snapshots::new();
//! let resources: Resources = [Resource::new(ResourceType::Cluster, "backend", cluster)].into_iter().collect();
//! snapshots.publish("default/web", resources);
//!
//! let options = ServerOptions {
//!     address: ([127, 0, 0, 1], 18000).into(),
//!     security: ServerSecurity::PlaintextOnLoopback,
//! };
//! let server = Server::bind(options, snapshots.clone()).await?;
//! server.serve(std::future::pending()).await
//! # }
//! ```
//!
//! What a publisher can rely on (see `design/xds.md`):
//!
//! - Nothing is queued. A node gets the last of many changes, and an unchanged resource is never sent again, not even
//!   by another server: versions are hashes of contents.
//! - Order is kept between types (make before break).
//! - A refused response is halved until the bad resource is found; the others are accepted. A refused resource is not
//!   sent again until it changes, except for listeners, whose port may have been taken for a while.
//! - Changed certificates are used for the next connection ([`TlsFiles`], [`TlsInMemory`]).
//! - A connection ends after seven tenths of its client's certificate's life, so that the client shows a renewed one
//!   (it counts as connected meanwhile), and within a second when the certificate's authority is not trusted any more.
//! - Virtual hosts are sent one by one to nodes that can take them so, and within their route configurations to others.
//! - Units of the preflight are accepted by a node before its routes change: see [`Resources::insert_unit`].
//!
//! [`Resources::insert_unit`]: limpet_resources::Resources::insert_unit
//!
//! What a client can cost is bounded: handshakes, connections and streams by address and by node, the names that it
//! asks for, and its reports, which are decoded one at a time. [`Peer`] has what a certificate says of a client, and
//! [`Permission`] decides which groups it gets. [`Admission`] is also for other ports of the process.
//!
//! Inside, `group` (what changed when), `subscriber` (what to send next on one stream), `admission`, `limits`,
//! `log_rate` and `loads` are pure.

mod accept;
mod admission;
mod certificates;
mod connection;
mod counters;
mod group;
mod hosts;
mod intake;
mod judgement;
mod limits;
mod loads;
mod log_rate;
mod peer;
mod permission;
mod raw;
mod renewal;
mod reports;
mod server;
mod service;
mod snapshots;
mod status;
mod subscriber;
#[cfg(test)]
mod tests;
mod tls;
mod validity;
mod wire;

pub use admission::{Admission, AdmissionPermit};
pub use certificates::Certificates;
pub use counters::{PreflightCounts, RejectionReason, TypeCounts, XdsCounts};
pub use loads::RequestLoad;
pub use log_rate::LogRate;
pub use peer::{CertificateIdentity, Origin, Peer};
pub use permission::Permission;
pub use reports::{NodeReport, ReportHandler};
pub use server::{Server, ServerError, ServerOptions, ServerSecurity};
pub use snapshots::Snapshots;
pub use status::{AckProgress, AckStatus, ConnectedNode, RefusedResource, RefusedUnit};
pub use tls::{TlsError, TlsFiles, TlsInMemory, TlsPem};
pub use validity::{CertificateRole, CertificateUse, Validity};
