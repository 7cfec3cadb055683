//! A Service's endpoints, from its EndpointSlices.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use limpet_api::ObjectName;

/// The fields of an EndpointSlice (discovery.k8s.io/v1) that are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The Service that it belongs to, by its label `kubernetes.io/service-name`.
    pub service: ObjectName,
    /// The number of each port, by name. The name is empty if the Service has one port only.
    pub ports: BTreeMap<String, u16>,
    /// Its endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}

/// One endpoint of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// Its address.
    pub address: std::net::IpAddr,
    /// Which sessions may use it.
    pub state: EndpointState,
    /// The uid of the pod that has the address. The same address with another owner is another backend.
    pub owner: Option<Arc<str>>,
}

/// Which sessions may use an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointState {
    /// New sessions and existing ones (`ready`).
    Ready,
    /// Existing sessions only (`serving` and `terminating`).
    Draining,
}

/// An endpoint of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Address and port.
    pub address: SocketAddr,
    /// Which sessions may use it.
    pub state: EndpointState,
    /// The uid of the pod that has the address.
    pub owner: Option<Arc<str>>,
}

/// The endpoints of a port, sorted, each address once. An endpoint may be in two slices for a moment; it is ready if
/// either slice says so.
#[must_use]
pub fn endpoints<'a>(slices: impl IntoIterator<Item = &'a EndpointSlice>, port_name: &str) -> Vec<Endpoint> {
    let mut all: Vec<Endpoint> = slices
        .into_iter()
        .filter_map(|slice| slice.ports.get(port_name).map(|port| (slice, *port)))
        .flat_map(|(slice, port)| {
            slice.endpoints.iter().map(move |endpoint| Endpoint {
                address: SocketAddr::new(endpoint.address, port),
                state: endpoint.state,
                owner: endpoint.owner.clone(),
            })
        })
        .collect();
    all.sort();
    all.dedup_by(|next, kept| next.address == kept.address);
    all
}
