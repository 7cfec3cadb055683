//! Objects for any controller of the Gateway API: routes with a host, a session and a Service each, whose endpoints do
//! not answer.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use hyper::Method;
use limpet_e2e::kube::{ApiServer, Client};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const WRITERS: usize = 8;
const ENDPOINTS_OF_A_SERVICE: usize = 2;
/// The port of every endpoint; control planes have 8080.
pub(crate) const PORT: u16 = 8000;
/// The most endpoints in a slice, as in Kubernetes.
const ENDPOINTS_OF_A_SLICE: usize = 100;
/// The Service with many endpoints, and its route.
pub(crate) const LARGE: &str = "large";

#[derive(Debug, Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) namespace: String,
    pub(crate) routes: usize,
    /// The Gateways of route N: entry N modulo the length.
    pub(crate) gateways: Vec<Vec<String>>,
    /// The number of endpoints of [`LARGE`], or 0 for no such Service.
    pub(crate) large: usize,
    pub(crate) sessions: Sessions,
    /// The endpoints of each Service; if empty, unused addresses.
    pub(crate) endpoints: Vec<IpAddr>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Sessions {
    None,
    /// One policy for all routes, each with its own sessions.
    #[default]
    OfOnePolicy,
    OfOwnPolicies,
}

impl Catalog {
    /// Writes everything but the Gateways.
    pub(crate) async fn write(&self, server: &ApiServer) -> Result<()> {
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..WRITERS {
            let (catalog, client, next) = (self.clone(), server.admin(), Arc::clone(&next));
            tasks.spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= catalog.routes {
                        return anyhow::Ok(());
                    }
                    catalog.write_route(&client, number).await?;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        if self.large > 0 {
            self.write_large(&server.admin()).await?;
        }
        Ok(())
    }

    pub(crate) async fn write_route(&self, client: &Client, number: usize) -> Result<()> {
        let name = route_name(number);
        let given = self.endpoints.iter().copied();
        let own = addresses(number).take(if given.len() == 0 { ENDPOINTS_OF_A_SERVICE } else { 0 });
        let slice = slice(&self.namespace, &name, &name, given.chain(own));
        for object in [self.service(&name), slice, self.route(number, &name)] {
            client.apply_object(&object).await?;
        }
        Ok(())
    }

    async fn write_large(&self, client: &Client) -> Result<()> {
        for number in 0..self.large.div_ceil(ENDPOINTS_OF_A_SLICE) {
            let (first, end) = (
                number * ENDPOINTS_OF_A_SLICE,
                self.large.min((number + 1) * ENDPOINTS_OF_A_SLICE),
            );
            let slice = slice(
                &self.namespace,
                LARGE,
                &format!("{LARGE}-{number}"),
                (first..end).map(address_of_large),
            );
            client.apply_object(&slice).await?;
        }
        client.apply_object(&self.service(LARGE)).await?;
        client.apply_object(&self.route(0, LARGE)).await?;
        Ok(())
    }

    pub(crate) fn gateway(&self, class: &str, name: &str, port: u16) -> Value {
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "Gateway",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "gatewayClassName": class,
                "listeners": [{"name": "http", "port": port, "protocol": "HTTP"}],
            },
        })
    }

    fn service(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": name, "namespace": self.namespace},
            // Cluster IPs may be few; without a selector, no controller creates slices.
            "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": 80, "targetPort": PORT}]},
        })
    }

    fn route(&self, number: usize, name: &str) -> Value {
        let gateways = self.gateways.get(number % self.gateways.len().max(1));
        let parents = gateways.into_iter().flatten().map(|name| json!({"name": name}));
        let mut rule = json!({
            "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
            "backendRefs": [{"name": name, "port": 80}],
        });
        let session = match self.sessions {
            Sessions::None => None,
            Sessions::OfOnePolicy => Some("session"),
            Sessions::OfOwnPolicies => Some(name),
        };
        if let (Some(session), Some(rule)) = (session, rule.as_object_mut()) {
            let persistence = json!({"sessionName": session, "type": "Cookie"});
            rule.insert("sessionPersistence".to_owned(), persistence);
        }
        json!({
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"parentRefs": parents.collect::<Vec<_>>(), "hostnames": [host(name)], "rules": [rule]},
        })
    }

    /// Moves a route to another path. Its rule has no name, so the controller must remember its former one.
    pub(crate) async fn change_route(&self, client: &Client, number: usize, path: &str) -> Result<()> {
        let change = json!([{"op": "replace", "path": "/spec/rules/0/matches/0/path/value", "value": path}]);
        self.patch_route(client, number, &change).await
    }

    pub(crate) async fn change_timeout(&self, client: &Client, number: usize, timeout: usize) -> Result<()> {
        let value = json!({"request": format!("{timeout}s")});
        let change = json!([{"op": "add", "path": "/spec/rules/0/timeouts", "value": value}]);
        self.patch_route(client, number, &change).await
    }

    async fn patch_route(&self, client: &Client, number: usize, change: &Value) -> Result<()> {
        self.patch(
            client,
            "gateway.networking.k8s.io/v1",
            "httproutes",
            &route_name(number),
            change,
        )
        .await
    }

    pub(crate) async fn serve_at(&self, client: &Client, number: usize, address: IpAddr) -> Result<()> {
        let name = route_name(number);
        let slice = slice(&self.namespace, &name, &name, std::iter::once(address));
        client.apply_object(&slice).await.map(drop)
    }

    pub(crate) async fn change_endpoint(&self, client: &Client, number: usize, address: IpAddr) -> Result<()> {
        self.change_address(client, &route_name(number), 0, address).await
    }

    pub(crate) async fn roll_large(&self, client: &Client, number: usize) -> Result<()> {
        let endpoint = number % self.large;
        let slice = format!("{LARGE}-{}", endpoint / ENDPOINTS_OF_A_SLICE);
        let address = address_of_large(self.large + number);
        self.change_address(client, &slice, endpoint % ENDPOINTS_OF_A_SLICE, address)
            .await
    }

    async fn change_address(&self, client: &Client, slice: &str, endpoint: usize, address: IpAddr) -> Result<()> {
        let path = format!("/endpoints/{endpoint}/addresses/0");
        let change = json!([{"op": "replace", "path": path, "value": address}]);
        self.patch(client, "discovery.k8s.io/v1", "endpointslices", slice, &change)
            .await
    }

    async fn patch(&self, client: &Client, group: &str, kind: &str, name: &str, change: &Value) -> Result<()> {
        let path = format!("/apis/{group}/namespaces/{}/{kind}/{name}", self.namespace);
        let answer = client.call(Method::PATCH, &path, "application/json-patch+json", Some(change));
        answer.await.map(drop)
    }
}

pub(crate) fn route_name(number: usize) -> String {
    format!("shop-{number}")
}

pub(crate) fn host(route: &str) -> String {
    format!("{route}.example")
}

pub(crate) fn addresses(number: usize) -> impl Iterator<Item = IpAddr> {
    (0..64).map(move |at: u8| {
        let [.., high, middle, low] = number.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(10, 100 + at + high, middle, low))
    })
}

fn address_of_large(number: usize) -> IpAddr {
    let [.., high, middle, low] = number.to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(11, high, middle, low))
}

pub(crate) fn slice(namespace: &str, service: &str, name: &str, addresses: impl Iterator<Item = IpAddr>) -> Value {
    let conditions = json!({"ready": true, "serving": true, "terminating": false});
    let endpoint = |address: IpAddr| json!({"addresses": [address], "conditions": conditions});
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                "kubernetes.io/service-name": service,
                "endpointslice.kubernetes.io/managed-by": "limpet-bench",
            },
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": PORT, "protocol": "TCP"}],
        "endpoints": addresses.map(endpoint).collect::<Vec<_>>(),
    })
}
