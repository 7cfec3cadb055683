//! What leads where in the published graph.

use std::collections::{BTreeMap, BTreeSet};

use super::search::{MatchedWords, SearchWords};
use limpet_api::{Kind, ObjectName, ObjectRef};
use limpet_model::graph::{
    Action, Cluster, ClusterName, Forward, Gateway, Graph, Hostname, Match, PathMatch, RuleName, Target,
};

#[derive(Debug, Default)]
pub(super) struct Index<'a> {
    pub(super) routes: BTreeMap<ObjectRef, IndexedRoute<'a>>,
    pub(super) services: BTreeMap<ServicePortKey<'a>, &'a Cluster>,
    pub(super) served: BTreeMap<&'a ObjectName, usize>,
}

/// There may be several clusters of it, with different settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ServicePortKey<'a> {
    pub(super) service: &'a ObjectName,
    pub(super) port: u16,
}

#[derive(Debug, Default)]
pub(super) struct IndexedRoute<'a> {
    pub(super) gateways: BTreeSet<&'a ObjectName>,
    pub(super) hostnames: BTreeSet<&'a Hostname>,
    pub(super) rules: BTreeMap<&'a RuleName, IndexedRule<'a>>,
}

#[derive(Debug)]
pub(super) struct IndexedRule<'a> {
    pub(super) matches: BTreeSet<&'a Match>,
    pub(super) action: &'a Action,
}

impl<'a> ServicePortKey<'a> {
    pub(super) fn of(cluster: &'a Cluster) -> Self {
        Self {
            service: &cluster.service,
            port: cluster.port,
        }
    }

    pub(super) fn id(self) -> String {
        format!("{}:{}", self.service, self.port)
    }
}

impl<'a> Index<'a> {
    pub(super) fn new(graph: &'a Graph) -> Self {
        let mut index = Self::default();
        for (name, gateway) in &graph.gateways {
            index.add(name, gateway);
        }
        for route in index.routes.values() {
            for gateway in &route.gateways {
                *index.served.entry(gateway).or_default() += 1;
            }
        }
        let clusters = graph.clusters.values();
        index.services = clusters
            .map(|cluster| (ServicePortKey::of(cluster), &**cluster))
            .collect();
        index
    }

    fn add(&mut self, name: &'a ObjectName, gateway: &'a Gateway) {
        let hosts = gateway.ports.values().flatten();
        for host in hosts.flat_map(|listener| listener.virtual_hosts.values()) {
            for served in &host.routes {
                let Some((object, _)) = origin(&served.rule) else {
                    continue;
                };
                let route = self.routes.entry(object).or_default();
                route.gateways.insert(name);
                route.hostnames.insert(&host.hostname);
                let rule = route.rules.entry(&served.rule).or_insert_with(|| IndexedRule {
                    matches: BTreeSet::new(),
                    action: &served.action,
                });
                rule.matches.insert(&served.matches);
            }
        }
    }
}

impl<'a> IndexedRule<'a> {
    pub(super) fn forward(&self) -> Option<&'a Forward> {
        match self.action {
            Action::Forward(forward) => Some(forward),
            Action::Redirect(_) | Action::Respond { .. } => None,
        }
    }

    /// Including those that get copies.
    pub(super) fn clusters(&self) -> impl Iterator<Item = &'a ClusterName> {
        let forward = self.forward().into_iter();
        forward.flat_map(|forward| {
            let destinations = forward.destinations.iter();
            let destinations = destinations.filter_map(|destination| match &destination.target {
                Target::Cluster(cluster) => Some(cluster),
                Target::Invalid { .. } => None,
            });
            destinations.chain(forward.mirrors.iter().map(|mirror| &mirror.cluster))
        })
    }
}

impl IndexedRoute<'_> {
    /// Matches hosts, names of rules, and paths.
    pub(super) fn match_words(&self, search: &SearchWords) -> MatchedWords {
        if search.is_empty() {
            return MatchedWords::default();
        }
        let hosts = search.match_words(self.hostnames.iter().map(ToString::to_string));
        let names = search.match_words(self.rules.keys().map(|name| &name.0));
        let matches = self.rules.values().flat_map(|rule| &rule.matches);
        let paths = matches.map(|matches| match &matches.path {
            PathMatch::Exact(path) | PathMatch::Prefix(path) | PathMatch::Text(path) | PathMatch::Regex(path) => path,
        });
        hosts.or(names).or(search.match_words(paths))
    }
}

/// The route of a rule, and the rule's name within it.
pub(super) fn origin(rule: &RuleName) -> Option<(ObjectRef, &str)> {
    let (kind, rest) = rule.0.split_once('/')?;
    let (namespace, rest) = rest.split_once('/')?;
    let (name, rule) = rest.split_once('/')?;
    let mut kinds = [Kind::HttpRoute, Kind::GrpcRoute, Kind::IngressRoute].into_iter();
    let kind = kinds.find(|known| known.as_str().eq_ignore_ascii_case(kind))?;
    let name = ObjectName::new(namespace, name);
    Some((ObjectRef { kind, name }, rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_rule_tells_its_route() {
        let rule = RuleName("ingressroute/web/shop//cart/".into());
        let (object, name) = origin(&rule).unwrap();
        assert_eq!(object.key(), "ingressroute/web/shop");
        assert_eq!(name, "/cart/");
        assert_eq!(origin(&RuleName("service/web/shop/x".into())), None);
    }
}
