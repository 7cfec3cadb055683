//! The Limpet filter as a dynamic module of Envoy: a shared library that Envoy loads into its own process.
//!
//! An adapter and no more: it answers the core's questions by callbacks ([`host`]) and carries out its plans
//! ([`stream`]). What a session is, the core says.
//!
//! Envoy's interface is C. [`abi`] binds the part that is needed, by hand, and is the only file with unsafe code; it
//! also keeps panics from crossing into Envoy. Workers share one [`plugin::Plugin`] per configuration.

mod abi;
mod discovered;
mod host;
mod plugin;
mod stream;
