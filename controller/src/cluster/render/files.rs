//! The files for an Envoy: one file, or a directory that it takes its configuration from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::exit::CommandFailure;
use limpet_api::ObjectName;
use limpet_outputs::envoy::static_bootstrap;
use limpet_outputs::json;
use limpet_resources::{Resource, ResourceType};

/// A bootstrap with all resources in it.
pub(crate) fn static_file(resources: &[Resource], admin_port: u16) -> Result<Value, CommandFailure> {
    let bootstrap = static_bootstrap(resources, admin_port).map_err(|error| CommandFailure(error.to_string()))?;
    plain(json::typed(&bootstrap))
}

/// The files of a directory, by their paths in it: `bootstrap.yaml`, which Envoy starts with, and one for each resource
/// that it discovers; `folder`: where Envoy finds the directory.
pub(crate) fn xds_folder(
    gateway: &ObjectName,
    resources: &[Resource],
    folder: &Path,
    admin_port: u16,
) -> Result<BTreeMap<PathBuf, Value>, CommandFailure> {
    let mut files = BTreeMap::new();
    let mut wildcards: BTreeMap<&str, Vec<Value>> =
        BTreeMap::from([("cds.yaml", Vec::new()), ("lds.yaml", Vec::new())]);
    for resource in resources {
        let mut value = plain(json::resource(resource))?;
        discover_from(&mut value, folder);
        match resource.resource_type() {
            ResourceType::Cluster => wildcards.entry("cds.yaml").or_default().push(value),
            ResourceType::Listener => wildcards.entry("lds.yaml").or_default().push(value),
            other => {
                let file = file_of(kind_of(other), resource.name());
                files.insert(file, response(&[value]));
            }
        }
    }
    for (file, values) in wildcards {
        files.insert(PathBuf::from(file), response(&values));
    }
    files.insert(PathBuf::from("bootstrap.yaml"), bootstrap(gateway, folder, admin_port)?);
    Ok(files)
}

fn plain(value: Result<Value, json::JsonError>) -> Result<Value, CommandFailure> {
    value.map_err(|error| CommandFailure(error.to_string()))
}

/// A `DiscoveryResponse`, which Envoy expects in a file.
fn response(resources: &[Value]) -> Value {
    json!({"resources": resources})
}

fn bootstrap(gateway: &ObjectName, folder: &Path, admin_port: u16) -> Result<Value, CommandFailure> {
    let mut bootstrap = static_file(&[], admin_port)?;
    if let Value::Object(fields) = &mut bootstrap {
        fields.remove("static_resources");
        fields.insert(
            "node".to_owned(),
            json!({"id": gateway.name, "cluster": gateway.to_string()}),
        );
        let dynamic = json!({
            "cds_config": path_source(folder, Path::new("cds.yaml")),
            "lds_config": path_source(folder, Path::new("lds.yaml")),
        });
        fields.insert("dynamic_resources".to_owned(), dynamic);
    }
    Ok(bootstrap)
}

fn path_source(folder: &Path, file: &Path) -> Value {
    json!({"resource_api_version": "V3", "path_config_source": {"path": folder.join(file)}})
}

/// The directory of a type's files.
fn kind_of(resource_type: ResourceType) -> &'static str {
    match resource_type {
        ResourceType::Cluster => "cds",
        ResourceType::ClusterLoadAssignment => "eds",
        ResourceType::Listener => "lds",
        ResourceType::RouteConfiguration => "rds",
        ResourceType::VirtualHost => "vhds",
        ResourceType::Secret => "sds",
        ResourceType::ExtensionConfig => "ecds",
    }
}

/// Envoy expects one resource in a file if it asks for one by name.
fn file_of(kind: &str, name: &str) -> PathBuf {
    // Names in Kubernetes have no `_`, so different names stay different.
    PathBuf::from(kind).join(format!("{}.yaml", name.replace('/', "_")))
}

/// Replaces every source by ADS with a file of the directory.
fn discover_from(value: &mut Value, folder: &Path) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| discover_from(item, folder)),
        Value::Object(fields) => {
            for (field, of_name, kind) in [
                ("config_source", "route_config_name", "rds"),
                ("sds_config", "name", "sds"),
            ] {
                let name = text(fields, of_name);
                replace(fields.get_mut(field), kind, name, folder);
            }
            let name = text(fields, "name");
            if let Some(Value::Object(eds)) = fields.get_mut("eds_cluster_config") {
                let name = text(eds, "service_name").or_else(|| name.clone());
                replace(eds.get_mut("eds_config"), "eds", name, folder);
            }
            if let Some(Value::Object(discovery)) = fields.get_mut("config_discovery") {
                replace(discovery.get_mut("config_source"), "ecds", name, folder);
            }
            fields.values_mut().for_each(|field| discover_from(field, folder));
        }
        _ => {}
    }
}

fn text(fields: &Map<String, Value>, field: &str) -> Option<String> {
    fields.get(field).and_then(Value::as_str).map(str::to_owned)
}

fn replace(source: Option<&mut Value>, kind: &str, name: Option<String>, folder: &Path) {
    if let (Some(source), Some(name)) = (source, name)
        && source.get("ads").is_some()
    {
        *source = path_source(folder, &file_of(kind, &name));
    }
}
