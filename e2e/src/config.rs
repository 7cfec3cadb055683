//! The configuration that an Envoy starts with: a file of `envoy-configs/`, and what a test changes in it.

mod discovery;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use crate::build::module_directory;
use crate::{Backend, Build, tools};

pub(crate) use discovery::{BOOTSTRAP, discovered_filter};

/// The tests' key, in `LIMPET_KEY` and `LIMPET_KEY_1`. It is public, so it protects nothing.
pub const TEST_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
/// Another key, in `LIMPET_KEY_2`.
pub const OTHER_KEY: &str = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

/// A configuration of Envoy, and the environment variables that go with it.
#[derive(Debug, Clone)]
pub struct Config {
    bootstrap: Value,
    /// The files that Envoy discovers resources from, by the path that the configuration names.
    discovered: BTreeMap<String, Value>,
    environment: BTreeMap<String, String>,
    workers: u8,
    log_level: &'static str,
    /// The build of the filter, if it is not the one under test.
    build: Option<Build>,
}

impl Config {
    /// Loads a file of `envoy-configs/`, with ports 0, so that each Envoy gets free ports.
    ///
    /// # Errors
    /// If the file does not exist or is not YAML.
    pub fn load(file: &str) -> Result<Self> {
        let mut bootstrap = read_yaml(file)?;
        let discovered = discovery::read_files(&mut bootstrap)?;
        let config = Self {
            discovered,
            ..Self::bare(bootstrap)
        };
        Ok(config.admin_port(0).port(0))
    }

    /// A bootstrap configuration from elsewhere, which already has the build of the filter under test. Its listeners
    /// get free ports of 127.0.0.1.
    #[must_use]
    pub fn made(mut bootstrap: Value) -> Self {
        each_item(&mut bootstrap["static_resources"]["listeners"], |listener| {
            listener["address"] = address("127.0.0.1", 0);
        });
        Self::bare(bootstrap).admin_port(0)
    }

    fn bare(bootstrap: Value) -> Self {
        let config = Self {
            bootstrap,
            discovered: BTreeMap::new(),
            environment: BTreeMap::new(),
            workers: 2,
            log_level: "info",
            build: None,
        };
        config
            .env("LIMPET_KEY", TEST_KEY)
            .env("LIMPET_KEY_1", TEST_KEY)
            .env("LIMPET_KEY_2", OTHER_KEY)
    }

