//! The images that are shipped, and the static command in them.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

mod command;
mod content;
mod dns;
mod layout;
mod published;
mod sbom;
mod signatures;
mod wasm;
