//! The harness of the end-to-end tests: a real Envoy with a configuration from `envoy-configs/`, real backends and
//! clients.
//!
//! A test names the configuration that it starts from, what it changes, and what a client then sees:
//!
//! ```no_run
//! # async fn test() -> anyhow::Result<()> {
//! use limpet_e2e::{Config, Site};
//!
//! let site = Site::start(Config::load("cookie.yaml")?).await?;
//! let mut visitor = site.visitor();
//! let first = visitor.get("/").await?;
//! assert_eq!(visitor.get("/").await?.backend(), first.backend());
//! # Ok(()) }
//! ```
//!
//! Every Envoy has free ports, so tests run side by side. An Envoy serves one test after another ([`Envoy::serve`]);
//! [`Config::alone`] asks for one of its own. Tests do not sleep for a fixed time: they wait for a condition with
//! [`poll::until`].

#![allow(clippy::indexing_slicing, reason = "JSON by index: what is not there is null")]

mod backend;
mod body;
#[cfg(feature = "browser")]
mod browser;
mod build;
mod carrier;
pub mod chaos;
mod client;
#[cfg(feature = "kube")]
mod clock;
mod config;
mod cookie;
mod crowd;
mod envoy;
#[cfg(feature = "node")]
pub mod first_page;
pub mod haproxy;
#[cfg(feature = "chart")]
pub mod helm;
mod keyring;
#[cfg(feature = "kube")]
pub mod kube;
pub mod leaks;
pub mod poll;
mod processor;
#[cfg(feature = "monitoring")]
pub mod prometheus;
#[cfg(feature = "protocols")]
pub mod protocols;
mod raw;
#[cfg(any(feature = "images", feature = "node"))]
mod registry;
mod site;
mod steady_load;
pub mod tools;

pub use backend::{Answering, Backend, Protocol, Reply, Seen, Tasks};
pub use body::{Body, BoxError, Upload};
#[cfg(feature = "browser")]
pub use browser::Browser;
pub use build::Build;
pub use carrier::{Carrier, filter_with_both};
#[cfg(feature = "tls")]
pub use client::Tls;
pub use client::{Answer, Connection, Exchange, Informational, Request, UnansweredRequest, Visitor};
#[cfg(feature = "kube")]
pub use clock::clock_off_by;
pub use config::{Config, OTHER_KEY, TEST_KEY, filter_with};
pub use cookie::SetCookie;
pub use crowd::{Crowd, Journey, Journeys, Visit};
pub use envoy::{Admin, Envoy};
pub use keyring::{KeyEncryptionKey, Keyring};
pub use processor::{Scheduled, kibibytes};
pub use raw::{Fields, RawAnswer, RawUpstream, raw_get};
#[cfg(any(feature = "images", feature = "node"))]
pub use registry::Registry;
pub use site::Site;
pub use steady_load::{SteadyLoad, is_whole, milliseconds, worst};
