//! All writes to the cluster. A reconciler compares what exists with what is wanted, and writes the difference.
//!
//! - [`reconcile_loop`]: the loop of all of them. `turns`: the order of namespaces.
//! - [`status`]: statuses and Events. [`keyring`], [`fences`], `memory`: in a Secret and two `ConfigMap`s.
//!   [`config_map`]: how a ConfigMap is kept.
//! - [`certificates`]: for xDS, in Secrets. `own_secret`: writes the Secrets of keyring and authority.
//! - [`deletion_costs`]: which pods a scale-down takes first.
//! - [`services`]: for `XBackend`s. [`manifests`]: objects for another control plane.
//! - [`replicas`]: their reports on Envoys. [`delivery`]: whether Envoys have what was published.
//! - [`diagnostics`]: problems of the controller's own objects.

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
