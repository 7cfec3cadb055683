//! The Limpet filter as a dynamic module of Envoy: an adapter. [`host`] answers the core's questions with callbacks,
//! and [`stream`] carries out its plans.
//!
//! [`abi`] has all unsafe code, and keeps panics out of Envoy. All workers share the [`plugin::Plugin`] of a
//! configuration.

mod abi;
mod census;
mod discovered_filter;
mod host;
mod plugin;
mod reporter;
mod specifier;
mod stream;
