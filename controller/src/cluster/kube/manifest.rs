//! Objects that come one by one, in the API's own form, instead of from a watch.

use serde_json::Value;

use limpet_model::Certificate;

use super::decode::{self, Entry, Form};
use super::item::Item;
use super::kind::Kind;
use super::secrets::{self, RawSecret};
use super::watch;

/// Reads an object of a kind. `None`: it is a slice of no Service.
///
/// # Errors
/// Its metadata are none. What else is wrong is in the entry, as it is for objects of a watch.
pub(crate) fn from_manifest(kind: Kind, value: Value, controller: &str) -> Result<Option<Entry>, serde_json::Error> {
    Ok(match decode::form(kind) {
        Form::Slice => watch::slice_entry(serde_json::from_value(value)?),
        Form::Item(form) => {
            let item: Item = serde_json::from_value(value)?;
            Some(decode::entry(kind, form, item, controller))
        }
    })
}

/// What a Secret holds.
///
/// # Errors
/// It is no certificate.
pub(crate) fn secret_from_manifest(value: Value) -> Result<Certificate, String> {
    let secret: RawSecret = serde_json::from_value(value).map_err(|error| error.to_string())?;
    secrets::read(&secret)
}
