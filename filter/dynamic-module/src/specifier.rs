//! Which cluster a request of a split route goes to.
//!
//! Envoy asks before any filter, and again when a session's filter demands it ([`crate::host`]). The filter's result is
//! in dynamic metadata, because a route knows no filter.

use limpet_core::Specifier;
use limpet_core::envoy::{DESTINATION_KEY, METADATA_NAMESPACE};

use crate::abi::{self, ClusterSelection, LogLevel};

pub(crate) fn configure(json: &[u8]) -> Option<Specifier> {
    let specifier = if abi::has_specifiers() {
        Specifier::parse(json).map_err(|error| error.to_string())
    } else {
        Err("Envoy has all that it needs from 1.40 on, and this one is older".to_owned())
    };
    specifier
        .inspect_err(|error| abi::log(LogLevel::Error, &format!("limpet: cluster specifier refused: {error}")))
        .ok()
}

pub(crate) fn choose<'s>(specifier: &'s Specifier, request: &ClusterSelection<'_>) -> &'s str {
    let said = request.metadata(METADATA_NAMESPACE, DESTINATION_KEY);
    specifier.choose(said, request.random())
}
