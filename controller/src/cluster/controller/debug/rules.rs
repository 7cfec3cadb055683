use super::index::{IndexedRoute, IndexedRule, ServicePortKey, origin};
use super::view::{AnswerView, DestinationView, MatchView, RuleView, SessionView};
use limpet_model::graph::{
    Action, Graph, Match, PathChange, PathMatch, Redirect, RuleName, Session, SessionUse, Target,
};

/// Limits of a rule.
const MOST_MATCHES: usize = 8;
const MOST_DESTINATIONS: usize = 32;

/// In the order of the route. Rules without sessions have no known place.
pub(super) fn in_order<'r, 'a>(graph: &Graph, route: &'r IndexedRoute<'a>) -> Vec<(&'a RuleName, &'r IndexedRule<'a>)> {
    let mut rules: Vec<_> = route.rules.iter().map(|(name, rule)| (*name, rule)).collect();
    rules.sort_by_key(|(name, _)| graph.rules.get(*name).map_or(usize::MAX, |origin| origin.index));
    rules
}

pub(super) fn view(graph: &Graph, name: &RuleName, rule: &IndexedRule<'_>) -> RuleView {
    let (sessions, session) = match rule.forward().map(|forward| &forward.session) {
        None | Some(Session::None) => ("none", None),
        Some(Session::Rule(used)) => ("rule", Some(session(graph, used))),
        Some(Session::EachDestination(used)) => ("destinations", Some(session(graph, used))),
        Some(Session::Destinations) => ("destinations", None),
    };
    let service = |name| graph.clusters.get(name).map(|cluster| ServicePortKey::of(cluster).id());
    let forward = rule.forward();
    let destinations = forward.iter().flat_map(|forward| &forward.destinations);
    let destinations = destinations.take(MOST_DESTINATIONS).map(|destination| {
        let (cluster, invalid) = match &destination.target {
            Target::Cluster(cluster) => (Some(cluster), None),
            Target::Invalid { reason } => (None, Some(reason.clone())),
        };
        let known = cluster.and_then(|name| graph.clusters.get(name));
        DestinationView {
            weight: destination.weight,
            service: cluster.and_then(service),
            cluster: cluster.map(ToString::to_string),
            invalid,
            session: known.and_then(|known| Some(self::session(graph, known.session.as_ref()?))),
        }
    });
    let mirrors = forward.iter().flat_map(|forward| &forward.mirrors);
    RuleView {
        name: origin(name).map(|(_, rule)| rule).unwrap_or_default().to_owned(),
        matches: rule
            .matches
            .iter()
            .take(MOST_MATCHES)
            .map(|matches| view_of(matches))
            .collect(),
        more_matches: rule.matches.len().saturating_sub(MOST_MATCHES),
        sessions,
        session,
        answer: answer(rule.action),
        destinations: destinations.collect(),
        mirrors: mirrors.filter_map(|mirror| service(&mirror.cluster)).collect(),
    }
}

fn view_of(matches: &Match) -> MatchView {
    let (kind, path) = match &matches.path {
        PathMatch::Exact(path) => ("Exact", path.clone()),
        PathMatch::Prefix(path) if path.is_empty() => ("Prefix", "/".to_owned()),
        PathMatch::Prefix(path) => ("Prefix", path.clone()),
        PathMatch::Text(path) => ("Text", path.clone()),
        PathMatch::Regex(path) => ("Regex", path.clone()),
    };
    MatchView {
        kind,
        path,
        method: matches.method.clone(),
        headers: matches.headers.keys().cloned().collect(),
        query: matches.query.keys().cloned().collect(),
        grpc: matches.grpc,
    }
}

fn session(graph: &Graph, used: &SessionUse) -> SessionView {
    let policy = graph.policies.get(&used.policy);
    let carrier = policy.and_then(|policy| policy.carrier());
    SessionView {
        policy: used.policy.to_string(),
        scope: used.scope.to_string(),
        carrier: carrier.map_or("source", |(mode, _)| mode.name()),
        name: carrier.map(|(_, name)| name.to_owned()),
        strict: policy.is_some_and(|policy| policy.strict),
        idle_timeout: policy.and_then(|policy| Some(policy.idle_timeout?.to_string())),
        absolute_timeout: policy.and_then(|policy| Some(policy.absolute_timeout?.to_string())),
    }
}

/// Envoy's own answer to requests that go to no backend.
fn answer(action: &Action) -> Option<AnswerView> {
    match action {
        Action::Forward(_) => None,
        Action::Respond { status, reason } => Some(AnswerView {
            status: *status,
            text: reason.clone(),
        }),
        Action::Redirect(redirect) => {
            let Redirect {
                scheme,
                hostname,
                path,
                port,
                status,
            } = redirect;
            let path = path.as_ref().map(|path| match path {
                PathChange::Full(path) | PathChange::Prefix(path) | PathChange::Text(path) => format!("path {path}"),
            });
            let scheme = scheme.as_ref().map(|scheme| format!("scheme {scheme}"));
            let hostname = hostname.as_ref().map(|hostname| format!("host {hostname}"));
            let port = port.map(|port| format!("port {port}"));
            let changes = [scheme, hostname, port, path].into_iter().flatten();
            Some(AnswerView {
                status: *status,
                text: format!("redirect to {}", changes.collect::<Vec<_>>().join(", ")),
            })
        }
    }
}
