//! A Service's endpoints, from its EndpointSlices.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use limpet_api::ObjectName;
use serde::Deserialize;

use super::few::FewMap;

/// The fields of an EndpointSlice (discovery.k8s.io/v1) that are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The Service that it belongs to, by its label `kubernetes.io/service-name`.
    pub service: ObjectName,
    /// The ports by name, which is empty if the Service has one port only.
    pub ports: FewMap<String, u16>,
    /// Its endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}

/// One endpoint of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// Its address.
    pub address: IpAddr,
    /// The sessions that may use it.
    pub state: EndpointState,
    /// The uid of the address's pod. With another owner, the address is another backend.
    pub owner: Option<Arc<str>>,
    /// The pod's name.
    pub pod: Option<Arc<str>>,
    /// The pod's node.
    pub node: Option<Arc<str>>,
}

/// Where the pods of a Service can be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readiness {
    /// Whether a pod is ready.
    pub any: bool,
    /// The nodes with a ready one.
    pub nodes: BTreeSet<Arc<str>>,
}

/// The sessions that may use an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointState {
    /// New sessions and existing ones (`ready`).
    Ready,
    /// Existing sessions only (`serving` and `terminating`, or its pod drains).
    Draining,
}

/// The annotation by which a pod drains. Its value says since when, to people.
pub const DRAIN: &str = "session.limpet.dev/drain";

/// An endpoint of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Address and port.
    pub address: SocketAddr,
    /// The sessions that may use it.
    pub state: EndpointState,
    /// The uid of the address's pod.
    pub owner: Option<Arc<str>>,
    /// The pod's name.
    pub pod: Option<Arc<str>>,
}

/// A port of a slice, as it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RawPort {
    name: Option<String>,
    #[serde(rename = "port")]
    number: Option<u16>,
    protocol: Option<String>,
}

/// An endpoint of a slice, as it is read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RawEndpoint {
    addresses: Vec<String>,
    conditions: Option<Conditions>,
    target_ref: Option<TargetRef>,
    node_name: Option<String>,
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
    kind: Option<String>,
    name: Option<String>,
    uid: Option<String>,
}

impl EndpointSlice {
    /// Reads a slice of this Service, without ports other than TCP, named addresses, and endpoints that no session may
    /// use.
    #[must_use]
    pub fn read(service: ObjectName, ports: Vec<RawPort>, endpoints: Vec<RawEndpoint>) -> Self {
        let ports = ports
            .into_iter()
            .filter(|port| matches!(port.protocol.as_deref(), None | Some("TCP")))
            .filter_map(|port| Some((port.name.unwrap_or_default(), port.number?)));
        let mut nodes = BTreeSet::new();
        let endpoints = endpoints.into_iter();
        let mut endpoints: Vec<SliceEndpoint> = endpoints.filter_map(|raw| raw.kept(&mut nodes)).collect();
        endpoints.shrink_to_fit();
        Self {
            service,
            ports: ports.collect(),
            endpoints,
        }
    }
}

impl RawEndpoint {
    /// Only the first address counts (discovery.k8s.io/v1, `Endpoint.addresses`). Names in FQDN slices are left out.
    fn kept(self, nodes: &mut BTreeSet<Arc<str>>) -> Option<SliceEndpoint> {
        let address: IpAddr = self.addresses.first()?.parse().ok()?;
        let state = self.conditions.unwrap_or_default().state()?;
        let TargetRef { kind, name, uid } = self.target_ref.unwrap_or_default();
        let pod = name.filter(|_| kind.as_deref() == Some("Pod")).map(Arc::from);
        let node = self.node_name.map(|name| shared(nodes, &name));
        Some(SliceEndpoint {
            address,
            state,
            owner: uid.map(Arc::from),
            pod,
            node,
        })
    }
}

/// Many endpoints share the allocation of a name.
fn shared(known: &mut BTreeSet<Arc<str>>, name: &str) -> Arc<str> {
    if let Some(known) = known.get(name) {
        return Arc::clone(known);
    }
    let name: Arc<str> = name.into();
    known.insert(Arc::clone(&name));
    name
}

impl Conditions {
    /// An unknown `ready` counts as true and an unknown `terminating` as false; an unknown `serving` is `ready`.
    fn state(&self) -> Option<EndpointState> {
        let ready = self.ready.unwrap_or(true);
        if ready {
            return Some(EndpointState::Ready);
        }
        let drains = self.serving.unwrap_or(ready) && self.terminating.unwrap_or(false);
        drains.then_some(EndpointState::Draining)
    }
}

/// The endpoints of a port, sorted, each address once. An endpoint may be in two slices for a moment; it is ready if
/// either slice says so, and `drains` does not.
pub fn endpoints<'a>(
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    port_name: &str,
    drains: impl Fn(&SliceEndpoint) -> bool,
) -> Vec<Endpoint> {
    let mut all: Vec<Endpoint> = slices
        .into_iter()
        .filter_map(|slice| slice.ports.get(port_name).map(|port| (slice, *port)))
        .flat_map(|(slice, port)| {
            let endpoints = slice.endpoints.iter();
            endpoints.map(move |endpoint| (endpoint, port))
        })
        .map(|(endpoint, port)| {
            let state = if drains(endpoint) {
                EndpointState::Draining
            } else {
                endpoint.state
            };
            Endpoint {
                address: SocketAddr::new(endpoint.address, port),
                state,
                owner: endpoint.owner.clone(),
                pod: endpoint.pod.clone(),
            }
        })
        .collect();
    all.sort();
    all.dedup_by(|next, kept| next.address == kept.address);
    all
}

/// Where the pods of these slices are ready.
#[must_use]
pub fn readiness<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>) -> Readiness {
    let endpoints = slices.into_iter().flat_map(|slice| &slice.endpoints);
    let mut readiness = Readiness::default();
    for endpoint in endpoints.filter(|endpoint| endpoint.state == EndpointState::Ready) {
        readiness.any = true;
        readiness.nodes.extend(endpoint.node.clone());
    }
    readiness
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
}