    /// Sets the first listener's port on 127.0.0.1; 0 picks a free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.listener()["address"] = address("127.0.0.1", port);
        self
    }

    /// Sets the admin interface's port on 127.0.0.1; 0 picks a free port.
    #[must_use]
    pub fn admin_port(mut self, port: u16) -> Self {
        self.bootstrap["admin"]["address"] = address("127.0.0.1", port);
        self
    }

    /// Sets the number of Envoy's worker threads.
    #[must_use]
    pub fn workers(mut self, workers: u8) -> Self {
        self.workers = workers;
        self
    }

    /// Sets Envoy's log level, such as `trace`.
    #[must_use]
    pub fn log_level(mut self, level: &'static str) -> Self {
        self.log_level = level;
        self
    }

    /// Uses this build of the filter, whichever is under test.
    #[must_use]
    pub fn build(mut self, build: Build) -> Self {
        self.build = Some(build);
        self
    }

    /// Uses the variant of the module that panics on demand (`e2e/panicking-module`).
    ///
    /// # Errors
    /// If it is not built.
    pub fn panicking(self) -> Result<Self> {
        let (name, value) = module_directory(&tools::panicking_module()?)?;
        Ok(self.build(Build::Module).env(name, &value))
    }

    /// Sets an environment variable of Envoy.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Removes an environment variable of Envoy.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self
    }

    /// Sets the backends of the first cluster.
    #[must_use]
    pub fn backends<'a>(mut self, backends: impl IntoIterator<Item = &'a Backend>) -> Self {
        self.load_assignment()["endpoints"] = endpoints(backends.into_iter().map(Backend::address));
        self
    }

    /// Sets the backends of the first cluster by their addresses.
    #[must_use]
    pub fn backend_addresses(mut self, addresses: &[SocketAddr]) -> Self {
        self.load_assignment()["endpoints"] = endpoints(addresses.iter().copied());
        self
    }

    /// Replaces the backends that the files in `envoy-configs/` name, 127.0.0.1:8081 to 8083, in every cluster.
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

    /// Sets the backends of the cluster of this name.
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

    /// The first cluster's name, and how many backends it has.
    pub(crate) fn first_cluster(&mut self) -> (String, usize) {
        let name = self.cluster_mut()["name"].as_str().unwrap_or_default().to_owned();
        let hosts = self.load_assignment()["endpoints"][0]["lb_endpoints"].as_array();
        (name, hosts.map_or(0, Vec::len))
    }

    /// Sets the health that the control plane reports for a backend, such as `DRAINING`. The backend must already be in
    /// the first cluster.
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

    /// Adds a copy of the first cluster, with other backends.
    #[must_use]
    pub fn another_cluster<'a>(mut self, name: &str, backends: impl IntoIterator<Item = &'a Backend>) -> Self {
        let mut cluster = self.cluster_mut().clone();
        cluster["name"] = name.into();
        cluster["load_assignment"] =
            json!({"cluster_name": name, "endpoints": endpoints(backends.into_iter().map(Backend::address))});
        push(&mut self.bootstrap["static_resources"]["clusters"], cluster);
        self
    }

    /// Adds a copy of the first listener, with another name and another configuration of the filter.
    #[must_use]
    pub fn another_listener(mut self, name: &str, filter: &Value) -> Self {
        let mut listener = self.listener().clone();
        listener["name"] = name.into();
        set_filter(&mut listener, filter);
        push(&mut self.bootstrap["static_resources"]["listeners"], listener);
        self
    }

    /// Sets the filter's configuration, in every listener and in the file that it is discovered from.
    #[must_use]
    pub fn filter(mut self, filter: &Value) -> Self {
        self.each_file(|file| set_filter(file, filter));
        self
    }

    /// Sets a filter configuration with one policy, `web`, as the default, and `default` as its scope.
    #[must_use]
    pub fn policy(self, policy: &Value) -> Self {
        self.filter(&filter_with(policy))
    }

    /// Sets which environment variables the filter may read.
    #[must_use]
    pub fn filter_environment(mut self, variables: &[&str]) -> Self {
        self.each_file(|file| {
            each_wasm(file, &mut |wasm| {
                wasm["config"]["vm_config"]["environment_variables"] = json!({"host_env_keys": variables});
            });
        });
        self
    }

    /// Merges a patch into the first listener (RFC 7396).
    #[must_use]
    pub fn change_listener(mut self, patch: &Value) -> Self {
        merge(self.listener(), patch);
        self
    }

    /// Merges a patch into the connection manager of the first listener (RFC 7396).
    #[must_use]
    pub fn connection_manager(mut self, patch: &Value) -> Self {
        merge(self.hcm(), patch);
        self
    }

    /// Asks the clients of a replaced listener at once to close their connections. By default Envoy takes 5 s for that,
    /// but the harness ends such a listener sooner (`--drain-time-s`), which would cut connections in mid-request.
    #[must_use]
    pub fn quick_drain(self) -> Self {
        self.connection_manager(&json!({"drain_timeout": "0.1s"}))
    }

    /// Adds filters in front of those of the first listener.
    #[must_use]
    pub fn prepend_filters(mut self, filters: &Value) -> Self {
        if let (Some(present), Some(new)) = (self.hcm()["http_filters"].as_array_mut(), filters.as_array()) {
            present.splice(0..0, new.iter().cloned());
        }
        self
    }

    /// Merges a patch into the first cluster (RFC 7396).
    #[must_use]
    pub fn cluster(mut self, patch: &Value) -> Self {
        merge(self.cluster_mut(), patch);
        self
    }

    /// Makes any other change to the bootstrap configuration.
    #[must_use]
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.bootstrap);
        self
    }

    /// The first cluster sends its requests over HTTP/2.
    #[must_use]
    pub fn http2_upstream(self) -> Self {
        self.cluster(&json!({"typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        }}))
    }

    /// The first cluster checks its backends' health at `/healthz`, several times a second.
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

    /// Merges a patch into every route of the first listener (RFC 7396).
    #[must_use]
    pub fn route(mut self, patch: &Value) -> Self {
        each_item(self.routes_mut(), |route| merge(route, patch));
        self
    }

    /// Makes any other change to the first listener's route configuration.
    #[must_use]
    pub fn route_configuration(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(self.route_config());
        self
    }

    /// Replaces the first listener's routes.
    #[must_use]
    pub fn routes(mut self, routes: Value) -> Self {
        *self.routes_mut() = routes;
        self
    }

    /// Every route enables the strict `stateful_session` filter and disables the other one.
    #[must_use]
    pub fn strict_routes(self) -> Self {
        self.strict_filter().route(&json!({"typed_per_filter_config": {
            "limpet.stateful_session": {
                "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
                "disabled": true,
            },
            "limpet.stateful_session_strict": {
                "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
                "config": {},
            },
        }}))
    }

    /// Adds the strict `stateful_session` filter behind the other one, disabled as in `two-policies.yaml`, unless the
    /// chain has it.
    #[must_use]
    pub fn strict_filter(mut self) -> Self {
        let Some(filters) = self.hcm()["http_filters"].as_array_mut() else {
            return self;
        };
        let position = |name| filters.iter().position(|filter| filter["name"] == name);
        if let (None, Some(at)) = (
            position("limpet.stateful_session_strict"),
            position("limpet.stateful_session"),
        ) {
            let mut strict = filters[at].clone();
            strict["name"] = "limpet.stateful_session_strict".into();
            strict["disabled"] = true.into();
            strict["typed_config"]["strict"] = true.into();
            strict["typed_config"]["session_state"]["typed_config"]["name"] = "x-limpet-host-strict".into();
            filters.insert(at + 1, strict);
        }
        self
    }

    /// Removes Limpet from the chain. The filters around it stay.
    #[must_use]
    pub fn without_limpet(mut self) -> Self {
        if let Some(filters) = self.hcm()["http_filters"].as_array_mut() {
            filters.retain(|filter| filter["name"] != "limpet");
        }
        self
    }

    /// Removes everything from the chain that removes internal headers sent by clients.
    #[must_use]
    pub fn without_header_removal(mut self) -> Self {
        self.route_config()["request_headers_to_remove"] = json!([]);
        let hcm = self.hcm();
        hcm["early_header_mutation_extensions"] = json!([]);
        if let Some(filters) = hcm["http_filters"].as_array_mut() {
            filters.retain(|filter| filter["name"] != "limpet.internal_headers");
        }
        self
    }

    /// The environment variables that Envoy starts with.
    ///
    /// # Errors
    /// If the build of the filter is missing.
    pub(crate) fn environment(&self) -> Result<BTreeMap<String, String>> {
        let mut environment = self.environment.clone();
        if let Some((name, value)) = self.tested_build()?.environment()? {
            environment.entry(name.to_owned()).or_insert(value);
        }
        Ok(environment)
    }

    fn tested_build(&self) -> Result<Build> {
        self.build.map_or_else(Build::tested, Ok)
    }

    /// Envoy's log level.
    pub(crate) fn log_verbosity(&self) -> &str {
        self.log_level
    }

    /// The number of Envoy's worker threads.
    pub(crate) fn worker_count(&self) -> u8 {
        self.workers
    }

    fn hcm(&mut self) -> &mut Value {
        &mut self.listener()["filter_chains"][0]["filters"][0]["typed_config"]
    }

    fn routes_mut(&mut self) -> &mut Value {
        &mut self.route_config()["virtual_hosts"][0]["routes"]
    }

    fn cluster_mut(&mut self) -> &mut Value {
        &mut self.bootstrap["static_resources"]["clusters"][0]
    }
}

/// A filter configuration with one policy, `web`, as the default, and `default` as its scope.
#[must_use]
pub fn filter_with(policy: &Value) -> Value {
    json!({
        "keys": [{"id": 1, "env": "LIMPET_KEY"}],
        "policies": {"web": policy},
        "default": {"policy": "web", "scope": "default"},
    })
}

fn read_yaml(file: &str) -> Result<Value> {
    let path = tools::checkout().join("envoy-configs").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))
}

