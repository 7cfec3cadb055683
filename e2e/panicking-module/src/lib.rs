//! The dynamic module with panics on demand.
//!
//! The boundary to Envoy and all other files are the shipped ones. Configurations and streams are wrapped so that they
//! panic on demand: a request names the hooks in the header `x-panic`, and a configuration or the configuration of a
//! route contains `panic-in-<hook>` in its text.

#[path = "../../../filter/dynamic-module/src"]
mod shipped {
    pub(crate) mod abi;
    pub(crate) mod census;
    pub(crate) mod discovered;
    pub(crate) mod host;
    pub(crate) mod plugin;
    pub(crate) mod reporter;
    pub(crate) mod specifier;
    pub(crate) mod stream;
}

// The shipped files look for each other at the root of the crate.
mod plugin;
mod specifier;
mod stream;
use shipped::{abi, census, discovered, host, reporter};
