//! What Limpet does in a real Envoy, as a client sees it.
#![allow(clippy::indexing_slicing, reason = "a failed index is a failed test")]

mod application_cookies;
mod bad_configurations;
mod begins_and_ends;
mod carriers;
mod clusters;
mod comparison;
mod contour;
mod cookie_session;
mod demo;
mod deployments;
mod dynamic_module;
mod ecds;
mod envoy_configs;
mod failover;
mod forged_headers;
mod gateway_api;
mod header_session;
mod hostile_clients;
mod hostile_upstreams;
mod internal_redirects;
mod keys;
mod leaks;
mod lifetimes;
mod linkage;
mod local_replies;
mod memory;
mod modes;
mod moves;
mod name_conflicts;
mod observability;
mod outputs;
mod panics;
mod policies;
mod protocols;
#[allow(clippy::expect_used, unreachable_pub, reason = "that of the fuzz targets")]
#[path = "../../../filter/fuzz/src/random.rs"]
mod random;
mod refusals;
mod revoked_keys;
mod sds_keys;
mod shared_caches;
mod source_session;
mod splits;
mod tokens;
mod vm_memory;
mod wrapped_keys;
