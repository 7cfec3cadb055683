//! Resources that Envoy discovers from files (EDS, RDS, LDS, ECDS).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::Keyring;

use super::json::{each_item, each_object, merge};
use super::{Config, read_yaml};

pub(crate) const BOOTSTRAP: &str = "envoy.json";

/// Files for resources that are inline in `envoy-configs/`.
const ENDPOINTS: &str = "eds.yaml";
const ROUTES: &str = "rds.yaml";
pub(super) const LISTENERS: &str = "lds.yaml";

/// The secret's file in `module-sds.yaml`.
const SECRETS: &str = "envoy-configs/sds/keyring.yaml";

/// The filter's file in `ecds.yaml`.
const FILTER: &str = "envoy-configs/ecds/limpet.yaml";

impl Config {
    /// Makes Envoy discover the endpoints of the first cluster (EDS).
    #[must_use]
    pub fn discover_endpoints(mut self) -> Self {
        let cluster = self.cluster_mut();
        let mut assignment = cluster["load_assignment"].take();
        assignment["@type"] = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment".into();
        let eds = json!({"eds_config": watched(ENDPOINTS)});
        merge(
            cluster,
            &json!({"type": "EDS", "load_assignment": null, "eds_cluster_config": eds}),
        );
        self.discover(ENDPOINTS, &json!([assignment]))
    }

    /// Makes Envoy discover the routes of the first listener (RDS).
    #[must_use]
    pub fn discover_routes(mut self) -> Self {
        let manager = self.hcm();
        let mut routes = manager["route_config"].take();
        routes["@type"] = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration".into();
        let rds = json!({"route_config_name": routes["name"], "config_source": watched(ROUTES)});
        merge(manager, &json!({"route_config": null, "rds": rds}));
        self.discover(ROUTES, &json!([routes]))
    }

    /// Makes Envoy discover the listeners (LDS).
    #[must_use]
    pub fn discover_listeners(mut self) -> Self {
        let mut listeners = self.bootstrap["static_resources"]["listeners"].take();
        each_item(&mut listeners, |listener| {
            listener["@type"] = "type.googleapis.com/envoy.config.listener.v3.Listener".into();
        });
        let lds = json!({"lds_config": watched(LISTENERS)});
        merge(
            &mut self.bootstrap,
            &json!({"static_resources": {"listeners": null}, "dynamic_resources": lds}),
        );
        self.discover(LISTENERS, &listeners)
    }

    /// Discovers the filter from this file of `envoy-configs/`.
    ///
    /// # Errors
    /// If the file does not exist or is not YAML.
    pub fn discover_filter_from(mut self, file: &str) -> Result<Self> {
        self.discovered.insert(FILTER.to_owned(), read_yaml(file)?);
        Ok(self)
    }

    /// Makes this keyring the secret of `module-sds.yaml`.
    #[must_use]
    pub fn keyring(mut self, keyring: &Keyring) -> Self {
        self.each_file(|file| {
            each_object(file, &mut |object| {
                if let Some(name) = object.get_mut("filename").filter(|name| *name == "./keyring.json") {
                    *name = keyring.file().to_string_lossy().into();
                }
            });
        });
        self
    }

    /// Replaces the discovered secrets of `module-sds.yaml`.
    #[must_use]
    pub fn secrets(mut self, secrets: &Value) -> Self {
        self.discovered
            .insert(SECRETS.to_owned(), json!({"resources": secrets}));
        self
    }

    fn discover(mut self, path: &str, resources: &Value) -> Self {
        // Envoy requires a node name for discovery.
        self.bootstrap["node"] = json!({"id": "envoy", "cluster": "web"});
        self.discovered.insert(path.to_owned(), json!({"resources": resources}));
        self
    }

    pub(crate) fn files(&self, directory: &Path) -> Result<BTreeMap<String, Value>> {
        let parts = self.discovered.iter().map(|(path, part)| (file_name(path), part));
        let mut files = BTreeMap::new();
        for (name, part) in parts.chain([(BOOTSTRAP.to_owned(), &self.bootstrap)]) {
            let mut file = part.clone();
            each_object(&mut file, &mut |object| {
                if let Some(source) = object.get_mut("path_config_source")
                    && let Some(path) = source["path"].as_str().map(file_name)
                {
                    source["path"] = directory.join(path).to_string_lossy().into();
                }
            });
            self.tested_build()?.put_into(&mut file)?;
            files.insert(name, file);
        }
        Ok(files)
    }

    pub(super) fn each_file(&mut self, mut change: impl FnMut(&mut Value)) {
        change(&mut self.bootstrap);
        self.discovered.values_mut().for_each(change);
    }

    pub(super) fn listener(&mut self) -> &mut Value {
        match self.discovered.get_mut(LISTENERS) {
            Some(file) => &mut file["resources"][0],
            None => &mut self.bootstrap["static_resources"]["listeners"][0],
        }
    }

    pub(crate) fn listener_name(&self) -> &str {
        let listener = match self.discovered.get(LISTENERS) {
            Some(file) => &file["resources"][0],
            None => &self.bootstrap["static_resources"]["listeners"][0],
        };
        listener["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn listener_names(&self) -> Vec<String> {
        let listeners = self.listeners();
        let names = listeners.as_array().into_iter().flatten();
        names
            .filter_map(|listener| Some(listener["name"].as_str()?.to_owned()))
            .collect()
    }

    pub(super) fn route_config(&mut self) -> &mut Value {
        if self.discovered.contains_key(ROUTES) {
            self.discovered_resource(ROUTES)
        } else {
            &mut self.hcm()["route_config"]
        }
    }

    pub(crate) fn first_route(&mut self) -> &mut Value {
        &mut self.route_config()["virtual_hosts"][0]["routes"][0]
    }

    pub(super) fn load_assignment(&mut self) -> &mut Value {
        let source = &self.cluster_mut()["eds_cluster_config"]["eds_config"]["path_config_source"];
        match source["path"].as_str().map(str::to_owned) {
            Some(path) => self.discovered_resource(&path),
            None => &mut self.cluster_mut()["load_assignment"],
        }
    }

    fn discovered_resource(&mut self, path: &str) -> &mut Value {
        &mut self.discovered.entry(path.to_owned()).or_default()["resources"][0]
    }
}

pub(super) fn read_files(bootstrap: &mut Value) -> Result<BTreeMap<String, Value>> {
    let mut paths = Vec::new();
    each_object(bootstrap, &mut |object| {
        let source = object.get("path_config_source");
        paths.extend(source.and_then(|source| source["path"].as_str()).map(str::to_owned));
    });
    let read = |path: String| {
        let file = path
            .strip_prefix("envoy-configs/")
            .with_context(|| format!("{path} is not in envoy-configs"))?;
        let content = read_yaml(file)?;
        Ok((path, content))
    };
    paths.into_iter().map(read).collect()
}

pub(super) fn watched(path: &str) -> Value {
    json!({"path_config_source": {"path": path}, "resource_api_version": "V3"})
}

pub(crate) fn discovered_filter() -> String {
    file_name(FILTER)
}

fn file_name(path: &str) -> String {
    let path = Path::new(path.trim_start_matches("envoy-configs/")).with_extension("json");
    path.to_string_lossy().replace('/', "-")
}
