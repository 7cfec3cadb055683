//! What an Envoy discovers: the filter's configuration (ECDS), routes (RDS) and clusters (CDS), from files or from the
//! other documents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::config_file;
use super::node::ConfigNode;
use crate::envoy_config::filter_locator::{self, LocatedFilter};
use crate::exit::CommandFailure;

const CLUSTER: &str = "envoy.config.cluster.v3.Cluster";
const ROUTE_CONFIGURATION: &str = "envoy.config.route.v3.RouteConfiguration";
const SCOPE: &str = "envoy.config.route.v3.ScopedRouteConfiguration";

/// Where an Envoy may say that it discovers something from a file.
const CONFIG_SOURCES: [&[&str]; 6] = [
    &["config_discovery", "config_source"],
    &["rds", "config_source"],
    &["scoped_routes", "rds_config_source"],
    &["scoped_routes", "scoped_rds", "scoped_rds_config_source"],
    &["dynamic_resources", "lds_config"],
    &["dynamic_resources", "cds_config"],
];

/// Reads a file, and the files from which it has listeners, routes, clusters or the filter's configuration discovered.
///
/// # Errors
/// If the file itself cannot be read; others are left out.
pub(crate) fn read(file: &str) -> Result<Vec<(String, Value)>, CommandFailure> {
    let mut documents = vec![(file.to_owned(), config_file::read(file)?)];
    add_files(&mut documents);
    Ok(documents)
}

/// Adds the files from which the documents have something discovered, and those that these name, if they can be read
/// here. Their paths are taken as relative to the current directory, as if Envoy ran here.
pub(crate) fn add_files(documents: &mut Vec<(String, Value)>) {
    let mut next = 0;
    while let Some((file, value)) = documents.get(next) {
        let mut paths: Vec<String> = Vec::new();
        ConfigNode::root(file, value).visit(&mut |object| {
            let sources: Vec<ConfigNode<'_>> = CONFIG_SOURCES.iter().filter_map(|names| object.at(names)).collect();
            paths.extend(sources.iter().filter_map(watched_file).map(str::to_owned));
        });
        for path in paths {
            let canonical = |path: &str| Path::new(path).canonicalize().ok();
            let is_new = documents.iter().all(|(file, _)| canonical(file) != canonical(&path));
            if is_new && let Ok(value) = config_file::read(&path) {
                documents.push((path, value));
            }
        }
        next += 1;
    }
}

/// Where Envoy gets what none of the documents has, for messages.
pub(crate) fn origin(source: Option<&ConfigNode<'_>>) -> String {
    match source.and_then(watched_file) {
        Some(file) => format!("from {file}, which cannot be read from here"),
        None => "from elsewhere".to_owned(),
    }
}

fn watched_file<'a>(source: &ConfigNode<'a>) -> Option<&'a str> {
    source
        .at(&["path_config_source", "path"])
        .or_else(|| source.get("path"))?
        .value
        .as_str()
}

/// Of resources with the same name, the one in the file that Envoy watches. Without it, one in a file of the same name:
/// the configuration may be checked elsewhere than Envoy runs. Else the last one.
fn of_source<'s, T>(same_name: &'s [T], file: impl Fn(&T) -> &str, source: Option<&ConfigNode<'_>>) -> Option<&'s T> {
    let watched = source.and_then(watched_file).map(Path::new);
    let in_file = |is_same: fn(&Path, &Path) -> bool| {
        let watched = watched?;
        same_name.iter().rfind(|one| is_same(Path::new(file(one)), watched))
    };
    let is_same_file = |one: &Path, other: &Path| {
        let canonical = |path: &Path| path.canonicalize().ok();
        one == other || canonical(one).is_some_and(|one| Some(one) == canonical(other))
    };
    in_file(is_same_file)
        .or_else(|| in_file(|one, other| one.file_name() == other.file_name()))
        .or_else(|| same_name.last())
}

