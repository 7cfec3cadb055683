//! The Kubernetes test bed: a real API server with etcd, Kubernetes' own controllers, pods that answer requests, and a
//! stock Envoy.
//!
//! Each test has a namespace in a cluster that all tests of a binary share:
//!
//! ```no_run
//! # async fn test() -> anyhow::Result<()> {
//! use limpet_e2e::kube::{Cluster, Release};
//!
//! let cluster = Cluster::shared(Release::V1_7_0).await?;
//! let namespace = cluster.namespace("shop").await?;
//! namespace.service("web", &[("app", "web")]).await?;
//! let mut pod = namespace.pod("web-a", &[("app", "web")]).await?;
//! let slice = namespace.endpoints("web", |endpoints| endpoints.len() == 1).await?;
//! assert_eq!(slice[0].address, pod.address());
//! pod.drain().await?;
//! # Ok(()) }
//! ```
//!
//! All of it runs in a network namespace (`e2e/tools/in-netns.sh`), where every address of 10.66.0.0/16 is local: the
//! API server refuses loopback addresses in `EndpointSlices`.

mod certificates;
mod client;
mod cluster;
mod controller;
mod controllers;
mod daemon;
mod definitions;
#[cfg(feature = "node")]
mod deployment;
mod envoy_gateway;
mod istio;
mod kinds;
mod manifest;
mod namespace;
mod network;
#[cfg(feature = "node")]
mod node;
mod pod;
mod pod_template;
mod proxy;
mod release;
mod root;
mod server;
mod user;

pub use client::{Client, Refusal, refused};
pub use cluster::Cluster;
pub use controller::{Controller, Output, filter};
pub use daemon::Daemon;
#[cfg(feature = "node")]
pub use deployment::{application, has_condition, service_of, until_led, until_rolled_out};
pub use envoy_gateway::EnvoyGateway;
pub use istio::{Gateway, Istiod};
pub use namespace::{Endpoint, Namespace};
pub use network::Network;
#[cfg(feature = "node")]
pub use node::Node;
pub use pod::{POD_PORT, Pod};
pub use proxy::Proxy;
pub use release::Release;
pub use server::{ApiServer, AuditedRequest};
pub use user::User;
