use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::item::dynamic_resource;
use limpet_api::ObjectName;
use limpet_model::endpoints::{EndpointSlice, RawEndpoint, RawPort};

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// Only the needed part (discovery.k8s.io/v1), because there are many slices.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawSlice {
    pub(super) metadata: ObjectMeta,
    ports: Option<Vec<RawPort>>,
    endpoints: Option<Vec<RawEndpoint>>,
}

dynamic_resource!(RawSlice);

/// `None`: the slice belongs to no Service.
pub(super) fn slice(item: RawSlice) -> Option<EndpointSlice> {
    let namespace = item.metadata.namespace.unwrap_or_default();
    let labels = item.metadata.labels.unwrap_or_default();
    let service = labels.get(SERVICE_LABEL)?;
    let service = ObjectName::new(&namespace, service);
    let (ports, endpoints) = (item.ports.unwrap_or_default(), item.endpoints.unwrap_or_default());
    Some(EndpointSlice::read(service, ports, endpoints))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use limpet_model::endpoints::{EndpointState, SliceEndpoint};
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Option<EndpointSlice> {
        slice(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn a_slice_is_read_as_far_as_it_is_needed() {
        let read = read(json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "shop-x", "namespace": "web", "labels": {"kubernetes.io/service-name": "shop"}},
            "addressType": "IPv4",
            "ports": [
                {"name": "http", "port": 8080, "protocol": "TCP", "appProtocol": "http"},
                {"port": 9000},
                {"name": "dns", "port": 53, "protocol": "UDP"},
                {"name": "any"}
            ],
            "endpoints": [
                {
                    "addresses": ["10.0.0.1", "10.0.0.9"], "conditions": {"ready": true},
                    "targetRef": {"kind": "Pod", "name": "shop-0", "uid": "u-1"}, "zone": "a", "nodeName": "n-1"
                },
                {
                    "addresses": ["fd00::1"], "conditions": {"ready": false, "serving": true, "terminating": true},
                    "targetRef": {"kind": "Machine", "name": "shop-1"}
                },
                {"addresses": ["10.0.0.3"], "conditions": {"ready": false}},
                {"addresses": ["a.example.com"]},
                {"addresses": []}
            ]
        }));
        let endpoint = |address: &str, state, [owner, pod, node]: [Option<&str>; 3]| SliceEndpoint {
            address: address.parse().unwrap(),
            state,
            owner: owner.map(Arc::from),
            pod: pod.map(Arc::from),
            node: node.map(Arc::from),
        };
        let expected = EndpointSlice {
            service: ObjectName::new("web", "shop"),
            ports: [("http".to_owned(), 8080), (String::new(), 9000)].into_iter().collect(),
            endpoints: vec![
                endpoint(
                    "10.0.0.1",
                    EndpointState::Ready,
                    [Some("u-1"), Some("shop-0"), Some("n-1")],
                ),
                endpoint("fd00::1", EndpointState::Draining, [None; 3]),
            ],
        };
        assert_eq!(read, Some(expected));
    }

    #[test]
    fn a_slice_of_no_service_is_none() {
        assert_eq!(
            read(json!({"metadata": {"name": "x", "namespace": "web"}, "ports": null, "endpoints": null})),
            None
        );
    }
}
