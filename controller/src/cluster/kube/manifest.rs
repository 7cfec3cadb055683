//! Objects that come one by one, in the API's own form, instead of from a watch.

use serde_json::Value;

use limpet_api::Kind;
use limpet_model::Certificate;

use super::decode::{self, Entry};
use super::item::Item;
use super::secrets::{self, RawSecret};
use super::slice::RawSlice;
use super::watch;

/// Reads an object of a kind. `None`: it is a slice of no Service.
///
/// # Errors
/// Its metadata are none. What else is wrong is in the entry, as it is for objects of a watch.
pub(crate) fn from_manifest(kind: Kind, value: Value, controller: &str) -> Result<Option<Entry>, serde_json::Error> {
    if kind == Kind::EndpointSlice {
        let slice: RawSlice = serde_json::from_value(value)?;
        return Ok(watch::slice_entry(slice));
    }
    let item: Item = serde_json::from_value(value)?;
    Ok(Some(decode::entry(kind, item, controller)))
}

/// What a Secret holds.
///
/// # Errors
/// It is no certificate.
pub(crate) fn secret_from_manifest(value: Value) -> Result<Certificate, String> {
    let secret: RawSecret = serde_json::from_value(value).map_err(|error| error.to_string())?;
    secrets::read(&secret)
}
