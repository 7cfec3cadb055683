//! Reads objects from manifests in the same way as from watches.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::FIELD_MANAGER;
use super::config_maps::{self, RawConfigMap};
use super::decode::{self, DecodedObject, KindForm};
use super::item::WatchItem;
use super::pod::{PodMeta, RawPod};
use super::secrets::{self, RawSecret};
use super::watch;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use limpet_api::Kind;
use limpet_model::{Authorities, Certificate};

/// `None`: an EndpointSlice that belongs to no Service. Fails without valid metadata; other mistakes are in the entry,
/// as for a watch.
pub(crate) fn from_manifest(kind: Kind, value: Value, controller: &str) -> Result<Option<DecodedObject>, String> {
    match decode::form(kind) {
        KindForm::Slice => read(value).map(watch::slice_entry),
        KindForm::Item(form) => {
            let item: WatchItem = read(value)?;
            Ok(Some(decode::entry(kind, form, item, controller)))
        }
    }
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    let meta = value.get("metadata").cloned();
    serde_json::from_value(value).map_err(|error| {
        let wrong = meta.and_then(|meta| serde_path_to_error::deserialize::<_, ObjectMeta>(meta).err());
        wrong.map_or_else(|| error.to_string(), |wrong| format!("metadata.{wrong}"))
    })
}

/// Fails without valid metadata.
pub(crate) fn pod_from_manifest(value: Value) -> Result<Option<PodMeta>, String> {
    read::<RawPod>(value).map(|pod| PodMeta::read(&pod, FIELD_MANAGER))
}

pub(crate) fn secret_from_manifest(value: Value) -> Result<Certificate, String> {
    let secret: RawSecret = serde_json::from_value(value).map_err(|error| error.to_string())?;
    secrets::read(&secret)
}

pub(crate) fn config_map_from_manifest(value: Value) -> Result<Authorities, String> {
    let config_map: RawConfigMap = serde_json::from_value(value).map_err(|error| error.to_string())?;
    config_maps::read(&config_map)
}
