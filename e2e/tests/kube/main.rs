//! What Limpet's controller does in a real cluster with a real Envoy.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

mod admission;
mod at_rest;
mod authority;
mod backend_tls;
mod certificates;
mod changes;
mod checks;
mod clusters;
mod contour;
mod controller;
mod debug_page;
mod definitions;
mod deletion_costs;
mod demo;
mod deploy;
mod drained;
mod elsewhere;
mod envoys;
mod explain;
mod failures;
mod fences;
mod folder;
mod kept;
mod keyring;
mod misdirected;
#[cfg(feature = "monitoring")]
mod monitoring;
mod mounted;
mod moves;
mod objects;
mod overview;
mod pages;
mod rebalance;
mod revoked_keys;
mod rule_names;
mod sessions;
mod site;
mod status;
mod test_bed;
mod traffic;
mod upgrade;
mod xds;
