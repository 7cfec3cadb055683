//! Configurations of Envoys that serve one test after another.

use anyhow::{Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Config;
use super::discovery::{LISTENERS, watched};
use super::json::{address, each_item, each_wasm, merge};
use crate::Build;

/// The clusters' file of a pooled Envoy; [`LISTENERS`] has the listeners. Its name sorts behind the endpoints' file,
/// which Envoy needs first.
const CLUSTERS: &str = "xds-clusters.yaml";

pub(crate) enum Part<'a> {
    Nothing,
    /// Everything but the listeners, which Envoy refuses before their clusters.
    Clusters(&'a Config),
    All(&'a Config),
}

impl Config {
    /// Asks for an Envoy of its own, to test the whole process, its restart, or what outlives listeners and clusters:
    /// memory, tables of clients, the filter's VM.
    #[must_use]
    pub fn alone(mut self) -> Self {
        self.alone = true;
        self
    }

    /// The configuration of a pooled Envoy for this one and others: same bootstrap, environment and workers, no
    /// listeners and clusters. `None` if it cannot be shared.
    pub(crate) fn of_pool(&self) -> Option<Self> {
        let discovers = self.bootstrap.get("dynamic_resources");
        if self.alone
            || self.folder.is_some()
            || self.log_level != "info"
            || self.has_clients()
            || self.discovers_filter()
            || discovers.is_some_and(|discovers| *discovers != json!({"lds_config": watched(LISTENERS)}))
        {
            return None;
        }
        let mut pooled = self.clone();
        pooled.discovered.clear();
        let keepers: Vec<Value> = self.vm_configs().iter().enumerate().map(keeper).collect();
        let bootstrap = &mut pooled.bootstrap;
        merge(
            bootstrap,
            &json!({
                "static_resources": {"listeners": keepers, "clusters": null},
                "dynamic_resources": {"cds_config": watched(CLUSTERS), "lds_config": watched(LISTENERS)},
            }),
        );
        // Envoy requires a node name for discovery.
        if bootstrap.get("node").is_none() {
            bootstrap["node"] = json!({"id": "envoy", "cluster": "web"});
        }
        Some(pooled.admin_port(0).serving(&Part::Nothing, 0))
    }

    pub(crate) fn is(&self, other: &Self) -> bool {
        self.workers == other.workers
            && self.build == other.build
            && self.bootstrap == other.bootstrap
            && self.environment == other.environment
    }

    /// Whether sessions are held by address, in a table that outlives listeners and clusters.
    fn has_clients(&self) -> bool {
        self.has_field("source")
    }

    /// Whether Envoy discovers the filter: its subscription outlives the draining listener, and would take the next
    /// test's filter.
    fn discovers_filter(&self) -> bool {
        self.has_field("config_discovery")
    }

    fn has_field(&self, name: &str) -> bool {
        let field = format!("\"{name}\":");
        let mut texts = self.discovered.values().chain([&self.bootstrap]).map(Value::to_string);
        texts.any(|text| text.replace('\\', "").contains(&field))
    }

    pub(crate) fn has_vms(&self) -> bool {
        !matches!(self.tested_build(), Ok(Build::Module))
    }

    fn vm_configs(&self) -> Vec<Value> {
        let mut found = Vec::new();
        if !self.has_vms() {
            return found;
        }
        let mut config = self.clone();
        config.each_file(|file| {
            each_wasm(file, &mut |wasm| {
                let vm = &wasm["config"]["vm_config"];
                if !found.contains(vm) {
                    found.push(vm.clone());
                }
            });
        });
        found
    }

    pub(crate) fn serving(&self, part: &Part<'_>, version: u32) -> Self {
        let mut pooled = self.clone();
        let (clusters, listeners) = match part {
            Part::Nothing => (json!([]), json!([])),
            Part::Clusters(test) => (test.clusters(), json!([])),
            Part::All(test) => (test.clusters(), test.listeners()),
        };
        if let Part::Clusters(test) | Part::All(test) = part {
            pooled.discovered.extend(test.discovered.clone());
        }
        for (file, kind, mut resources) in [
            (
                CLUSTERS,
                "type.googleapis.com/envoy.config.cluster.v3.Cluster",
                clusters,
            ),
            (
                LISTENERS,
                "type.googleapis.com/envoy.config.listener.v3.Listener",
                listeners,
            ),
        ] {
            each_item(&mut resources, |resource| resource["@type"] = kind.into());
            each_wasm(&mut resources, &mut |wasm| tell_apart(wasm, version));
            let content = json!({"version_info": version.to_string(), "resources": resources});
            pooled.discovered.insert(file.to_owned(), content);
        }
        pooled
    }

    pub(crate) fn ensure_same_bootstrap(&self, other: &Self) -> Result<()> {
        ensure!(
            self.bootstrap == other.bootstrap,
            "the change is in a file that Envoy does not watch"
        );
        Ok(())
    }

    fn clusters(&self) -> Value {
        self.list("clusters")
    }

    pub(super) fn listeners(&self) -> Value {
        match self.discovered.get(LISTENERS) {
            Some(file) => file["resources"].clone(),
            None => self.list("listeners"),
        }
    }

    fn list(&self, name: &str) -> Value {
        self.bootstrap["static_resources"]
            .get(name)
            .cloned()
            .unwrap_or_else(|| json!([]))
    }
}

/// An unused listener with a wasm filter in this VM, which Envoy would otherwise end and compile again.
fn keeper((number, vm_config): (usize, &Value)) -> Value {
    let filter = json!({
        "keys": [{"id": 1, "inline": STANDARD.encode([0; 32])}],
        "policies": {"keeper": {"cookie": {"name": "keeper"}}},
        "default": {"policy": "keeper", "scope": "keeper"},
    });
    let filters = json!([
        {"name": "limpet", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "config": {"name": "keeper", "vm_config": vm_config, "configuration": {
                "@type": "type.googleapis.com/google.protobuf.StringValue",
                "value": filter.to_string(),
            }},
        }},
        {"name": "envoy.filters.http.router", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
        }},
    ]);
    json!({"name": format!("keeper {number}"), "address": address("127.0.0.1", 0), "filter_chains": [{"filters": [{
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": {
            "@type":
                "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": "keeper",
            "http_filters": filters,
            "route_config": {"name": "keeper"},
        },
    }]}]})
}

/// Adds a version's number of spaces: Envoy remembers configurations that a VM refused, and would not let the filter
/// say why again.
fn tell_apart(wasm: &mut Map<String, Value>, version: u32) {
    let text = wasm
        .get_mut("config")
        .and_then(|config| config.pointer_mut("/configuration/value"));
    if let Some(Value::String(text)) = text
        && !text.is_empty()
    {
        text.extend((0..version).map(|_| ' '));
    }
}
