//! The sessions of rules: metadata for their routes, and a route for each destination of a split.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3::Route as EnvoyRoute;
use envoy_types::pb::envoy::config::route::v3::route::Action as EnvoyAction;
use serde_json::{Value, json};

use crate::envoy::chain::NativeSteering;
use crate::envoy::{pack, routes};
use crate::manifests::{Manifest, ManifestInputs, ManifestOwner, Manifests, WriteStage};
use crate::used::{beginning_all_the_same, without_budgets, without_hash};
use limpet_api::{GATEWAY_GROUP, Kind, ObjectName};
use limpet_core::envoy::{DESTINATION_PREFIX, SPLIT_PREFIX};
use limpet_model::graph::{
    Action, ClusterName, Destination, Forward, Route, RuleName, RuleOrigin, Session, SessionUse, Target,
};
use limpet_model::short_hash::hash;
use limpet_model::{Extent, Unsupported};

use super::chain::written;
use super::names::{IstioRouteNames, NamedRoutes, RouteSelection, route_name};
use super::{ENVOY_FILTER, IstioOptions, object_name, owned_by_gateway, target_refs};

/// About as many as fit into an object of the API server.
const MOST_PATCHES: usize = 512;
/// Istio's default for routes that do not set it.
const RETRY_ON: &str = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes";
/// The Service label that makes Istio keep the endpoints of terminating pods.
pub const PERSISTENT_SESSION: &str = "istio.io/persistent-session";

pub(super) fn add(
    manifests: &mut Manifests,
    source: &ManifestInputs<'_>,
    options: &IstioOptions,
    gateway: &ObjectName,
) {
    let Some(content) = source.graph.gateways.get(gateway) else {
        return;
    };
    let names = IstioRouteNames::of(source.graph, source.objects, content);
    for (rule, routes) in &names.rules {
        let Some(origin) = source.graph.rules.get(*rule) else {
            continue;
        };
        let mut unsupported = Vec::new();
        let made = RulePatches {
            source,
            options,
            name: route_name(origin),
            routes,
        };
        let patches = made.patches(&names, rule, &mut unsupported);
        if let Some(patches) = patches {
            manifests.objects.push(Arc::new(Manifest {
                stage: WriteStage::Routes,
                definition: &ENVOY_FILTER,
                name: object_name(gateway, name(gateway, origin, rule)),
                gateways: BTreeSet::from([gateway.clone()]),
                tenant: origin.route.name.namespace.clone(),
                owner: owner(source, gateway, origin),
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
                spec: json!({"targetRefs": target_refs(gateway), "configPatches": patches}),
            }));
        }
        manifests
            .unsupported
            .extend(unsupported.into_iter().map(|(extent, message)| Unsupported {
                rule: (*rule).clone(),
                gateway: Some(gateway.clone()),
                extent,
                message,
            }));
    }
}

/// Enough bytes that no tenant finds a rule with another tenant's name, because the objects of all routes are in the
/// namespace of the Gateway.
const HASHED: usize = 10;

/// Gateway and rule are for people. The hash makes the name unique.
fn name(gateway: &ObjectName, origin: &RuleOrigin, rule: &RuleName) -> String {
    let hash = hash(format!("{gateway} {rule}").as_bytes(), HASHED);
    format!("limpet-rule-{}-{}-{hash}", gateway.name, origin.route.name.name)
}

/// The route as owner, if it is in the Gateway's namespace.
fn owner(source: &ManifestInputs<'_>, gateway: &ObjectName, origin: &RuleOrigin) -> Option<ManifestOwner> {
    let route = &origin.route;
    if route.name.namespace != gateway.namespace {
        return owned_by_gateway(source, gateway);
    }
    let http = source.objects.http_routes.get(&route.name).map(|route| &route.meta);
    let grpc = source.objects.grpc_routes.get(&route.name).map(|route| &route.meta);
    let meta = if route.kind == Kind::HttpRoute { http } else { grpc };
    Some(ManifestOwner {
        api_version: format!("{GATEWAY_GROUP}/v1"),
        kind: route.kind.as_str(),
        name: route.name.name.to_string(),
        uid: meta?.uid.clone(),
    })
}

