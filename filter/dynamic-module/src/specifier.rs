//! The cluster specifier of a split route: which cluster a request goes to.
//!
//! Envoy asks when it has found the route, before any filter, and again when the filter of a session tells it to
//! ([`crate::host`]). A route knows no filter, so what the filter has found out is in the request's dynamic metadata.

use limpet_core::Specifier;
use limpet_core::envoy::{DESTINATION_KEY, METADATA_NAMESPACE};

use crate::abi::{self, Choosing, Level};

/// Reads the configuration of a cluster specifier. If it is refused, logs the reason and returns `None`.
pub(crate) fn configure(json: &[u8]) -> Option<Specifier> {
    let specifier = if abi::has_specifiers() {
        Specifier::parse(json).map_err(|error| error.to_string())
    } else {
        Err("Envoy has all that it needs from 1.40 on, and this one is older".to_owned())
    };
    specifier
        .inspect_err(|error| abi::log(Level::Error, &format!("limpet: cluster specifier refused: {error}")))
        .ok()
}

/// The cluster for a request.
pub(crate) fn choose<'s>(specifier: &'s Specifier, request: &Choosing<'_>) -> &'s str {
    let said = request.metadata(METADATA_NAMESPACE, DESTINATION_KEY);
    specifier.choose(said, request.random())
}
