//! The dynamic module with panics on demand.
//!
//! The boundary to Envoy and all other files are the shipped ones; configurations and streams are wrapped. A request
//! names the hooks that panic in the header `x-panic`; a configuration, also of a route, contains `panic-in-<hook>`.

#[path = "../../../filter/dynamic-module/src"]
mod shipped {
    pub(crate) mod abi;
    pub(crate) mod census;
    pub(crate) mod discovered_filter;
    pub(crate) mod host;
    pub(crate) mod plugin;
    pub(crate) mod reporter;
    pub(crate) mod specifier;
    pub(crate) mod stream;
}

// The shipped files look for each other at the crate's root.
mod plugin;
mod specifier;
mod stream;
use shipped::{abi, census, discovered_filter, host, reporter};