fn address(ip: &str, port: u16) -> Value {
    json!({"socket_address": {"address": ip, "port_value": port}})
}

fn endpoint(at: SocketAddr) -> Value {
    json!({"endpoint": {"address": address(&at.ip().to_string(), at.port())}})
}

fn endpoints(addresses: impl Iterator<Item = SocketAddr>) -> Value {
    json!([{"lb_endpoints": addresses.map(endpoint).collect::<Vec<_>>()}])
}

fn set_filter(value: &mut Value, filter: &Value) {
    each_wasm(value, &mut |wasm| {
        wasm["config"]["configuration"] = json!({
            "@type": "type.googleapis.com/google.protobuf.StringValue",
            "value": filter.to_string(),
        });
    });
}

/// Calls `visit` with every wasm filter's configuration in `value`.
pub(crate) fn each_wasm(value: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    each_object(value, &mut |object| {
        let kind = object.get("@type").and_then(Value::as_str);
        if kind == Some("type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm") {
            visit(object);
        }
    });
}

pub(crate) fn each_object(value: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            visit(object);
            object.values_mut().for_each(|value| each_object(value, visit));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| each_object(value, visit)),
        _ => {}
    }
}

fn each_item(array: &mut Value, visit: impl FnMut(&mut Value)) {
    array.as_array_mut().into_iter().flatten().for_each(visit);
}

fn push(array: &mut Value, value: Value) {
    if let Some(array) = array.as_array_mut() {
        array.push(value);
    }
}

/// JSON Merge Patch (RFC 7396): objects are merged, null removes, everything else replaces.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().and_then(|object| object.remove(name));
        } else {
            merge(&mut target[name], value);
        }
    }
}
