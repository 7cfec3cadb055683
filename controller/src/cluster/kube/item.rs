use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

/// An object as a watch brings it. It is decoded later, so that one that cannot be decoded does not stop the watch.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Item {
    pub(super) metadata: ObjectMeta,
    pub(super) spec: Option<Value>,
    pub(super) status: Value,
}

/// Implements `kube::Resource` for a type with `metadata`, with the names that discovery found. Debug shows the
/// object's name alone, since the rest may be secret.
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

dynamic_resource!(Item);
