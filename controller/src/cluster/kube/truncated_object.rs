use std::borrow::Cow;
use std::ops::Deref;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicObject, DynamicResourceScope};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::levels;

/// An object of any kind, read as far as [`levels::LEVELS`]. Deeper parts are `null`, so that no object makes a list
/// unreadable.
#[derive(Debug, Clone)]
pub(crate) struct TruncatedObject(pub(crate) DynamicObject);

impl<'de> Deserialize<'de> for TruncatedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (object, _) = levels::read(deserializer)?;
        DynamicObject::deserialize(object).map(Self).map_err(D::Error::custom)
    }
}

impl Deref for TruncatedObject {
    type Target = DynamicObject;

    fn deref(&self) -> &DynamicObject {
        &self.0
    }
}

impl Resource for TruncatedObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::kind(resource)
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::group(resource)
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::version(resource)
    }

    fn api_version(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::api_version(resource)
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        DynamicObject::plural(resource)
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}
