//! Only ECDS: Envoys whose routes come from another control plane, under names that it gave them. The table `routes` of
//! the filter's configuration then says which sessions these routes have.

use std::collections::BTreeMap;

use limpet_core::config::schema::RouteConfig;
use serde::{Deserialize, Serialize};

use limpet_api::ObjectName;
use limpet_model::Graph;
use limpet_model::graph::{Action, RuleName, Session, VirtualHost};

/// A Gateway whose Envoys get their routes from another control plane, and the names that these routes have there.
///
/// In both templates, `{kind}` (`httproute`), `{namespace}` and `{route}` stand for the route, `{rule}` for the rule's
/// name (or the hash in its place in the scope), and `{hostname}` for the hostname of the virtual host
/// (`shop.example.com`, `*.example.com` or `*`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoutesElsewhere {
    /// The Gateway, as `namespace/name`: the `node.cluster` of its Envoys.
    pub gateway: String,
    /// The template of the route's name.
    pub route_name: String,
    /// The template of the virtual host's name, if the route's name is not unique.
    #[serde(default)]
    pub virtual_host_name: Option<String>,
}

impl RoutesElsewhere {
    /// Whether this entry is about the Gateway.
    pub(super) fn is_of(&self, gateway: &ObjectName) -> bool {
        self.gateway == gateway.to_string()
    }

    /// The table, with each route of each virtual host once. Sessions of destinations are not in it: clusters name
    /// those, and clusters come from the other control plane, too.
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
