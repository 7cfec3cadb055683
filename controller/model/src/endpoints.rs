//! A Service's endpoints, from its EndpointSlices.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use limpet_api::ObjectName;

/// What is kept of an EndpointSlice (discovery.k8s.io/v1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointSlice {
    /// The Service that it belongs to, by its label `kubernetes.io/service-name`.
    pub service: ObjectName,
    /// Number by name of its ports; the name is empty where the Service has one port alone.
    pub ports: BTreeMap<String, u16>,
    /// Its endpoints.
    pub endpoints: Vec<SliceEndpoint>,
}

/// One endpoint of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// Its address.
    pub address: std::net::IpAddr,
    /// What it may be used for.
    pub state: EndpointState,
    /// Who has the address: the uid of the pod. Another owner of the same address is another backend.
    pub owner: Option<Arc<str>>,
}

/// What an endpoint may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndpointState {
    /// For everything (`ready`).
    Ready,
    /// For sessions that it has (`serving` and `terminating`).
    Draining,
}

/// An endpoint of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// Address and port.
    pub address: SocketAddr,
    /// What it may be used for.
    pub state: EndpointState,
    /// Who has the address.
    pub owner: Option<Arc<str>>,
}

/// The endpoints of a Service's port, sorted, each address once: ready where any slice says so (an endpoint may be in two slices for a moment).
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
