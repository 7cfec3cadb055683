//! Only ECDS: Envoys whose routes come from another control plane. The table `routes` of the filter's configuration has
//! these routes' sessions.

use std::collections::BTreeMap;

use limpet_core::config::schema::RouteConfig;
use serde::{Deserialize, Serialize};

use limpet_api::ObjectName;
use limpet_model::Graph;
use limpet_model::graph::{Action, RuleName, Session, VirtualHost};

/// A Gateway whose Envoys get their routes from another control plane, and the names of these routes.
///
/// In both templates, `{kind}` (`httproute`), `{namespace}` and `{route}` are for the route, `{rule}` for the rule's
/// name (or its hash in the scope), and `{hostname}` for the virtual host's (`shop.example.com`, `*.example.com` or
/// `*`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoutesElsewhere {
    /// The `node.cluster` of the Gateway's Envoys, as `namespace/name`.
    pub gateway: String,
    /// The template of the route's name.
    pub route_name: String,
    /// The template of the virtual host's name, if the route's name is not unique.
    #[serde(default)]
    pub virtual_host_name: Option<String>,
}

impl RoutesElsewhere {
    pub(super) fn is_of(&self, gateway: &ObjectName) -> bool {
        self.gateway == gateway.to_string()
    }

    /// The table, with each route of each virtual host once, without sessions of destinations: the other control
    /// plane's clusters name those.
    pub(super) fn table(&self, graph: &Graph, gateway: &ObjectName) -> Vec<RouteConfig> {
        let mut table = BTreeMap::new();
        let listeners = graph
            .gateways
            .get(gateway)
            .into_iter()
            .flat_map(|gateway| gateway.ports.values().flatten());
        for host in listeners.flat_map(|listener| listener.virtual_hosts.values()) {
            for route in &host.routes {
                let Action::Forward(forward) = &route.action else {
                    continue;
                };
                let (session, per_cluster) = match &forward.session {
                    Session::Rule(session) => (session, false),
                    Session::EachDestination(session) => (session, true),
                    Session::None | Session::Destinations => continue,
                };
                let name = fill(&self.route_name, &route.rule, host);
                let virtual_host = self
                    .virtual_host_name
                    .as_ref()
                    .map(|template| fill(template, &route.rule, host));
                table.entry((name, virtual_host)).or_insert((session, per_cluster));
            }
        }
        let entries = table
            .into_iter()
            .map(|((route, virtual_host), (session, per_cluster))| RouteConfig {
                route,
                virtual_host,
                policy: session.policy.to_string(),
                scope: Some(session.scope.to_string()),
                per_cluster,
            });
        entries.collect()
    }
}

/// A rule's name is `<kind>/<namespace>/<route>/<rule>`. Only the last part may contain a slash.
fn fill(template: &str, rule: &RuleName, host: &VirtualHost) -> String {
    let mut parts = rule.0.splitn(4, '/');
    let mut text = template.to_owned();
    for name in ["{kind}", "{namespace}", "{route}", "{rule}"] {
        text = text.replace(name, parts.next().unwrap_or_default());
    }
    text.replace("{hostname}", &host.hostname.to_string())
}
