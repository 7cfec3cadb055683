//! Objects from the API server.
//!
//! - `discovery`: which kinds are served, in which versions, again and again: a CRD that comes or goes is noticed within seconds.
//! - `watch`: one watch for each kind (and namespace), which goes on whatever happens to it. Objects are decoded there, one by one, so that one that
//!   can not be read is reported as malformed and no other suffers.
//! - `named_object`: follows one object by its name.
//! - `secrets`: one watch for each Secret that a listener names, and for no other.
//! - [`Store`]: what is there now. Watches send it [`Update`]s; nobody else writes to it, so it has no locks.
//!
//! Discovery is asked on an interval, in place of a watch of the definitions: every authenticated user may ask it, where a watch would need
//! a right of its own on objects that say far more than whether a kind is served, and announce a CRD before its objects can be listed.

mod backoff;
mod certificate;
mod client;
mod decode;
mod discovery;
mod item;
mod kind;
mod manifest;
pub(crate) mod named_object;
mod own_status;
mod reader;
mod secrets;
mod slice;
mod store;
mod watch;

pub(crate) use backoff::Backoff;
pub(crate) use client::{FIELD_MANAGER, connect};
pub(crate) use kind::Kind;
pub(crate) use manifest::{from_manifest, secret_from_manifest};
pub(crate) use own_status::{Digest, EntryList, is_own_condition, is_own_entry, items, status_digest};
pub(crate) use reader::{Reader, Watched};
pub(crate) use store::{Change, Observation, Store};
pub(crate) use watch::Update;
