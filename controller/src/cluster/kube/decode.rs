use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::item::WatchItem;
use super::own_status::ObservedStatus;
use super::pruned::pruned;
use limpet_api::{
    BackendTlsPolicySpec, CertificateDelegationSpec, DecodeError, EnvoyDeploymentSpec, GatewayClassSpec, GatewaySpec,
    GrpcRouteSpec, HttpRouteSpec, Ingress, IngressRouteSpec, Kind, Object, ObjectName, ReferenceGrantSpec, ServiceSpec,
    SessionPolicySpec, XBackendSpec, readable,
};
use limpet_model::endpoints::EndpointSlice;
use limpet_model::{MANAGED_BY, SessionPolicyKind, reads_annotation};
use limpet_outputs::istio::PERSISTENT_SESSION;

#[derive(Debug)]
pub(crate) struct DecodedObject {
    pub(super) name: ObjectName,
    pub(super) uid: String,
    pub(super) version: String,
    /// For kinds whose statuses we write.
    pub(super) status: Option<ObservedStatus>,
    pub(super) content: ObjectContent,
}

#[derive(Debug)]
pub(super) enum ObjectContent {
    GatewayClass(Object<GatewayClassSpec>),
    Gateway(Object<GatewaySpec>),
    HttpRoute(Object<HttpRouteSpec>),
    GrpcRoute(Object<GrpcRouteSpec>),
    ReferenceGrant(Object<ReferenceGrantSpec>),
    Service(Object<ServiceSpec>),
    SessionPolicy(SessionPolicyKind, Object<SessionPolicySpec>),
    XBackend(Object<XBackendSpec>),
    BackendTlsPolicy(Object<BackendTlsPolicySpec>),
    /// Boxed, because it is much larger than the others.
    EnvoyDeployment(Box<Object<EnvoyDeploymentSpec>>),
    IngressRoute(Object<IngressRouteSpec>),
    CertificateDelegation(Object<CertificateDelegationSpec>),
    Namespace(BTreeMap<String, String>),
    Slice(EndpointSlice),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum KindForm {
    /// Ports and endpoints, see [`super::slice`].
    Slice,
    Item(ItemForm),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum ItemForm {
    /// Of a Namespace, only the labels.
    Labels,
    Spec(fn(&Value) -> ObjectContent),
    /// Also where its load balancer can be reached, from its status.
    Service,
}

pub(super) fn form(kind: Kind) -> KindForm {
    let spec: fn(&Value) -> ObjectContent = match kind {
        Kind::EndpointSlice => return KindForm::Slice,
        Kind::Namespace => return KindForm::Item(ItemForm::Labels),
        Kind::Service => return KindForm::Item(ItemForm::Service),
        Kind::BackendLbPolicy => {
            |value| ObjectContent::SessionPolicy(SessionPolicyKind::BackendLbPolicy, readable(value))
        }
        Kind::BackendTlsPolicy => |value| ObjectContent::BackendTlsPolicy(readable(value)),
        Kind::XBackendTrafficPolicy => {
            |value| ObjectContent::SessionPolicy(SessionPolicyKind::XBackendTrafficPolicy, readable(value))
        }
        Kind::EnvoyDeployment => |value| ObjectContent::EnvoyDeployment(Box::new(readable(value))),
        Kind::Gateway => |value| ObjectContent::Gateway(readable(value)),
        Kind::GatewayClass => |value| ObjectContent::GatewayClass(readable(value)),
        Kind::GrpcRoute => |value| ObjectContent::GrpcRoute(readable(value)),
        Kind::HttpRoute => |value| ObjectContent::HttpRoute(readable(value)),
        Kind::IngressRoute => |value| ObjectContent::IngressRoute(readable(value)),
        Kind::TlsCertificateDelegation => |value| ObjectContent::CertificateDelegation(readable(value)),
        Kind::ReferenceGrant => |value| ObjectContent::ReferenceGrant(readable(value)),
        Kind::XBackend => |value| ObjectContent::XBackend(readable(value)),
    };
    KindForm::Item(ItemForm::Spec(spec))
}

/// Reads an object. `controller`: our `controllerName`, whose entries are our part of the status.
pub(super) fn entry(kind: Kind, form: ItemForm, item: WatchItem, controller: &str) -> DecodedObject {
    let mut meta = item.metadata;
    if kind == Kind::IngressRoute {
        // Without /status in the definition, each write of a status increments it.
        meta.generation = None;
    }
    DecodedObject {
        name: ObjectName::new(
            meta.namespace.as_deref().unwrap_or_default(),
            meta.name.as_deref().unwrap_or_default(),
        ),
        uid: meta.uid.clone().unwrap_or_default(),
        version: meta.resource_version.clone().unwrap_or_default(),
        status: ObservedStatus::new(kind, &item.status, controller),
        content: match form {
            ItemForm::Labels => ObjectContent::Namespace(meta.labels.unwrap_or_default()),
            ItemForm::Spec(read) => read(&with_spec(kind, meta, item.spec)),
            ItemForm::Service => {
                let mut service: Object<ServiceSpec> = readable(&with_spec(kind, meta, item.spec));
                service.spec.ingress = ingress(&item.status);
                ObjectContent::Service(service)
            }
        },
    }
}

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

/// Drops unread metadata, because a namespace could fill memory with annotations of 256 KiB in each object.
fn ours(mut meta: ObjectMeta) -> Value {
    meta.managed_fields = None;
    meta.owner_references = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.retain(|name, _| reads_annotation(name));
    }
    if let Some(labels) = &mut meta.labels {
        labels.retain(|name, _| [MANAGED_BY, PERSISTENT_SESSION].contains(&name.as_str()));
    }
    serde_json::to_value(meta).unwrap_or_default()
}

impl ObjectContent {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Annotations may have 256 KiB in each object.
    #[test]
    fn annotations_that_are_not_read_took_memory() {
        let read = [
            "limpet.dev/service",
            "session.limpet.dev/strct",
            "projectcontour.io/upstream-protocol.h2",
            "kubernetes.io/ingress.class",
        ];
        let others = [
            "kubectl.kubernetes.io/last-applied-configuration",
            "notlimpet.dev/a",
            "limpet.dev",
            "a",
        ];
        let annotations: BTreeMap<&str, &str> = read.into_iter().chain(others).map(|name| (name, "x")).collect();
        let labels = json!({MANAGED_BY: "limpet", PERSISTENT_SESSION: "", "app": "web"});
        let item: WatchItem = serde_json::from_value(json!({
            "metadata": {"namespace": "shop", "name": "web", "annotations": annotations, "labels": labels},
            "spec": {"ports": []},
        }))
        .unwrap();
        let entry = entry(Kind::Service, ItemForm::Service, item, "limpet.dev/controller");
        let ObjectContent::Service(service) = entry.content else {
            panic!("expected a Service: {:?}", entry.content)
        };
        let kept: Vec<&str> = service.meta.annotations.keys().map(String::as_str).collect();
        assert_eq!(kept.len(), read.len(), "{kept:?}");
        assert!(read.iter().all(|name| kept.contains(name)), "{kept:?}");
        let labels: Vec<&str> = service.meta.labels.keys().map(String::as_str).collect();
        assert_eq!(labels, [MANAGED_BY, PERSISTENT_SESSION]);
    }
}
