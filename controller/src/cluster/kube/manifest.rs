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

/// Reads an object of a kind. `None`: an EndpointSlice that belongs to no Service.
///
/// # Errors
/// If it has no valid metadata. Any other mistake is reported in the entry, as for objects from a watch.
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

/// Reads what is kept of a pod.
///
/// # Errors
/// If it has no valid metadata.
pub(crate) fn pod_from_manifest(value: Value) -> Result<Option<PodMeta>, String> {
    read::<RawPod>(value).map(|pod| PodMeta::read(&pod, FIELD_MANAGER))
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
