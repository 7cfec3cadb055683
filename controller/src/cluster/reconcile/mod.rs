//! Everything that is written to the cluster. A reconciler compares what is there with what is wanted, and writes the
//! difference.
//!
//! - [`reconcile_loop`]: the loop that all of them run in. `turns`: in which order they write what several namespaces
//!   have.
//! - [`status`]: statuses and Events. [`keyring`], [`fences`], `memory`: the Secret and the `ConfigMap`s that Limpet
//!   keeps. [`config_map`]: how a ConfigMap is kept.
//! - [`certificates`]: for xDS, in Secrets. `own_secret`: how the Secrets of keyring and authority are written.
//! - [`deletion_costs`]: which pods a scale-down takes first.
//! - [`services`]: the Services of `XBackend`s. [`manifests`]: objects for another control plane.
//! - [`replicas`]: what replicas tell each other of their Envoys. [`delivery`]: whether Envoys have what was published.
//! - [`diagnostics`]: what is wrong with the controller's own objects.

pub(super) mod certificates;
pub(super) mod config_map;
pub(super) mod deletion_costs;
pub(super) mod delivery;
pub(super) mod diagnostics;
pub(super) mod fences;
pub(super) mod keyring;
pub(super) mod manifests;
mod memory;
mod own_secret;
pub(super) mod reconcile_loop;
pub(super) mod replicas;
pub(super) mod reported;
pub(super) mod services;
pub(super) mod status;
#[cfg(test)]
mod test_server;
mod turns;
