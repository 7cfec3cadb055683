//! Objects from manifests, read as from an API server and into the same store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::unknown;
use crate::cluster::kube::{
    ReferencedObject, Store, StoreUpdate, WatchSettings, config_map_from_manifest, from_manifest, pod_from_manifest,
    secret_from_manifest,
};
use crate::cluster::reconcile::config_map::ConfigMapContent;
use crate::envoy_config::config_file;
use crate::exit::CommandFailure;
use limpet_api::{Kind, ObjectName};
use limpet_model::{Memory, Settings};

/// The namespace of objects that name none, as in kubectl.
const DEFAULT_NAMESPACE: &str = "default";

#[derive(Debug)]
pub(crate) struct ManifestFiles {
    pub(crate) store: Store,
    /// The kinds that are not read, and how many objects there are of each.
    pub(crate) skipped: BTreeMap<String, usize>,
    /// Why documents are of no kind that exists, by their places.
    pub(crate) unknown: BTreeMap<String, String>,
}

/// Reads files of manifests, `-` for standard input, and of directories, at any depth, all of `.yaml`, `.yml` and
/// `.json`.
///
/// # Errors
/// If a file cannot be read, is neither YAML nor JSON, or contains something that is no object; or if there is none.
pub(crate) fn read(paths: &[String], settings: &Settings) -> Result<ManifestFiles, CommandFailure> {
    let documents = documents(paths)?;
    let (files, failures) = read_documents(documents, settings);
    match failures.into_iter().next() {
        Some(failure) => Err(failure),
        None => Ok(files),
    }
}

/// Reads objects with their places, and says which cannot be read.
pub(crate) fn read_documents(
    documents: Vec<(String, Value)>,
    settings: &Settings,
) -> (ManifestFiles, Vec<CommandFailure>) {
    let watched = WatchSettings::everywhere(settings);
    let mut reader = ManifestReader {
        controller: &settings.controller_name,
        skipped: BTreeMap::new(),
        unknown: BTreeMap::new(),
        named: BTreeMap::new(),
        store: Store::new(watched.clone()),
        watched,
    };
    let added = documents
        .into_iter()
        .filter_map(|(place, value)| reader.add(&place, value).err());
    let failures: Vec<CommandFailure> = added.collect();
    let ManifestReader {
        mut store,
        mut skipped,
        unknown,
        mut named,
        ..
    } = reader;
    // Such an object is read if another one names it. The store must also know of objects that are missing.
    for object in store.references().clone().into_keys() {
        let found = named.remove(&object);
        store.apply(match object {
            ReferencedObject::Secret(name) => StoreUpdate::Secret(name, found.map(secret_from_manifest)),
            ReferencedObject::ConfigMap(name) => StoreUpdate::ConfigMap(name, found.map(config_map_from_manifest)),
            // Nothing runs on it: pods are in clusters.
            ReferencedObject::Node(name) => StoreUpdate::Node(name, None),
        });
    }
    let config_maps = named
        .keys()
        .filter(|object| matches!(object, ReferencedObject::ConfigMap(_)))
        .count();
    if config_maps > 0 {
        skipped.insert("ConfigMap".to_owned(), config_maps);
    }
    let files = ManifestFiles {
        store,
        skipped,
        unknown,
    };
    (files, failures)
}

/// The documents of files, with their places.
fn documents(paths: &[String]) -> Result<Vec<(String, Value)>, CommandFailure> {
    let mut all = Vec::new();
    for path in paths {
        for file in files(Path::new(path))? {
            let name = file.display().to_string();
            let values = config_file::read_all(&name)?.into_iter().enumerate();
            all.extend(values.map(|(index, value)| (format!("{name}, document {}", index + 1), value)));
        }
    }
    if all.is_empty() {
        let paths = paths.join(", ");
        return Err(CommandFailure(format!(
            "expected objects of Kubernetes, found none in {paths}"
        )));
    }
    Ok(all)
}

/// The file itself, or the manifests in the directory, sorted.
pub(crate) fn files(path: &Path) -> Result<Vec<PathBuf>, CommandFailure> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |error: std::io::Error| CommandFailure(format!("{}: cannot be read: {error}", path.display()));
    let mut entries: Vec<PathBuf> = std::fs::read_dir(path)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    entries.sort();
    let mut all = Vec::new();
    for entry in entries {
        let is_manifest = entry
            .extension()
            .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known));
        if entry.is_dir() || is_manifest {
            all.extend(files(&entry)?);
        }
    }
    Ok(all)
}

