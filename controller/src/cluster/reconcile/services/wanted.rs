use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::cluster::kube::StatusDigest;
use limpet_api::{Object, ObjectName, ServiceSpec, XBackendSpec};
use limpet_model::{MANAGED_BY, MANAGER, Objects, pod_labels, selector_service};

/// By `XBackend`.
pub(super) type ServiceChanges = BTreeMap<ObjectName, ServiceChange>;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ServiceChange {
    pub(super) service: ObjectName,
    /// For a server-side apply. `None`: our Service is not needed any more.
    pub(super) object: Option<Value>,
}

impl ServiceChange {
    pub(super) fn digest(&self) -> StatusDigest {
        let object = self.object.as_ref().map(Value::to_string);
        StatusDigest::of(object.unwrap_or_default().as_bytes())
    }
}

/// `used`: targets of our routes. `api_version`: of `XBackend`s. The cluster itself deletes the Service of a deleted
/// one.
pub(super) fn changes<'a>(
    objects: &Objects,
    used: impl IntoIterator<Item = &'a ObjectName>,
    api_version: &str,
) -> ServiceChanges {
    let mut changes = ServiceChanges::default();
    for name in used {
        let Some(backend) = objects.backends.get(name) else {
            continue;
        };
        let service = selector_service(name);
        if let Some((selector, port)) = pods(&backend.spec) {
            let is = objects.services.get(&service);
            if is.is_none_or(|is| limpet_model::is_ours(is) && !matches(is, selector, port)) {
                let object = Some(object(&service, backend, api_version, selector, port));
                changes.insert(name.clone(), ServiceChange { service, object });
            }
        }
    }
    for (name, backend) in &objects.backends {
        let service = selector_service(name);
        // An unreadable backend may still need its Service.
        if backend.malformed.is_none()
            && pods(&backend.spec).is_none()
            && objects
                .services
                .get(&service)
                .is_some_and(|service| limpet_model::is_ours(service))
        {
            let object = None;
            changes.insert(name.clone(), ServiceChange { service, object });
        }
    }
    changes
}

pub(super) fn is_ours(service: &Service) -> bool {
    let label = service
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(MANAGED_BY));
    label.is_some_and(|by| by == MANAGER)
}

/// The labels and the port of the pods. `None` without labels, or with some that the API server would refuse.
fn pods(spec: &XBackendSpec) -> Option<(&BTreeMap<String, String>, u16)> {
    let labels = pod_labels(spec).ok().filter(|_| spec.kind == "EndpointSelector")?;
    Some((labels, spec.port.as_ref()?.number))
}

fn matches(service: &Object<ServiceSpec>, selector: &BTreeMap<String, String>, port: u16) -> bool {
    let ports: Vec<u16> = service.spec.ports.iter().map(|port| port.port).collect();
    service.spec.selector == *selector && ports == [port]
}

/// A headless Service: Envoys send requests to the pods.
fn object(
    name: &ObjectName,
    owner: &Object<XBackendSpec>,
    api_version: &str,
    selector: &BTreeMap<String, String>,
    port: u16,
) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name.name,
            "namespace": name.namespace,
            "labels": {MANAGED_BY: MANAGER},
            "ownerReferences": [{
                "apiVersion": api_version,
                "kind": "XBackend",
                "name": owner.meta.name,
                "uid": owner.meta.uid,
                "controller": true,
            }],
        },
        "spec": {
            "clusterIP": "None",
            "selector": selector,
            "ports": [{"port": port, "targetPort": port, "protocol": "TCP"}],
        },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use limpet_api::{BackendPort, EndpointSelector, Meta, ServicePort};

    use super::*;

    const VERSION: &str = "gateway.networking.x-k8s.io/v1alpha1";

    fn shop() -> ObjectName {
        ObjectName::new("shop", "blue")
    }

    fn of<S>(meta: Meta, spec: S) -> Object<S> {
        Object {
            meta,
            spec,
            unread: Vec::new(),
            malformed: None,
        }
    }

    /// One XBackend of this type, and its Service with these labels and this port, if any.
    fn objects(kind: &str, service: Option<(&str, u16)>) -> Objects {
        let meta = Meta {
            name: "blue".into(),
            namespace: "shop".into(),
            uid: "1".to_owned(),
            ..Meta::default()
        };
        let selector = BTreeMap::from([("app".to_owned(), "blue".to_owned())]);
        let spec = XBackendSpec {
            kind: kind.to_owned(),
            endpoint_selector: Some(EndpointSelector {
                match_labels: selector.clone(),
            }),
            port: Some(BackendPort { number: 8080 }),
            ..XBackendSpec::default()
        };
        let mut objects = Objects::default();
        objects.backends.insert(shop(), of(meta, spec).into());
        if let Some((by, port)) = service {
            let meta = Meta {
                labels: [(MANAGED_BY.to_owned(), by.to_owned())].into(),
                ..Meta::default()
            };
            let port = ServicePort {
                port,
                ..ServicePort::default()
            };
            let spec = ServiceSpec {
                ports: vec![port],
                selector,
                ..ServiceSpec::default()
            };
            objects
                .services
                .insert(selector_service(&shop()), of(meta, spec).into());
        }
        objects
    }

    #[test]
    fn a_missing_or_changed_service_is_written() {
        let name = selector_service(&shop());
        for service in [None, Some((MANAGER, 8081))] {
            let found = changes(&objects("EndpointSelector", service), [&shop()], VERSION);
            assert_eq!(found[&shop()].service, name);
            let object = found[&shop()].object.as_ref().unwrap();
            assert_eq!(object["spec"]["selector"], json!({"app": "blue"}));
            assert_eq!(object["spec"]["ports"][0]["port"], 8080);
            assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], "1");
        }
    }

    #[test]
    fn what_is_right_or_not_used_is_left_alone() {
        let right = objects("EndpointSelector", Some((MANAGER, 8080)));
        assert_eq!(changes(&right, [&shop()], VERSION), ServiceChanges::default());
        let unused = objects("EndpointSelector", None);
        assert_eq!(changes(&unused, [], VERSION), ServiceChanges::default());
        let unknown = changes(&unused, [&ObjectName::new("shop", "red")], VERSION);
        assert_eq!(unknown, ServiceChanges::default());
    }

    #[test]
    fn a_backend_that_cannot_be_read_keeps_its_service() {
        let mut objects = objects("", Some((MANAGER, 8080)));
        let malformed = limpet_api::DecodeError {
            field: "spec.port".to_owned(),
            message: "a number".to_owned(),
        };
        let backend = objects.backends.get_mut(&shop()).unwrap();
        Arc::make_mut(backend).malformed = Some(malformed);
        assert_eq!(changes(&objects, [&shop()], VERSION), ServiceChanges::default());
    }

    #[test]
    fn our_service_goes_when_its_backend_selects_no_pods() {
        let ours = changes(&objects("ExternalHostname", Some((MANAGER, 8080))), [&shop()], VERSION);
        let gone = ServiceChange {
            service: selector_service(&shop()),
            object: None,
        };
        assert_eq!(ours, [(shop(), gone)].into());
        let others = objects("ExternalHostname", Some(("somebody", 8080)));
        assert_eq!(changes(&others, [&shop()], VERSION), ServiceChanges::default());
        let others = objects("EndpointSelector", Some(("somebody", 8081)));
        assert_eq!(changes(&others, [&shop()], VERSION), ServiceChanges::default());
    }
}
