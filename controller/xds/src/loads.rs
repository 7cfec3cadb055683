//! What Envoy's load reports say of requests in flight.

use std::net::SocketAddr;

use limpet_core::token::DestinationId;
use prost::{DecodeError, Message};

use super::limits;

/// Requests in flight to a host of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLoad {
    /// The hash of the cluster's name.
    pub destination: DestinationId,
    /// The host.
    pub host: SocketAddr,
    /// Requests and streams that have not ended.
    pub in_flight: u64,
}

/// A `LoadStatsRequest`, as far as it is read: other fields would take memory for each two bytes.
#[derive(Clone, PartialEq, Message)]
pub(super) struct LoadReport {
    #[prost(message, optional, tag = "1")]
    node: Option<LoadReportNode>,
    #[prost(message, repeated, tag = "2")]
    cluster_stats: Vec<ClusterStats>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct LoadReportNode {
    #[prost(string, tag = "2")]
    cluster: String,
}

#[derive(Clone, PartialEq, Message)]
struct ClusterStats {
    #[prost(string, tag = "1")]
    cluster_name: String,
    #[prost(message, repeated, tag = "2")]
    upstream_locality_stats: Vec<LocalityStats>,
}

#[derive(Clone, PartialEq, Message)]
struct LocalityStats {
    #[prost(message, repeated, tag = "7")]
    upstream_endpoint_stats: Vec<EndpointStats>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct EndpointStats {
    #[prost(message, optional, tag = "1")]
    address: Option<HostAddress>,
    #[prost(uint64, tag = "3")]
    total_requests_in_progress: u64,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct HostAddress {
    #[prost(message, optional, tag = "1")]
    socket_address: Option<SocketAddress>,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct SocketAddress {
    #[prost(string, tag = "2")]
    address: String,
    #[prost(uint32, tag = "3")]
    port_value: u32,
}

impl LoadReport {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode(bytes)
    }

    /// `node.cluster`; empty if the report names none.
    pub(super) fn into_group(self) -> String {
        self.node.map(|node| node.cluster).unwrap_or_default()
    }

    /// Hosts that have requests in flight, up to [`limits::HOSTS_OF_REPORT`].
    pub(super) fn loads(&self) -> Vec<RequestLoad> {
        let clusters = self.cluster_stats.iter();
        let clusters = clusters.filter(|cluster| cluster.cluster_name.len() <= limits::NAME);
        let loads = clusters.flat_map(|cluster| {
            let destination = DestinationId::of_cluster(cluster.cluster_name.as_bytes());
            let localities = cluster.upstream_locality_stats.iter();
            let hosts = localities.flat_map(|locality| &locality.upstream_endpoint_stats);
            hosts.filter_map(move |host| host.load(destination))
        });
        loads.take(limits::HOSTS_OF_REPORT).collect()
    }
}

impl EndpointStats {
    fn load(&self, destination: DestinationId) -> Option<RequestLoad> {
        let address = self.address.as_ref()?.socket_address.as_ref()?;
        let host = SocketAddr::new(address.address.parse().ok()?, u16::try_from(address.port_value).ok()?);
        (self.total_requests_in_progress > 0).then_some(RequestLoad {
            destination,
            host,
            in_flight: self.total_requests_in_progress,
        })
    }
}
