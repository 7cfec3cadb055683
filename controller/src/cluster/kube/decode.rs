use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::item::Item;
use super::own_status::ObservedStatus;
use super::pruned::{LAST_APPLIED, pruned};
use limpet_api::{
    BackendTlsPolicySpec, CertificateDelegationSpec, DecodeError, EnvoyDeploymentSpec, GatewayClassSpec, GatewaySpec,
    GrpcRouteSpec, HttpRouteSpec, Ingress, IngressRouteSpec, Kind, Object, ObjectName, ReferenceGrantSpec, ServiceSpec,
    SessionPolicySpec, XBackendSpec, readable,
};
use limpet_model::SessionPolicyKind;
use limpet_model::endpoints::EndpointSlice;

/// An object as the store takes it.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) name: ObjectName,
    pub(super) uid: String,
    pub(super) version: String,
    /// If we write statuses of its kind.
    pub(super) status: Option<ObservedStatus>,
    pub(super) content: Content,
}

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
    BackendTlsPolicy(Object<BackendTlsPolicySpec>),
    /// Much larger than the others.
    EnvoyDeployment(Box<Object<EnvoyDeploymentSpec>>),
    IngressRoute(Object<IngressRouteSpec>),
    CertificateDelegation(Object<CertificateDelegationSpec>),
    Namespace(BTreeMap<String, String>),
    Slice(EndpointSlice),
}

/// How objects of a kind are read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Form {
    /// Ports and endpoints, as [`super::slice`] reads them.
    Slice,
    Item(ItemForm),
}

/// How what a watch brings as an [`Item`] is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum ItemForm {
    /// Only the labels matter of a Namespace.
    Labels,
    /// The metadata and the spec.
    Spec(fn(&Value) -> Content),
    /// Of a Service also where its load balancer can be reached, which is in its status.
    Service,
}

pub(super) fn form(kind: Kind) -> Form {
    let spec: fn(&Value) -> Content = match kind {
        Kind::EndpointSlice => return Form::Slice,
        Kind::Namespace => return Form::Item(ItemForm::Labels),
        Kind::Service => return Form::Item(ItemForm::Service),
        Kind::BackendLbPolicy => |value| Content::SessionPolicy(SessionPolicyKind::BackendLbPolicy, readable(value)),
        Kind::BackendTlsPolicy => |value| Content::BackendTlsPolicy(readable(value)),
        Kind::XBackendTrafficPolicy => {
            |value| Content::SessionPolicy(SessionPolicyKind::XBackendTrafficPolicy, readable(value))
        }
        Kind::EnvoyDeployment => |value| Content::EnvoyDeployment(Box::new(readable(value))),
        Kind::Gateway => |value| Content::Gateway(readable(value)),
        Kind::GatewayClass => |value| Content::GatewayClass(readable(value)),
        Kind::GrpcRoute => |value| Content::GrpcRoute(readable(value)),
        Kind::HttpRoute => |value| Content::HttpRoute(readable(value)),
        Kind::IngressRoute => |value| Content::IngressRoute(readable(value)),
        Kind::TlsCertificateDelegation => |value| Content::CertificateDelegation(readable(value)),
        Kind::ReferenceGrant => |value| Content::ReferenceGrant(readable(value)),
        Kind::XBackend => |value| Content::XBackend(readable(value)),
    };
    Form::Item(ItemForm::Spec(spec))
}

/// Reads an object. `controller` is our `controllerName`: entries under it are our part of the status.
pub(super) fn entry(kind: Kind, form: ItemForm, item: Item, controller: &str) -> Entry {
    let mut meta = item.metadata;
    if kind == Kind::IngressRoute {
        // Where the definition has no /status, each write of a status makes another one of the same object.
        meta.generation = None;
    }
    Entry {
        name: ObjectName::new(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        ),
        uid: meta.uid.clone().unwrap_or_default(),
        version: meta.resource_version.clone().unwrap_or_default(),
        status: ObservedStatus::new(kind, &item.status, controller),
        content: match form {
            ItemForm::Labels => Content::Namespace(meta.labels.unwrap_or_default()),
            ItemForm::Spec(read) => read(&with_spec(kind, meta, item.spec)),
            ItemForm::Service => {
                let mut service: Object<ServiceSpec> = readable(&with_spec(kind, meta, item.spec));
                service.spec.ingress = ingress(&item.status);
                Content::Service(service)
            }
        },
    }
}

/// Metadata and spec.
fn with_spec(kind: Kind, meta: ObjectMeta, spec: Option<Value>) -> Value {
    let pruned = pruned(kind, &meta, spec.as_ref());
    let mut meta = ours(meta);
    if !pruned.is_empty()
        && let Value::Object(meta) = &mut meta
    {
        meta.insert("pruned".to_owned(), serde_json::json!(pruned));
    }
    let mut value = Map::from_iter([("metadata".to_owned(), meta)]);
    value.extend(spec.map(|spec| ("spec".to_owned(), spec)));
    Value::Object(value)
}

fn ingress(status: &Value) -> Vec<Ingress> {
    let ingress = status.get("loadBalancer").and_then(|balancer| balancer.get("ingress"));
    let all = ingress.map(Vec::<Ingress>::deserialize);
    all.and_then(Result::ok).unwrap_or_default()
}

/// The metadata that `limpet_api` reads. The rest is dropped to save memory.
fn ours(mut meta: ObjectMeta) -> Value {
    meta.managed_fields = None;
    meta.owner_references = None;
    // kubectl keeps a whole copy of the object there.
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove(LAST_APPLIED);
    }
    serde_json::to_value(meta).unwrap_or_default()
}

impl Content {
    /// Why the object could not be read.
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
            Self::BackendTlsPolicy(object) => object.malformed.as_ref(),
            Self::EnvoyDeployment(object) => object.malformed.as_ref(),
            Self::IngressRoute(object) => object.malformed.as_ref(),
            Self::CertificateDelegation(object) => object.malformed.as_ref(),
            Self::Namespace(_) | Self::Slice(_) => None,
        }
    }
}
