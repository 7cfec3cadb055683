//! The Limpet filter as a dynamic module of Envoy: a shared library that Envoy loads into its own process.
//!
//! This crate is an adapter: it answers the core's questions with callbacks ([`host`]) and carries out its plans
//! ([`stream`]). Every decision about a session is made in the core.
//!
//! Envoy's interface is C. [`abi`] binds the part of it that is needed. It is the only file with unsafe code, and it
//! keeps panics out of Envoy. All workers share the [`plugin::Plugin`] of a configuration.

mod abi;
mod census;
mod discovered;
mod host;
mod plugin;
mod reporter;
mod specifier;
mod stream;
