//! The entries of a route configuration that requests are sent by.

use crate::envoy_config::node::ConfigNode;

/// A route, or one of its weighted clusters, with the levels around it.
#[derive(Debug)]
pub(super) struct RouteEntry<'n, 'a> {
    pub(super) route_configuration: &'n ConfigNode<'a>,
    pub(super) virtual_host: &'n ConfigNode<'a>,
    pub(super) route: &'n ConfigNode<'a>,
    /// Only a weighted cluster that has configurations of filters of its own is an entry of its own.
    weighted_cluster: Option<ConfigNode<'a>>,
    /// The clusters that a request of this entry may be sent to.
    pub(super) clusters: Vec<&'a str>,
}

impl<'n, 'a> RouteEntry<'n, 'a> {
    /// The entries of a route.
    pub(super) fn all(
        route_configuration: &'n ConfigNode<'a>,
        virtual_host: &'n ConfigNode<'a>,
        route: &'n ConfigNode<'a>,
    ) -> Vec<Self> {
        let entry = |weighted_cluster, clusters| Self {
            route_configuration,
            virtual_host,
            route,
            weighted_cluster,
            clusters,
        };
        let weighted = weighted_clusters(route);
        let is_one = weighted.is_empty();
        let (own, shared): (Vec<_>, Vec<_>) = weighted
            .into_iter()
            .partition(|cluster| cluster.get("typed_per_filter_config").is_some());
        let mut entries = Vec::new();
        if is_one || !shared.is_empty() {
            let cluster = route.get("route").and_then(|action| action.text("cluster"));
            let clusters = shared.iter().filter_map(|cluster| cluster.text("name"));
            entries.push(entry(None, cluster.into_iter().chain(clusters).collect()));
        }
        entries.extend(own.into_iter().map(|cluster| {
            let name = cluster.text("name");
            entry(Some(cluster), Vec::from_iter(name))
        }));
        entries
    }

    /// Every level that may have configurations of filters, outer ones first.
    pub(super) fn levels(&self) -> impl Iterator<Item = &ConfigNode<'a>> {
        let levels = [self.route_configuration, self.virtual_host, self.route];
        levels.into_iter().chain(&self.weighted_cluster)
    }
}

/// The entries of a route's weighted clusters.
pub(super) fn weighted_clusters<'a>(route: &ConfigNode<'a>) -> Vec<ConfigNode<'a>> {
    let weighted = route.at(&["route", "weighted_clusters"]);
    weighted.map(|weighted| weighted.list("clusters")).unwrap_or_default()
}
