//! Cluster specifiers of which one with a cluster `panic-in-select` panics when it would choose it.

use limpet_core::Specifier;

use crate::abi::ClusterSelection;
use crate::plugin::panic_where;
use crate::shipped::specifier as shipped;

pub(crate) fn configure(json: &[u8]) -> Option<Specifier> {
    panic_where(json, "specifier_config_new");
    shipped::configure(json)
}

pub(crate) fn choose<'s>(specifier: &'s Specifier, request: &ClusterSelection<'_>) -> &'s str {
    let chosen = shipped::choose(specifier, request);
    panic_where(chosen.as_bytes(), "select");
    chosen
}