struct ManifestReader<'a> {
    controller: &'a str,
    store: Store,
    skipped: BTreeMap<String, usize>,
    unknown: BTreeMap<String, String>,
    /// Secrets and ConfigMaps.
    named: BTreeMap<ReferencedObject, Value>,
    watched: WatchSettings,
}

impl ManifestReader<'_> {
    fn add(&mut self, place: &str, mut value: Value) -> Result<(), CommandFailure> {
        let Some(kind) = value.get("kind").and_then(Value::as_str).map(str::to_owned) else {
            return Err(CommandFailure(format!("{place}: kind: expected an object's kind")));
        };
        let items = value.get_mut("items").map(Value::take);
        if let (true, Some(Value::Array(items))) = (kind.ends_with("List"), items) {
            for (index, item) in items.into_iter().enumerate() {
                self.add(&format!("{place}, items[{index}]"), item)?;
            }
            return Ok(());
        }
        let api_version = value.get("apiVersion").and_then(Value::as_str);
        if let Err(problem) = unknown::check(api_version, &kind) {
            self.unknown.insert(place.to_owned(), problem);
            return Ok(());
        }
        let read = group(&value).and_then(|group| Kind::find(group, &kind));
        let is_pod = api_version == Some("v1") && kind == "Pod";
        if read.is_none() && !is_pod && !["ConfigMap", "Secret"].contains(&kind.as_str()) {
            // A group may be misspelt, too, and other groups have kinds of the same name.
            let is_namesake = Kind::ALL.iter().any(|known| known.as_str() == kind);
            let name = match api_version.filter(|_| is_namesake) {
                Some(api_version) => format!("{kind} of {api_version}"),
                None => kind,
            };
            // Not even an object of a cluster, perhaps, like a Kustomization: it need not have a name.
            *self.skipped.entry(name).or_default() += 1;
            return Ok(());
        }
        let Some(name) = metadata(&value, "name") else {
            return Err(CommandFailure(format!(
                "{place}: metadata.name: expected the {kind}'s name"
            )));
        };
        let namespace = metadata(&value, "namespace").unwrap_or(DEFAULT_NAMESPACE);
        let name = ObjectName::new(namespace, name);
        let failed = |error: &dyn std::fmt::Display| {
            let name = &name.name;
            CommandFailure(format!("{place}: {kind} {name}: {error}"))
        };
        if kind == "Secret" {
            self.named.insert(ReferencedObject::Secret(name), value);
        } else if kind == "ConfigMap" {
            self.add_config_map(place, name, value)?;
        } else if is_pod {
            let pod = pod_from_manifest(value).map_err(|error| failed(&error))?;
            self.store.apply(StoreUpdate::Pod(name, pod));
        } else if let Some(read) = read.filter(|read| self.watched.reads(*read)) {
            if read.is_namespaced()
                && let Some(Value::Object(meta)) = value.get_mut("metadata")
            {
                meta.insert("namespace".to_owned(), name.namespace.as_str().into());
            }
            let entry = from_manifest(read, value, self.controller).map_err(|error| failed(&error))?;
            if let Some(entry) = entry {
                self.store.apply(StoreUpdate::Applied(read, Box::new(entry)));
            }
        } else {
            *self.skipped.entry(kind).or_default() += 1;
        }
        Ok(())
    }

    /// Adds the controller's memory, or what another object may name.
    fn add_config_map(&mut self, place: &str, name: ObjectName, value: Value) -> Result<(), CommandFailure> {
        let data = value.get("data").cloned().unwrap_or_default();
        let memory = <Memory as ConfigMapContent>::parse(&serde_json::from_value(data).unwrap_or_default());
        let memory = memory.map_err(|error| CommandFailure(format!("{place}: {error}")))?;
        if memory.count() > 0 {
            self.store.set_memory(memory);
        } else {
            self.named.insert(ReferencedObject::ConfigMap(name), value);
        }
        Ok(())
    }
}

/// A text of an object's metadata.
fn metadata<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get("metadata")?.get(field)?.as_str()
}

/// The API group of an object; empty for the core group.
fn group(value: &Value) -> Option<&str> {
    let version = value.get("apiVersion").and_then(Value::as_str)?;
    Some(version.rsplit_once('/').map_or("", |(group, _)| group))
}
