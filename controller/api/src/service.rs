use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::decode::Spec;

/// What is read of a `Service`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Its ports, in the order of their numbers.
    #[serde(default, deserialize_with = "by_number")]
    pub ports: Vec<ServicePort>,
    /// `ClusterIP` if it is not set. An `ExternalName` has no endpoints.
    #[serde(rename = "type", default)]
    pub kind: Option<String>,
    /// `None` or `ClientIP`.
    #[serde(default)]
    pub session_affinity: Option<String>,
    /// How affinity works.
    #[serde(default)]
    pub session_affinity_config: Option<SessionAffinityConfig>,
    /// The labels of its pods.
    #[serde(default)]
    pub selector: BTreeMap<String, String>,
    /// Its address within the cluster, or `None`.
    #[serde(rename = "clusterIP", default)]
    pub cluster_ip: Option<String>,
    /// All of them, if it has one of each family.
    #[serde(rename = "clusterIPs", default)]
    pub cluster_ips: Vec<String>,
    /// More addresses, which lead to the cluster's nodes.
    #[serde(rename = "externalIPs", default)]
    pub external_ips: Vec<String>,
    /// Of an `ExternalName`.
    #[serde(default)]
    pub external_name: Option<String>,
    /// Where its load balancer can be reached. It is read from its status.
    #[serde(skip)]
    pub ingress: Vec<Ingress>,
}

/// How affinity works, by its kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct SessionAffinityConfig {
    /// That by the client's address.
    #[serde(rename = "clientIP", default)]
    pub client_ip: Option<ClientIpConfig>,
}

/// Affinity by the client's address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientIpConfig {
    /// How long it lasts after the last use: 1 to 86400, and 10800 if it is not set.
    #[serde(default)]
    pub timeout_seconds: Option<u32>,
}

/// Where a load balancer can be reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Ingress {
    /// An IP address.
    #[serde(default)]
    pub ip: Option<String>,
    /// Or a host name.
    #[serde(default)]
    pub hostname: Option<String>,
}

impl Spec for ServiceSpec {}

impl ServiceSpec {
    /// The ports with this number, which differ in their protocol. A Service may have thousands, and each backend of a
    /// route names one.
    pub fn ports_at(&self, number: u16) -> impl Iterator<Item = &ServicePort> {
        let first = self.ports.partition_point(|port| port.port < number);
        let from = self.ports.get(first..).into_iter().flatten();
        from.take_while(move |port| port.port == number)
    }
}

fn by_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ServicePort>, D::Error> {
    let mut ports: Vec<ServicePort> = Vec::deserialize(deserializer)?;
    ports.sort_by_key(|port| port.port);
    Ok(ports)
}

/// A port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServicePort {
    /// Its name, as EndpointSlices have it; empty if it is the only port.
    #[serde(default)]
    pub name: String,
    /// Its number.
    pub port: u16,
    /// `TCP` if it is not set.
    #[serde(default)]
    pub protocol: Option<String>,
    /// The application protocol, like `kubernetes.io/h2c`.
    #[serde(default)]
    pub app_protocol: Option<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ports_are_found_by_their_number_in_the_order_written() {
        let spec: ServiceSpec = serde_json::from_value(json!({"ports": [
            {"name": "d", "port": 90}, {"name": "a", "port": 53, "protocol": "UDP"}, {"name": "c", "port": 80},
            {"name": "b", "port": 53, "protocol": "TCP"},
        ]}))
        .unwrap();
        let names = |number| spec.ports_at(number).map(|port| &*port.name).collect::<Vec<_>>();
        assert_eq!(
            (names(53), names(80), names(90)),
            (vec!["a", "b"], vec!["c"], vec!["d"])
        );
        assert_eq!((names(1), names(81), names(100)), (vec![], vec![], vec![]));
    }
}
