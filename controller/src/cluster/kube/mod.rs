//! Objects from the API server.
//!
//! - `discovery`: which kinds are served, and in which versions. `definitions`: when to ask again.
//! - `watch`: one watch for each kind (and namespace). It decodes objects one by one, so that one that cannot be read
//!   is reported as malformed and affects no other. `follow`: continues after failures.
//! - `named_object`: follows one object by its name. `secrets`, `config_maps`, `nodes`: such watches of each object
//!   that others name, as `references` finds them.
//! - `pods`: a watch of the metadata of pods, which may be refused. `pod`: what is kept of them.
//! - `lists`: one read, for commands.
//! - [`Store`]: the present state. Only watches write to it, by [`StoreUpdate`]s, so it needs no locks.
//! - `client`, `reach`: the way to the API server. `backoff`: waits after failures.
//! - `own_status`: our part of a status. `pruned`: fields that the API server leaves out.
//! - `zeroizing_secret`: a Secret in memory. `delete`: deletes an object that was seen. `levels`, `truncated_object`:
//!   JSON of any depth.
//!
//! The store is our own: the reflector of kube keeps objects in the form of the API, needs a type that every object
//! fits, and cannot tell whether an update changed anything that we read.

mod backoff;
mod certificate;
mod client;
mod config_maps;
mod decode;
mod definitions;
mod delete;
mod discovery;
mod follow;
mod item;
mod kind;
mod levels;
mod lists;
mod manifest;
pub(crate) mod named_object;
mod nodes;
mod own_status;
mod pod;
mod pods;
mod pruned;
mod reach;
mod reader;
mod references;
mod secrets;
mod slice;
mod store;
mod truncated_object;
mod update;
mod watch;
mod zeroizing_secret;

pub(crate) use backoff::Backoff;
pub(crate) use certificate::{authorities, read as certificate};
pub(crate) use client::{ApiConnection, FIELD_MANAGER, connect};
pub(crate) use delete::delete;
pub(crate) use kind::versions;
pub(crate) use lists::{ListError, ListedStatus, Lists};
pub(crate) use manifest::{config_map_from_manifest, from_manifest, pod_from_manifest, secret_from_manifest};
#[cfg(test)]
pub(crate) use own_status::ObservedStatus;
pub(crate) use own_status::{
    CONTOUR_FIELDS, EntryList, StatusDigest, is_own_condition, is_own_entry, items, status_digest,
};
pub(crate) use pod::{DELETION_COST, DeletionCost, PodDeletion, PodMeta, writer_of_costs};
pub(crate) use pruned::pruned;
pub(crate) use reach::words;
pub(crate) use reader::{ObjectReader, WatchSettings};
pub(crate) use references::ReferencedObject;
#[cfg(test)]
pub(crate) use store::ObservedObjectStatus;
pub(crate) use store::{Observation, PodDeletions, SliceIndex, Store, StoreChange};
pub(crate) use truncated_object::TruncatedObject;
pub(crate) use update::StoreUpdate;
pub(crate) use zeroizing_secret::ZeroizingSecret;
