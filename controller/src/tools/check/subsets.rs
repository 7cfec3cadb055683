//! What a route decides of a destination beside its cluster. A token names the cluster, so routes that share a session
//! must decide the rest alike.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::chain::Chain;
use super::report::CheckReport;
use super::route_entry::weighted_clusters;
use super::session::CheckedSession;
use crate::envoy_config::discovery::DiscoverySources;
use crate::envoy_config::node::ConfigNode;
use limpet_core::token::cluster_base;

/// The key of metadata that Envoy chooses subsets by.
const SUBSET_METADATA: &str = "envoy.lb";

/// What an entry of `weighted_clusters` says, beside the cluster and its share, that a route in front says differently.
const OF_AN_ENTRY: [&str; 6] = [
    "request_headers_to_add",
    "request_headers_to_remove",
    "response_headers_to_add",
    "response_headers_to_remove",
    "host_rewrite_literal",
    "typed_per_filter_config",
];

/// The subsets that sessions were found in.
#[derive(Debug, Default)]
pub(super) struct Subsets(BTreeMap<(String, String), Subset>);

#[derive(Debug)]
struct Subset {
    criteria: Criteria,
    /// Where they stand.
    place: String,
}

/// Names and values of an endpoint's metadata.
type Criteria = Map<String, Value>;

impl Subsets {
    /// Checks the subsets of a cluster that a route leads a session to, against earlier routes' subsets.
    pub(super) fn check<'a>(
        &mut self,
        report: &mut CheckReport,
        chain: &Chain<'a>,
        sources: &DiscoverySources<'a>,
        session: &CheckedSession<'_>,
        (route, cluster): (&ConfigNode<'a>, &str),
    ) {
        if sources
            .cluster(chain.manager.file, cluster)
            .is_some_and(|cluster| !has_subsets(cluster))
        {
            return;
        }
        let base = String::from_utf8_lossy(cluster_base(cluster.as_bytes())).into_owned();
        for (criteria, node) in subsets(route, cluster) {
            let name = route
                .text("name")
                .filter(|name| node.path == route.path && !name.is_empty());
            let first = self.0.entry((session.name(), base.clone())).or_insert_with(|| Subset {
                criteria: criteria.clone(),
                place: name.map_or_else(|| node.path.clone(), |name| format!("the route {name}")),
            });
            if first.criteria != criteria {
                let message = format!(
                    "metadata_match: {} leads the session {} to another subset of {cluster}, and a session stays with \
                     its endpoint: requests here would leave their subset. Give each subset a session with a scope of \
                     its own, or a cluster of its own",
                    first.place,
                    session.name()
                );
                return report.warning(&node, message);
            }
        }
    }
}

/// The subsets of a cluster that a route chooses, and where it says so.
fn subsets<'a>(route: &ConfigNode<'a>, cluster: &str) -> Vec<(Criteria, ConfigNode<'a>)> {
    let Some(action) = route.get("route") else {
        return Vec::new();
    };
    let of_route = criteria(&action);
    let mut found: Vec<(Criteria, ConfigNode<'a>)> = entries(route, cluster)
        .into_iter()
        .map(|entry| {
            // Envoy: the entry's win over the route's.
            let mut all = of_route.clone();
            all.extend(criteria(&entry));
            (all, entry)
        })
        .collect();
    if found.is_empty() {
        found.push((of_route, route.clone()));
    }
    found
}

fn criteria(action: &ConfigNode<'_>) -> Criteria {
    let metadata = action.at(&["metadata_match", "filter_metadata"]);
    let own = metadata.and_then(|metadata| metadata.entry(SUBSET_METADATA));
    own.and_then(|own| own.value.as_object().cloned()).unwrap_or_default()
}

fn entries<'a>(route: &ConfigNode<'a>, cluster: &str) -> Vec<ConfigNode<'a>> {
    let is_it = |entry: &ConfigNode<'_>| entry.text("name") == Some(cluster);
    weighted_clusters(route).into_iter().filter(is_it).collect()
}

fn has_subsets(cluster: &ConfigNode<'_>) -> bool {
    let of_policy = cluster.get("load_balancing_policy").is_some_and(|policy| {
        let mut any = false;
        policy.visit(&mut |object| any |= object.kind().is_some_and(|kind| kind.ends_with(".subset.v3.Subset")));
        any
    });
    let selectors = cluster.at(&["lb_subset_config", "subset_selectors"]);
    of_policy || selectors.is_some_and(|selectors| selectors.children().next().is_some())
}

/// Checks that no cluster is twice in a split with other changes of the request: sessions are led to a route in front,
/// and there is one for a cluster.
pub(super) fn check_twins(
    report: &mut CheckReport,
    session: &CheckedSession<'_>,
    route: &ConfigNode<'_>,
    clusters: &[&str],
) {
    for cluster in clusters {
        let entries = entries(route, cluster);
        let Some((first, others)) = entries.split_first() else {
            continue;
        };
        let differing = |entry: &ConfigNode<'_>| {
            let differs = |field: &&&str| {
                let (one, other) = (first.get(field), entry.get(field));
                one.map(|node| node.value) != other.map(|node| node.value)
            };
            OF_AN_ENTRY.iter().find(differs)
        };
        let Some((entry, field)) = others.iter().find_map(|entry| Some((entry, differing(entry)?))) else {
            continue;
        };
        let message = format!(
            "{field}: {} leads to {cluster} as well, and says something else: a session {} belongs to a cluster, and \
             cannot tell the two apart. Give each a cluster of its own",
            first.path,
            session.name()
        );
        return report.warning(entry, message);
    }
}
