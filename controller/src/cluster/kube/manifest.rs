//! Reads objects from manifests in the same way as from watches.

use serde_json::Value;

use super::config_maps::{self, RawConfigMap};
use super::decode::{self, Entry, Form};
use super::item::Item;
use super::secrets::{self, RawSecret};
use super::watch;
use limpet_api::Kind;
use limpet_model::{Authorities, Certificate};

/// Reads an object of a kind. `None`: an EndpointSlice that belongs to no Service.
///
/// # Errors
/// If it has no valid metadata. Any other mistake is reported in the entry, as for objects from a watch.
pub(crate) fn from_manifest(kind: Kind, value: Value, controller: &str) -> Result<Option<Entry>, serde_json::Error> {
    Ok(match decode::form(kind) {
        Form::Slice => watch::slice_entry(serde_json::from_value(value)?),
        Form::Item(form) => {
            let item: Item = serde_json::from_value(value)?;
            Some(decode::entry(kind, form, item, controller))
        }
    })
}

/// Reads the certificate in a Secret.
///
/// # Errors
/// If the Secret holds no certificate.
pub(crate) fn secret_from_manifest(value: Value) -> Result<Certificate, String> {
    let secret: RawSecret = serde_json::from_value(value).map_err(|error| error.to_string())?;
    secrets::read(&secret)
}

/// Reads the authorities in a ConfigMap.
///
/// # Errors
/// If the ConfigMap holds none.
pub(crate) fn config_map_from_manifest(value: Value) -> Result<Authorities, String> {
    let config_map: RawConfigMap = serde_json::from_value(value).map_err(|error| error.to_string())?;
    config_maps::read(&config_map)
}