type UnsupportedParts = Vec<(Extent, String)>;

struct RulePatches<'a> {
    source: &'a ManifestInputs<'a>,
    options: &'a IstioOptions,
    /// The name that Istio gives its routes.
    name: String,
    routes: &'a [&'a Route],
}

impl<'a> RulePatches<'a> {
    fn patches(
        &self,
        names: &IstioRouteNames<'a>,
        rule: &'a RuleName,
        unsupported: &mut UnsupportedParts,
    ) -> Option<Vec<Value>> {
        let forwards: Vec<(&Route, &Forward)> = self
            .routes
            .iter()
            .filter_map(|route| match &route.action {
                Action::Forward(forward) => Some((*route, forward)),
                Action::Redirect(_) | Action::Respond { .. } => None,
            })
            .collect();
        let (_, forward) = forwards.first()?;
        let used = match &forward.session {
            Session::None => return None,
            Session::Destinations => {
                let message = "Istio leads no requests to XBackends (there are no sessions)";
                unsupported.push((Extent::All, message.to_owned()));
                return None;
            }
            Session::Rule(used) | Session::EachDestination(used) => used,
        };
        let is_per_destination = matches!(forward.session, Session::EachDestination(_));
        if forwards.iter().any(|(_, other)| other.session != forward.session) {
            let message = "the annotation session.limpet.dev/path: expected root, since Istio calls the routes \
             of all matches of a rule the same (all \
                           cookies of the rule have the path of its first match)";
            unsupported.push((Extent::Part, message.to_owned()));
        }
        let found = names.routes_of(rule, &self.name);
        self.report_confused(&found, unsupported);
        if found.which.is_empty() {
            return None;
        }
        let per_place = if is_per_destination {
            let session = format!("{DESTINATION_PREFIX}{}", session_of(used));
            vec![merged(&session, self.steering(used))]
        } else if is_split(forward) {
            self.split(&forwards, used, unsupported)?
        } else {
            vec![merged(&session_of(used), self.steering(used))]
        };
        let patches = patches(&per_place, &found.which, &self.name);
        if patches.len() > MOST_PATCHES {
            unsupported.push((
                Extent::All,
                format!(
                    "its matches, backends and hostnames make {} patches, expected {MOST_PATCHES} at most (there \
                     are no sessions)",
                    patches.len()
                ),
            ));
            return None;
        }
        self.check_labels(forward, unsupported);
        let (graph, policy) = (self.source.graph, &used.policy);
        let hash = "a DestinationRule with consistentHash: {useSourceIp: true} is there for the Services";
        let parts = beginning_all_the_same(graph, forward);
        let parts = parts
            .chain(without_budgets(graph, policy))
            .chain(without_hash(graph, policy, hash));
        unsupported.extend(parts.map(|message| (Extent::Part, message)));
        Some(patches)
    }

    /// Reports the hostnames under which Istio gives routes of other rules the same name.
    fn report_confused(&self, found: &RouteSelection<'_>, unsupported: &mut UnsupportedParts) {
        let extent = || {
            if found.which.is_empty() {
                Extent::All
            } else {
                Extent::Part
            }
        };
        for (hostname, others) in &found.confused {
            let others: Vec<String> = others.iter().map(ToString::to_string).collect();
            let message = format!(
                "Istio calls its routes `{}`, and the routes of {} under {hostname} as well, expected names that \
                 differ (there are no sessions under \
                 that hostname)",
                self.name,
                others.join(", ")
            );
            unsupported.push((extent(), message));
        }
    }

