//! What Envoy Gateway can do for each rule, and what it cannot.

use std::collections::BTreeMap;

use crate::manifests::ManifestInputs;
use crate::used::{beginning_all_the_same, without_budgets, without_hash};
use limpet_api::{Kind, ObjectName};
use limpet_model::graph::{
    Action, Destination, Forward, Graph, RuleName, RuleOrigin, Session, SessionRequester, SessionUse, Target,
};
use limpet_model::{Extent, Unsupported};

#[derive(Debug)]
pub(super) struct SessionRule<'a> {
    pub(super) origin: &'a RuleOrigin,
    pub(super) session: SessionUse,
    /// Whether its only destination has its own header filters: Envoy Gateway then gives the cluster another name.
    pub(super) has_own_cluster: bool,
}

/// The rules whose sessions Envoy Gateway can express, in order, and what is unsupported of all rules.
pub(super) fn rules<'a>(source: &ManifestInputs<'a>) -> (Vec<SessionRule<'a>>, Vec<Unsupported>) {
    let forwards = forwards(source.graph);
    let (mut rules, mut unsupported) = (Vec::new(), Vec::new());
    for (name, origin) in &source.graph.rules {
        let Some(forward) = forwards.get(name) else { continue };
        let mut refuse = |extent, message: String| {
            unsupported.push(Unsupported {
                rule: name.clone(),
                gateway: None,
                extent,
                message,
            });
        };
        match judge(source, origin, forward) {
            Ok((rule, parts)) => {
                rules.push(rule);
                for part in parts {
                    refuse(Extent::Part, part);
                }
            }
            Err(why) => refuse(Extent::All, why.to_owned()),
        }
    }
    (rules, unsupported)
}

/// A rule has the same route wherever it is served.
fn forwards(graph: &Graph) -> BTreeMap<&RuleName, &Forward> {
    let listeners = graph
        .gateways
        .values()
        .flat_map(|gateway| gateway.ports.values())
        .flatten();
    let routes = listeners
        .flat_map(|listener| listener.virtual_hosts.values())
        .flat_map(|host| &host.routes);
    routes
        .filter_map(|route| match &route.action {
            Action::Forward(forward) => Some((&route.rule, forward)),
            _ => None,
        })
        .collect()
}

fn judge<'a>(
    source: &ManifestInputs<'a>,
    origin: &'a RuleOrigin,
    forward: &'a Forward,
) -> Result<(SessionRule<'a>, Vec<String>), &'static str> {
    let session = match &forward.session {
        Session::Rule(session) => session.clone(),
        // One cluster has all backends of a rule.
        Session::EachDestination(session) => {
            let first = forward.clusters().next();
            first.map_or_else(|| session.clone(), |cluster| session.at(&cluster.base_text()))
        }
        Session::Destinations | Session::None => {
            return Err("backendRefs: expected Services: Envoy Gateway knows no XBackend");
        }
    };
    if origin.requested_by == SessionRequester::Rule {
        return Err(
            "sessionPersistence: expected a session policy for the Service in its place: of this field Envoy \
             Gateway makes an unsigned session of its own",
        );
    }
    if origin.name.is_none() && rule_count(source, origin) != Some(1) {
        return Err(
            "name: expected one, since the route has several rules: Envoy Gateway's policies know a rule by its name",
        );
    }
    let filtered = |destination: &&Destination| {
        !destination.request_headers.is_empty() || !destination.response_headers.is_empty()
    };
    let has_filters =
        forward.destinations.iter().any(|destination| filtered(&destination)) || has_unknown_filters(origin, forward);
    let is_split = forward.destinations.len() > 1;
    if is_split && has_filters {
        return Err(
            "backendRefs: expected filters only on the rule: with filters on one of several backends Envoy \
             Gateway chooses among them again for each request",
        );
    }
    let rule = SessionRule {
        origin,
        session,
        has_own_cluster: has_filters,
    };
    let parts = unsupported_parts(source, forward, &rule.session, is_split);
    Ok((rule, parts))
}

fn unsupported_parts(
    source: &ManifestInputs<'_>,
    forward: &Forward,
    session: &SessionUse,
    is_split: bool,
) -> Vec<String> {
    let empty = forward
        .destinations
        .iter()
        .filter(|destination| is_split && destination.weight == 0);
    let parts = empty.filter_map(|destination| match &destination.target {
        Target::Cluster(cluster) => source.graph.clusters.get(cluster),
        Target::Invalid { .. } => None,
    });
    let parts = parts.map(|cluster| {
        format!(
            "backendRefs: expected a weight of at least 1 for the Service {} until its sessions have ended: \
             Envoy Gateway leaves backends of weight 0 out, and their sessions move at once",
            cluster.service
        )
    });
    let chooses = (is_split && matches!(forward.session, Session::EachDestination(_))).then(|| {
        "session.limpet.dev/split: expected keep: Envoy Gateway has one cluster for all backends of a rule, so a session \
         keeps its backend"
            .to_owned()
    });
    let parts = parts.chain(chooses);
    let hash = "a BackendTrafficPolicy with consistentHash: {type: SourceIP} is there for the route";
    let parts = parts.chain(beginning_all_the_same(source.graph, forward));
    let parts = parts.chain(without_budgets(source.graph, &session.policy));
    parts.chain(without_hash(source.graph, &session.policy, hash)).collect()
}

fn has_unknown_filters(origin: &RuleOrigin, forward: &Forward) -> bool {
    let backends = format!("spec.rules[{}].backendRefs[", origin.index);
    forward
        .not_followed
        .iter()
        .any(|field| field.starts_with(&backends) && field.contains("filters"))
}

fn rule_count(source: &ManifestInputs<'_>, origin: &RuleOrigin) -> Option<usize> {
    let name: &ObjectName = &origin.route.name;
    match origin.route.kind {
        Kind::HttpRoute => source.objects.http_routes.get(name).map(|route| route.spec.rules.len()),
        _ => source.objects.grpc_routes.get(name).map(|route| route.spec.rules.len()),
    }
}