/// What the documents offer for discovery, by name.
#[derive(Debug, Default)]
pub(crate) struct DiscoverySources<'a> {
    filters: BTreeMap<&'a str, Vec<LocatedFilter<'a>>>,
    routes: BTreeMap<&'a str, Vec<ConfigNode<'a>>>,
    scopes: Vec<ConfigNode<'a>>,
    clusters: BTreeMap<&'a str, ConfigNode<'a>>,
    /// By file, because the clusters of a bootstrap are for its own Envoy only.
    static_clusters: BTreeMap<&'a str, BTreeMap<&'a str, ConfigNode<'a>>>,
    /// The files of bootstraps that discover no clusters.
    without_discovery: BTreeSet<&'a str>,
}

impl<'a> DiscoverySources<'a> {
    pub(crate) fn new(roots: &[ConfigNode<'a>]) -> Self {
        let mut sources = Self::default();
        for root in roots {
            let resources = filter_locator::filters(root)
                .into_iter()
                .filter(LocatedFilter::is_resource);
            for found in resources {
                sources.filters.entry(found.name()).or_default().push(found);
            }
            root.visit(&mut |object| {
                let name = object.text("name").unwrap_or_default();
                match object.kind() {
                    Some(ROUTE_CONFIGURATION) => sources.routes.entry(name).or_default().push(object.clone()),
                    Some(SCOPE) => sources.scopes.push(object.clone()),
                    Some(CLUSTER) => drop(sources.clusters.insert(name, object.clone())),
                    _ => {}
                }
            });
            let resources = root.get("static_resources");
            let clusters = resources
                .map(|resources| resources.list("clusters"))
                .unwrap_or_default();
            let named = clusters
                .into_iter()
                .filter_map(|cluster| Some((cluster.text("name")?, cluster)));
            sources.static_clusters.insert(root.file, named.collect());
            if root.get("static_resources").is_some() && root.at(&["dynamic_resources", "cds_config"]).is_none() {
                sources.without_discovery.insert(root.file);
            }
        }
        sources
    }

    /// The filter's configuration that is discovered under this name, from this source.
    pub(crate) fn filter(&self, name: &str, source: Option<&ConfigNode<'_>>) -> Option<&LocatedFilter<'a>> {
        of_source(self.filters.get(name)?, |found| found.holder.file, source)
    }

    /// The route configuration of this name, from this source.
    pub(crate) fn routes(&self, name: &str, source: Option<&ConfigNode<'_>>) -> Option<&ConfigNode<'a>> {
        of_source(self.routes.get(name)?, |found| found.file, source)
    }

    /// The scopes of routes that are discovered.
    pub(crate) fn scopes(&self) -> impl Iterator<Item = &ConfigNode<'a>> {
        self.scopes.iter()
    }

    /// The cluster of this name that the Envoy of this file has.
    pub(crate) fn cluster(&self, file: &str, name: &str) -> Option<&ConfigNode<'a>> {
        let own = self.bootstrap_of(file).and_then(|clusters| clusters.get(name));
        own.or_else(|| self.clusters.get(name))
    }

    /// The clusters of the bootstrap that this file is, or that its listeners belong to: the only one.
    fn bootstrap_of(&self, file: &str) -> Option<&BTreeMap<&'a str, ConfigNode<'a>>> {
        let mut bootstraps = self.static_clusters.iter().filter(|(_, clusters)| !clusters.is_empty());
        let own = self.static_clusters.get(file).filter(|clusters| !clusters.is_empty());
        own.or_else(|| match (bootstraps.next(), bootstraps.next()) {
            (Some((_, only)), None) => Some(only),
            _ => None,
        })
    }

    /// Whether the Envoy of this file cannot have a cluster of this name.
    pub(crate) fn lacks_cluster(&self, file: &str, name: &str) -> bool {
        self.without_discovery.contains(file) && self.cluster(file, name).is_none()
    }

    /// Whether this document offers routes for discovery.
    pub(crate) fn has_routes(&self, root: &ConfigNode<'_>) -> bool {
        self.routes.values().flatten().any(|routes| routes.file == root.file)
    }
}
