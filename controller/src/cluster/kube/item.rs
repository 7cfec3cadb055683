use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::levels::{self, LEVELS};

/// An object of a watch. It is decoded later, so that one that cannot be decoded does not stop the watch.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct WatchItem {
    /// Its `managedFields` have as many levels as the fields.
    #[serde(deserialize_with = "metadata")]
    pub(super) metadata: ObjectMeta,
    #[serde(deserialize_with = "spec")]
    pub(super) spec: Option<Value>,
    #[serde(deserialize_with = "status")]
    pub(super) status: Value,
}

fn metadata<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let (metadata, _) = levels::read(deserializer)?;
    ObjectMeta::deserialize(metadata).map_err(D::Error::custom)
}

/// In place of a `spec` that is too deep, a text, which no kind takes for its `spec`.
fn spec<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Ok(Some(match levels::read(deserializer)? {
        (spec, true) => spec,
        (_, false) => format!("more than {LEVELS} levels").into(),
    }))
}

fn status<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    levels::read(deserializer).map(|(status, _)| status)
}

/// Implements `kube::Resource` for a type with `metadata`, with the names from discovery. Debug shows only the object's
/// name, since the rest may be secret.
macro_rules! dynamic_resource {
    ($item:ty) => {
        impl std::fmt::Debug for $item {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($item))
                    .field("namespace", &self.metadata.namespace)
                    .field("name", &self.metadata.name)
                    .finish_non_exhaustive()
            }
        }

        impl kube::Resource for $item {
            type DynamicType = kube::core::ApiResource;
            type Scope = kube::core::DynamicResourceScope;

            fn kind(resource: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                resource.kind.as_str().into()
            }

            fn group(resource: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                resource.group.as_str().into()
            }

            fn version(resource: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                resource.version.as_str().into()
            }

            fn api_version(resource: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                resource.api_version.as_str().into()
            }

            fn plural(resource: &Self::DynamicType) -> std::borrow::Cow<'_, str> {
                resource.plural.as_str().into()
            }

            fn meta(&self) -> &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(super) use dynamic_resource;

dynamic_resource!(WatchItem);