    fn split(
        &self,
        forwards: &[(&Route, &Forward)],
        used: &SessionUse,
        unsupported: &mut UnsupportedParts,
    ) -> Option<Vec<Patch>> {
        let not_followed: BTreeSet<&String> = forwards.iter().flat_map(|(_, forward)| &forward.not_followed).collect();
        if !not_followed.is_empty() {
            let fields: Vec<&str> = not_followed.into_iter().map(String::as_str).collect();
            unsupported.push((
                Extent::All,
                format!(
                    "{} (sessions of a split take routes of their own, which would not follow that: there are no \
                     sessions)",
                    fields.join("; ")
                ),
            ));
            return None;
        }
        let steering = self.steering(used);
        let session = format!("{SPLIT_PREFIX}{}", session_of(used));
        let mut patches = vec![merged(&session, steering.idle())];
        // Each patch inserts in front of the former ones, so the last of them matches first.
        for (route, forward) in forwards.iter().rev() {
            let mut known = BTreeSet::new();
            for destination in &forward.destinations {
                let Some(cluster) = self
                    .cluster(destination)
                    .filter(|cluster| known.insert(cluster.clone()))
                else {
                    continue;
                };
                let made = routes::destination_route(&self.name, &session, route, forward, (destination, &cluster));
                patches.push(Patch {
                    operation: "INSERT_BEFORE",
                    value: written(&steered(with_retries(made), steering)),
                });
            }
        }
        Some(patches)
    }

    fn steering(&self, used: &SessionUse) -> NativeSteering {
        NativeSteering::of(self.source.graph.policies.get(&used.policy))
    }

    fn cluster(&self, destination: &Destination) -> Option<ClusterName> {
        let Target::Cluster(cluster) = &destination.target else {
            return None;
        };
        let cluster = self.source.graph.clusters.get(cluster)?;
        let name = format!(
            "outbound|{}||{}.{}.svc.{}",
            cluster.port, cluster.service.name, cluster.service.namespace, self.options.cluster_domain
        );
        Some(ClusterName(name.into()))
    }

    fn check_labels(&self, forward: &Forward, unsupported: &mut UnsupportedParts) {
        let clusters = forward
            .clusters()
            .filter_map(|cluster| self.source.graph.clusters.get(cluster));
        let services: BTreeSet<&ObjectName> = clusters.map(|cluster| &cluster.service).collect();
        for service in services {
            let object = self.source.objects.services.get(service);
            if object.is_some_and(|service| !service.meta.labels.contains_key(PERSISTENT_SESSION)) {
                unsupported.push((
                    Extent::Part,
                    format!(
                        "Service {service}: expected the label {PERSISTENT_SESSION}, with any value (without it \
                         Istio ends the sessions of a pod as soon as it is deleted)"
                    ),
                ));
            }
        }
    }
}

struct Patch {
    operation: &'static str,
    value: Value,
}

fn patches(per_place: &[Patch], which: &BTreeSet<NamedRoutes<'_>>, name: &str) -> Vec<Value> {
    let patch = |which: &NamedRoutes<'_>, Patch { operation, value }: &Patch| {
        json!({
            "applyTo": "HTTP_ROUTE",
            "match": which.matcher(name),
            "patch": {"operation": operation, "value": value},
        })
    };
    let all = which
        .iter()
        .flat_map(|which| per_place.iter().map(move |made| patch(which, made)));
    all.collect()
}

fn merged(session: &str, steering: NativeSteering) -> Patch {
    let made = EnvoyRoute {
        metadata: Some(pack::session(session)),
        ..EnvoyRoute::default()
    };
    Patch {
        operation: "MERGE",
        value: written(&steered(made, steering)),
    }
}

/// Whether more than one destination may hold its sessions.
fn is_split(forward: &Forward) -> bool {
    !matches!(
        forward.destinations.as_slice(),
        [Destination {
            weight: 1..,
            target: Target::Cluster(_),
            ..
        }]
    )
}

fn session_of(used: &SessionUse) -> String {
    format!("{}/{}", used.policy, used.scope)
}

fn steered(made: EnvoyRoute, steering: NativeSteering) -> EnvoyRoute {
    EnvoyRoute {
        typed_per_filter_config: steering.per_route_in_full().into_iter().collect(),
        ..made
    }
}

/// Retries as in Istio's own routes.
fn with_retries(mut made: EnvoyRoute) -> EnvoyRoute {
    if let Some(EnvoyAction::Route(action)) = &mut made.action
        && let Some(policy) = &mut action.retry_policy
    {
        RETRY_ON.clone_into(&mut policy.retry_on);
    }
    made
}
