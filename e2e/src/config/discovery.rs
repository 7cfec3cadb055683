//! What Envoy discovers while it runs: files that it watches (EDS, RDS, LDS, ECDS).

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::Keyring;

use super::{Config, each_item, each_object, merge, read_yaml};

/// The name of the bootstrap configuration among the files that an Envoy is started with.
pub(crate) const BOOTSTRAP: &str = "envoy.json";

/// Where discovered parts are that no file of `envoy-configs/` has apart.
const ENDPOINTS: &str = "eds.yaml";
const ROUTES: &str = "rds.yaml";
const LISTENERS: &str = "lds.yaml";

/// Where `module-sds.yaml` has its secret from.
const SECRETS: &str = "envoy-configs/sds/keyring.yaml";

/// Where `ecds.yaml` has the filter from.
const FILTER: &str = "envoy-configs/ecds/limpet.yaml";

impl Config {
    /// The endpoints of the first cluster are discovered (EDS).
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

    /// The routes of the first listener are discovered (RDS).
    #[must_use]
    pub fn discover_routes(mut self) -> Self {
        let manager = self.hcm();
        let mut routes = manager["route_config"].take();
        routes["@type"] = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration".into();
        let rds = json!({"route_config_name": routes["name"], "config_source": watched(ROUTES)});
        merge(manager, &json!({"route_config": null, "rds": rds}));
        self.discover(ROUTES, &json!([routes]))
    }

    /// The listeners are discovered (LDS).
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

    /// The filter is discovered from this file of `envoy-configs/` in the place of the one that `ecds.yaml` names.
    ///
    /// # Errors
    /// When the file is not there or is no YAML.
    pub fn discover_filter_from(mut self, file: &str) -> Result<Self> {
        self.discovered.insert(FILTER.to_owned(), read_yaml(file)?);
        Ok(self)
    }

    /// The secret of `module-sds.yaml` is this keyring.
    #[must_use]
    pub fn keyring(mut self, keyring: &Keyring) -> Self {
        self.each_file(|file| {
            each_object(file, &mut |object| {
                if let Some(name) = object.get_mut("filename").filter(|name| *name == "keyring.json") {
                    *name = keyring.file().to_string_lossy().into();
                }
            });
        });
        self
    }

    /// Envoy discovers these secrets in the place of those of `module-sds.yaml`.
    #[must_use]
    pub fn secrets(mut self, secrets: &Value) -> Self {
        self.discovered
            .insert(SECRETS.to_owned(), json!({"resources": secrets}));
        self
    }

    fn discover(mut self, path: &str, resources: &Value) -> Self {
        // Envoy asks for a name as soon as something is discovered.
        self.bootstrap["node"] = json!({"id": "envoy", "cluster": "web"});
        self.discovered.insert(path.to_owned(), json!({"resources": resources}));
        self
    }

    /// All files of an Envoy in this directory, by their names there, with the filter that is under test.
    ///
    /// # Errors
    /// When there is no filter to test.
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

    /// The first listener, wherever it is.
    pub(super) fn listener(&mut self) -> &mut Value {
        match self.discovered.get_mut(LISTENERS) {
            Some(file) => &mut file["resources"][0],
            None => &mut self.bootstrap["static_resources"]["listeners"][0],
        }
    }

    /// The first listener's name.
    pub(crate) fn listener_name(&self) -> &str {
        let listener = match self.discovered.get(LISTENERS) {
            Some(file) => &file["resources"][0],
            None => &self.bootstrap["static_resources"]["listeners"][0],
        };
        listener["name"].as_str().unwrap_or_default()
    }

    /// The first listener's routes, wherever they are.
    pub(super) fn route_config(&mut self) -> &mut Value {
        if self.discovered.contains_key(ROUTES) {
            self.discovered_resource(ROUTES)
        } else {
            &mut self.hcm()["route_config"]
        }
    }

    /// The first listener's first route.
    pub(crate) fn first_route(&mut self) -> &mut Value {
        &mut self.route_config()["virtual_hosts"][0]["routes"][0]
    }

    /// The endpoints of the first cluster, wherever they are.
    pub(super) fn load_assignment(&mut self) -> &mut Value {
        let source = &self.cluster_mut()["eds_cluster_config"]["eds_config"]["path_config_source"];
        match source["path"].as_str().map(str::to_owned) {
            Some(path) => self.discovered_resource(&path),
            None => &mut self.cluster_mut()["load_assignment"],
        }
    }

    /// The first resource of a file that is there.
    fn discovered_resource(&mut self, path: &str) -> &mut Value {
        &mut self.discovered.entry(path.to_owned()).or_default()["resources"][0]
    }
}

/// The files of `envoy-configs/` that a configuration has something discovered from, by their paths in it.
///
/// # Errors
/// When one of them is not there or is no YAML.
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

fn watched(path: &str) -> Value {
    json!({"path_config_source": {"path": path}, "resource_api_version": "V3"})
}

/// The name of the file that the filter is discovered from, among those of an Envoy.
pub(crate) fn discovered_filter() -> String {
    file_name(FILTER)
}

/// All files of an Envoy are in one directory, as JSON.
fn file_name(path: &str) -> String {
    let path = Path::new(path.trim_start_matches("envoy-configs/")).with_extension("json");
    path.to_string_lossy().replace('/', "-")
}
