use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::item::dynamic_resource;
use limpet_api::ObjectName;
use limpet_model::endpoints::{EndpointSlice, EndpointState, SliceEndpoint};

const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// What is read of an EndpointSlice (discovery.k8s.io/v1). There are many of them, so nothing else is kept in memory.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawSlice {
    pub(super) metadata: ObjectMeta,
    ports: Option<Vec<Port>>,
    endpoints: Option<Vec<RawEndpoint>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Port {
    name: Option<String>,
    #[serde(rename = "port")]
    number: Option<u16>,
    protocol: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawEndpoint {
    addresses: Vec<String>,
    conditions: Option<Conditions>,
    target_ref: Option<TargetRef>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct TargetRef {
    uid: Option<String>,
}

dynamic_resource!(RawSlice);

impl Conditions {
    /// An unknown `ready` counts as true and an unknown `terminating` as false; an unknown `serving` is the same as
    /// `ready`.
    fn state(&self) -> Option<EndpointState> {
        let ready = self.ready.unwrap_or(true);
        if ready {
            return Some(EndpointState::Ready);
        }
        let drains = self.serving.unwrap_or(ready) && self.terminating.unwrap_or(false);
        drains.then_some(EndpointState::Draining)
    }
}

/// `None`: the slice belongs to no Service.
pub(super) fn slice(item: RawSlice) -> Option<EndpointSlice> {
    let namespace = item.metadata.namespace.unwrap_or_default();
    let labels = item.metadata.labels.unwrap_or_default();
    let service = labels.get(SERVICE_LABEL)?;
    let ports: BTreeMap<String, u16> = item
        .ports
        .unwrap_or_default()
        .into_iter()
        .filter(|port| matches!(port.protocol.as_deref(), None | Some("TCP")))
        .filter_map(|port| Some((port.name.unwrap_or_default(), port.number?)))
        .collect();
    let raw = item.endpoints.unwrap_or_default();
    let mut endpoints: Vec<SliceEndpoint> = raw.into_iter().filter_map(endpoint).collect();
    endpoints.shrink_to_fit();
    Some(EndpointSlice {
        service: ObjectName::new(&namespace, service),
        ports,
        endpoints,
    })
}

/// Only the first address counts (discovery.k8s.io/v1, `Endpoint.addresses`). The names in FQDN slices are left out.
fn endpoint(raw: RawEndpoint) -> Option<SliceEndpoint> {
    let address: IpAddr = raw.addresses.first()?.parse().ok()?;
    let state = raw.conditions.unwrap_or_default().state()?;
    let owner = raw.target_ref.and_then(|target| target.uid).map(Arc::from);
    Some(SliceEndpoint { address, state, owner })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: serde_json::Value) -> Option<EndpointSlice> {
        slice(serde_json::from_value(value).unwrap())
    }

    fn state(conditions: serde_json::Value) -> Option<EndpointState> {
        let conditions: Conditions = serde_json::from_value(conditions).unwrap();
        conditions.state()
    }

    #[test]
    fn what_is_said_of_an_endpoint_tells_what_it_may_be_used_for() {
        use EndpointState::{Draining, Ready};
        assert_eq!(state(json!({})), Some(Ready));
        assert_eq!(
            state(json!({"ready": true, "serving": true, "terminating": false})),
            Some(Ready)
        );
        assert_eq!(
            state(json!({"ready": false, "serving": true, "terminating": true})),
            Some(Draining)
        );
        assert_eq!(
            state(json!({"ready": false, "serving": false, "terminating": true})),
            None
        );
        assert_eq!(
            state(json!({"ready": false, "serving": true, "terminating": false})),
            None
        );
        assert_eq!(state(json!({"ready": false, "terminating": true})), None);
        // publishNotReadyAddresses
        assert_eq!(
            state(json!({"ready": true, "serving": false, "terminating": true})),
            Some(Ready)
        );
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
                    "targetRef": {"kind": "Pod", "uid": "u-1"}, "zone": "a"
                },
                {"addresses": ["fd00::1"], "conditions": {"ready": false, "serving": true, "terminating": true}},
                {"addresses": ["10.0.0.3"], "conditions": {"ready": false}},
                {"addresses": ["a.example.com"]},
                {"addresses": []}
            ]
        }));
        let endpoint = |address: &str, state, owner: Option<&str>| SliceEndpoint {
            address: address.parse().unwrap(),
            state,
            owner: owner.map(Arc::from),
        };
        let expected = EndpointSlice {
            service: ObjectName::new("web", "shop"),
            ports: [("http".to_owned(), 8080), (String::new(), 9000)].into(),
            endpoints: vec![
                endpoint("10.0.0.1", EndpointState::Ready, Some("u-1")),
                endpoint("fd00::1", EndpointState::Draining, None),
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
