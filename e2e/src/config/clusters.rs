//! Clusters and their backends.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::Backend;

use super::Config;
use super::json::{address, each_item, each_object, merge, push};

impl Config {
    /// Sets the first cluster's backends.
    #[must_use]
    pub fn backends<'a>(mut self, backends: impl IntoIterator<Item = &'a Backend>) -> Self {
        self.load_assignment()["endpoints"] = endpoints(backends.into_iter().map(Backend::address));
        self
    }

    /// Sets the first cluster's backends by address.
    #[must_use]
    pub fn backend_addresses(mut self, addresses: &[SocketAddr]) -> Self {
        self.load_assignment()["endpoints"] = endpoints(addresses.iter().copied());
        self
    }

    /// Replaces the backends in `envoy-configs/`, 127.0.0.1:8081 to 8083, in every cluster.
    #[must_use]
    pub fn three_backends(mut self, backends: &[Backend; 3]) -> Self {
        let examples = [8081, 8082, 8083].map(|port| address("127.0.0.1", port));
        self.each_file(|file| {
            each_object(file, &mut |object| {
                let Some(endpoint) = object.get_mut("endpoint") else {
                    return;
                };
                let example = examples.iter().position(|example| *example == endpoint["address"]);
                if let Some(backend) = example.and_then(|example| backends.get(example)) {
                    let at = backend.address();
                    endpoint["address"] = address(&at.ip().to_string(), at.port());
                }
            });
        });
        self
    }

    /// Sets this cluster's backends.
    #[must_use]
    pub fn backends_of<'a>(mut self, cluster: &str, backends: impl IntoIterator<Item = &'a Backend>) -> Self {
        let own = endpoints(backends.into_iter().map(Backend::address));
        each_item(&mut self.bootstrap["static_resources"]["clusters"], |present| {
            if present["name"] == cluster {
                present["load_assignment"]["endpoints"] = own.clone();
            }
        });
        self
    }

    pub(crate) fn first_cluster(&mut self) -> (String, usize) {
        let name = self.cluster_mut()["name"].as_str().unwrap_or_default().to_owned();
        let hosts = self.load_assignment()["endpoints"][0]["lb_endpoints"].as_array();
        (name, hosts.map_or(0, Vec::len))
    }

    /// Sets the health that the control plane reports for a backend of the first cluster, such as `DRAINING`.
    #[must_use]
    pub fn health(mut self, backend: SocketAddr, status: &str) -> Self {
        let at = endpoint(backend);
        each_item(&mut self.load_assignment()["endpoints"][0]["lb_endpoints"], |present| {
            if present["endpoint"] == at["endpoint"] {
                present["health_status"] = status.into();
            }
        });
        self
    }

    /// Adds a copy of the first cluster with other backends.
    #[must_use]
    pub fn another_cluster<'a>(mut self, name: &str, backends: impl IntoIterator<Item = &'a Backend>) -> Self {
        let mut cluster = self.cluster_mut().clone();
        cluster["name"] = name.into();
        cluster["load_assignment"] =
            json!({"cluster_name": name, "endpoints": endpoints(backends.into_iter().map(Backend::address))});
        push(&mut self.bootstrap["static_resources"]["clusters"], cluster);
        self
    }

    /// Merges a patch (RFC 7396) into the first cluster.
    #[must_use]
    pub fn cluster(mut self, patch: &Value) -> Self {
        merge(self.cluster_mut(), patch);
        self
    }

    /// Sends the first cluster's requests over HTTP/2.
    #[must_use]
    pub fn http2_upstream(self) -> Self {
        self.cluster(&json!({"typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        }}))
    }

    /// Checks the first cluster's backends at `/healthz`, several times a second.
    #[must_use]
    pub fn health_checks(self) -> Self {
        self.cluster(&json!({
            "common_lb_config": {"healthy_panic_threshold": {"value": 0}},
            "health_checks": [{
                "timeout": "10s",
                "interval": "0.1s",
                "no_traffic_interval": "0.1s",
                "unhealthy_interval": "0.1s",
                "unhealthy_threshold": 1,
                "healthy_threshold": 1,
                "http_health_check": {"path": "/healthz"},
            }],
        }))
    }

    pub(super) fn cluster_mut(&mut self) -> &mut Value {
        &mut self.bootstrap["static_resources"]["clusters"][0]
    }
}

fn endpoint(at: SocketAddr) -> Value {
    json!({"endpoint": {"address": address(&at.ip().to_string(), at.port())}})
}

fn endpoints(addresses: impl Iterator<Item = SocketAddr>) -> Value {
    json!([{"lb_endpoints": addresses.map(endpoint).collect::<Vec<_>>()}])
}
