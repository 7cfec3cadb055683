use std::collections::BTreeMap;

use serde_json::{Map, Value};

use limpet_api::{
    DecodeError, GatewayClassSpec, GatewaySpec, GrpcRouteSpec, HttpRouteSpec, Object, ObjectName, ReferenceGrantSpec,
    ServiceSpec, SessionPolicySpec, XBackendSpec, readable,
};
use limpet_model::SessionPolicyKind;
use limpet_model::endpoints::EndpointSlice;

use super::item::Item;
use super::kind::Kind;
use super::own_status::{Digest, status_digest};

/// An object, read.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) name: ObjectName,
    pub(super) uid: String,
    pub(super) version: String,
    /// Of a kind that has a status of ours: what of it is ours.
    pub(super) status: Option<Digest>,
    pub(super) content: Content,
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
    let status = status_digest(kind, &item.status, controller);
    if kind == Kind::Namespace {
        return Entry {
            name,
            uid,
            version,
            status,
            content: Content::Namespace(meta.labels.unwrap_or_default()),
        };
    }
    let mut value = Map::new();
    let meta = ours(meta);
    value.insert("metadata".to_owned(), meta);
    value.extend(item.spec.map(|spec| ("spec".to_owned(), spec)));
    Entry {
        name,
        uid,
        version,
        status,
        content: content(kind, &Value::Object(value)),
    }
}

/// The metadata that `limpet_api` reads; the rest is never kept.
fn ours(mut meta: k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Value {
    meta.managed_fields = None;
    meta.owner_references = None;
    // What kubectl keeps there is the object once more.
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
    serde_json::to_value(meta).unwrap_or_default()
}

fn content(kind: Kind, value: &Value) -> Content {
    match kind {
        Kind::BackendLbPolicy => Content::SessionPolicy(SessionPolicyKind::BackendLbPolicy, readable(value)),
        Kind::XBackendTrafficPolicy => {
            Content::SessionPolicy(SessionPolicyKind::XBackendTrafficPolicy, readable(value))
        }
        Kind::Gateway => Content::Gateway(readable(value)),
        Kind::GatewayClass => Content::GatewayClass(readable(value)),
        Kind::GrpcRoute => Content::GrpcRoute(readable(value)),
        Kind::HttpRoute => Content::HttpRoute(readable(value)),
        Kind::ReferenceGrant => Content::ReferenceGrant(readable(value)),
        Kind::XBackend => Content::XBackend(readable(value)),
        // Namespaces and EndpointSlices are read elsewhere.
        Kind::Service | Kind::Namespace | Kind::EndpointSlice => Content::Service(readable(value)),
    }
}

impl Content {
    /// Why it could not be read.
    pub(super) fn malformed(&self) -> Option<&DecodeError> {
        match self {
            Self::GatewayClass(object) => object.malformed.as_ref(),
            Self::Gateway(object) => object.malformed.as_ref(),
            Self::HttpRoute(object) => object.malformed.as_ref(),
            Self::GrpcRoute(object) => object.malformed.as_ref(),
            Self::ReferenceGrant(object) => object.malformed.as_ref(),
            Self::Service(object) => object.malformed.as_ref(),
            Self::SessionPolicy(_, object) => object.malformed.as_ref(),
            Self::XBackend(object) => object.malformed.as_ref(),
            Self::Namespace(_) | Self::Slice(_) => None,
        }
    }
}
