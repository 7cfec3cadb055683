use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::api::{
    self, GatewayClassSpec, GatewaySpec, GrpcRouteSpec, HttpRouteSpec, Object, ObjectName, ReferenceGrantSpec,
    ServiceSpec, SessionPolicySpec, XBackendSpec,
};
use crate::model::endpoints::EndpointSlice;
use crate::model::{Malformed, SessionPolicyKind};
use crate::status::{Digest, digest};

use super::item::Item;
use super::kind::Kind;

/// An object, read.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) name: ObjectName,
    pub(super) uid: String,
    pub(super) version: String,
    /// Of a kind that has a status of ours: what of it is ours.
    pub(super) status: Option<Digest>,
    pub(super) content: Result<Content, Malformed>,
}

/// What an object says.
#[derive(Debug)]
pub(super) enum Content {
    GatewayClass(Object<GatewayClassSpec>),
    Gateway(Object<GatewaySpec>),
    HttpRoute(Object<HttpRouteSpec>),
    GrpcRoute(Object<GrpcRouteSpec>),
    ReferenceGrant(Object<ReferenceGrantSpec>),
    Service(Object<ServiceSpec>),
    SessionPolicy(SessionPolicyKind, Object<SessionPolicySpec>),
    XBackend(Object<XBackendSpec>),
    Namespace(BTreeMap<String, String>),
    Slice(EndpointSlice),
}

/// Reads an object of a kind. Our status is what stands under `controller`, our controllers' name.
pub(super) fn entry(kind: Kind, item: Item, controller: &str) -> Entry {
    let meta = item.metadata;
    let name = ObjectName::new(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    );
    let uid = meta.uid.clone().unwrap_or_default();
    let version = meta.resource_version.clone().unwrap_or_default();
    let status = digest(kind, &item.status, controller);
    if kind == Kind::Namespace {
        return Entry {
            name,
            uid,
            version,
            status,
            content: Ok(Content::Namespace(meta.labels.unwrap_or_default())),
        };
    }
    let generation = meta.generation.unwrap_or_default();
    let mut value = Map::new();
    let meta = ours(meta);
    value.insert("metadata".to_owned(), meta);
    value.extend(item.spec.map(|spec| ("spec".to_owned(), spec)));
    let content = content(kind, &Value::Object(value)).map_err(|error| Malformed {
        generation,
        field: error.field,
        message: error.message,
    });
    Entry {
        name,
        uid,
        version,
        status,
        content,
    }
}

/// The metadata that `crate::api` reads; the rest is never kept.
fn ours(mut meta: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Value {
    meta.managed_fields = None;
    meta.owner_references = None;
    // What kubectl keeps there is the object once more.
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    serde_json::to_value(meta).unwrap_or_default()
}

fn content(kind: Kind, value: &Value) -> Result<Content, api::DecodeError> {
    fn read<S: DeserializeOwned + Default>(value: &Value) -> Result<Object<S>, api::DecodeError> {
        api::object(value)
    }
    Ok(match kind {
        Kind::BackendLbPolicy => Content::SessionPolicy(SessionPolicyKind::BackendLbPolicy, read(value)?),
        Kind::XBackendTrafficPolicy => Content::SessionPolicy(SessionPolicyKind::XBackendTrafficPolicy, read(value)?),
        Kind::Gateway => Content::Gateway(read(value)?),
        Kind::GatewayClass => Content::GatewayClass(read(value)?),
        Kind::GrpcRoute => Content::GrpcRoute(read(value)?),
        Kind::HttpRoute => Content::HttpRoute(read(value)?),
        Kind::ReferenceGrant => Content::ReferenceGrant(read(value)?),
        Kind::XBackend => Content::XBackend(read(value)?),
        // Namespaces and EndpointSlices are read elsewhere.
        Kind::Service | Kind::Namespace | Kind::EndpointSlice => Content::Service(read(value)?),
    })
}
