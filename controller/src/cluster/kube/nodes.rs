//! The nodes of Envoys whose Service has the type `NodePort`.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde::Deserialize;

use super::item::dynamic_resource;
use super::named_object::{self, ObservedObject};
use super::update::{StoreUpdate, UpdateSender};
use limpet_api::ObjectName;
use limpet_model::{Objects, is_node_port};

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawNode {
    metadata: ObjectMeta,
    status: NodeStatus,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    addresses: Vec<NodeAddress>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct NodeAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

dynamic_resource!(RawNode);

pub(super) async fn watch(client: Client, name: ObjectName, updates: UpdateSender) {
    let update = |found: ObservedObject<RawNode>| {
        let found = match found {
            Ok(node) => node.as_ref().map(|node| Ok(addresses(node))),
            Err(_) => Some(Err(
                "limpet has no right to read it: grant list and watch on nodes".to_owned()
            )),
        };
        StoreUpdate::Node(name.clone(), found)
    };
    named_object::send(client, ("Node", "nodes"), &name, &updates, update).await;
}

/// The external addresses, else the internal ones.
fn addresses(node: &RawNode) -> Vec<String> {
    let of = |kind: &str| {
        let all = node.status.addresses.iter();
        let all = all.filter(|address| address.kind == kind);
        all.map(|address| address.address.clone()).collect::<Vec<_>>()
    };
    let external = of("ExternalIP");
    if external.is_empty() {
        of("InternalIP")
    } else {
        external
    }
}

pub(super) fn referenced(objects: &Objects) -> BTreeSet<ObjectName> {
    let by_node = objects.readiness.iter().filter(|(service, _)| {
        let service = objects.services.get(*service);
        service.is_some_and(|service| is_node_port(&service.spec))
    });
    let nodes = by_node.flat_map(|(_, readiness)| &readiness.nodes);
    nodes.map(|node| ObjectName::new("", node)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    #[test]
    fn addresses_from_outside_count_over_those_inside() {
        let read = |addresses: Value| {
            let node = json!({"metadata": {"name": "one"}, "status": {"addresses": addresses}});
            super::addresses(&serde_json::from_value(node).unwrap())
        };
        let inside = json!([
            {"type": "Hostname", "address": "one"},
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "InternalIP", "address": "fd00::1"},
        ]);
        assert_eq!(read(inside), ["10.0.0.1", "fd00::1"]);
        let both = json!([
            {"type": "InternalIP", "address": "10.0.0.1"},
            {"type": "ExternalIP", "address": "192.0.2.1"},
        ]);
        assert_eq!(read(both), ["192.0.2.1"]);
        assert!(read(json!([])).is_empty());
    }
}
