//! ECDS alone: Envoys whose routes belong to somebody else, and have names that somebody else gave. What their routes' sessions are is then in the
//! filter's configuration, in its table `routes`.

use std::collections::BTreeMap;

use limpet_core::config::schema::RouteConfig;
use serde::{Deserialize, Serialize};

use limpet_api::ObjectName;
use limpet_model::Graph;
use limpet_model::graph::{Action, RuleName, Session, VirtualHost};

/// A Gateway whose Envoys get their routes elsewhere, and how these name what the Gateway's routes are here.
///
/// In the two templates `{kind}` (`httproute`), `{namespace}` and `{route}` stand for the route, `{rule}` for the rule's name (or the hash that the
/// scope of its sessions has in its place), and `{hostname}` for the virtual host's (`shop.example.com`, `*.example.com` or `*`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoutesElsewhere {
    /// The Gateway, as `namespace/name`: the `node.cluster` of its Envoys.
    pub gateway: String,
    /// What the route of a rule is called there.
    pub route_name: String,
    /// What its virtual host is called there, where the route's name alone does not tell.
    #[serde(default)]
    pub virtual_host_name: Option<String>,
}

impl RoutesElsewhere {
    /// Whether it is about this Gateway.
    pub(super) fn is_of(&self, gateway: &ObjectName) -> bool {
        self.gateway == gateway.to_string()
    }

    /// The table: each route of each virtual host once. Sessions of destinations are not in it: where those belong, clusters say, which are
    /// elsewhere as well.
    pub(super) fn table(&self, graph: &Graph, gateway: &ObjectName) -> Vec<RouteConfig> {
        let mut table = BTreeMap::new();
        let listeners = graph
            .gateways
            .get(gateway)
            .into_iter()
            .flat_map(|gateway| gateway.ports.values().flatten());
        for host in listeners.flat_map(|listener| &listener.virtual_hosts) {
            for route in &host.routes {
                let Action::Forward(forward) = &route.action else {
                    continue;
                };
                let Session::Rule(session) = &forward.session else {
                    continue;
                };
                let name = fill(&self.route_name, &route.rule, host);
                let virtual_host = self
                    .virtual_host_name
                    .as_ref()
                    .map(|template| fill(template, &route.rule, host));
                table.entry((name, virtual_host)).or_insert(session);
            }
        }
        let entry = |((route, virtual_host), session): ((String, Option<String>), &limpet_model::graph::SessionUse)| {
            RouteConfig {
                route,
                virtual_host,
                policy: session.policy.clone(),
                scope: Some(session.scope.clone()),
            }
        };
        table.into_iter().map(entry).collect()
    }
}

/// A rule's name is `<kind>/<namespace>/<route>/<rule>`, and only the last of these may have a slash.
fn fill(template: &str, rule: &RuleName, host: &VirtualHost) -> String {
    let mut parts = rule.0.splitn(4, '/');
    let mut text = template.to_owned();
    for name in ["{kind}", "{namespace}", "{route}", "{rule}"] {
        text = text.replace(name, parts.next().unwrap_or_default());
    }
    text.replace("{hostname}", &host.hostname.to_string())
}
