//! The dynamic module with panics on demand.
//!
//! The boundary to Envoy is the shipped file, and so is everything else; but configurations and streams are wrapped, so
//! that they panic where they are told to: a request says where by the header `x-panic`, a configuration and a route's
//! session by their text, `panic-in-<hook>`.

#[path = "../../../filter/dynamic-module/src"]
mod shipped {
    pub(crate) mod abi;
    pub(crate) mod discovered;
    pub(crate) mod host;
    pub(crate) mod plugin;
    pub(crate) mod stream;
}

// Where the shipped files look for each other.
mod plugin;
mod stream;
use shipped::{abi, discovered, host};
