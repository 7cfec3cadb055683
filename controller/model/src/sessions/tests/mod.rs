//! From manifests to sessions and conditions. The facts of rules are made here as far as sessions need them.

mod annotations;
mod carriers;
mod collisions;
mod destinations;
mod dialects;
mod domains;
mod fields_first;
mod life;
mod precedence;
mod properties;
mod reports;
mod scale;
mod scopes;
mod upgrades;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{RuleFacts, RuleSession, Sessions, sessions};
use crate::graph::{Hostname, PathMatch, RuleName, Session};
use crate::objects::RuleBackend;
use crate::reports::{AncestorReport, Condition, ConditionStatus, PolicyReport};
use crate::sessions::BuildContext;
use crate::{GatewayOwner, Objects, SessionPolicyKind, SessionPolicyName, Settings};
use limpet_api::{BackendRef, HttpMatch, Kind, Object, ObjectName, ObjectRef, ParentRef, SessionPersistence, Text};
use limpet_core::config::schema::PolicyConfig;

#[derive(Default)]
pub(super) struct World {
    pub(super) objects: Objects,
    pub(super) settings: Settings,
}

pub(super) fn world(manifests: &str) -> World {
    let mut world = World::default();
    for manifest in manifests
        .split("\n---\n")
        .filter(|manifest| !manifest.trim().is_empty())
    {
        let value: Value = serde_saphyr::from_str(manifest).unwrap_or_else(|error| panic!("{error}: {manifest}"));
        world.add(value);
    }
    world
}

fn decode<S: DeserializeOwned + Default>(value: &Value) -> Object<S> {
    limpet_api::object(value).unwrap()
}

impl World {
    pub(super) fn add(&mut self, mut value: Value) {
        let meta = value["metadata"].as_object_mut().unwrap();
        meta.entry("namespace").or_insert(json!("shop"));
        let name = ObjectName::new(meta["namespace"].as_str().unwrap(), meta["name"].as_str().unwrap());
        let objects = &mut self.objects;
        let kind = value["kind"].as_str().unwrap().to_owned();
        match kind.as_str() {
            "HTTPRoute" => drop(objects.http_routes.insert(name, decode(&value).into())),
            "GRPCRoute" => drop(objects.grpc_routes.insert(name, decode(&value).into())),
            "Service" => drop(objects.services.insert(name, decode(&value).into())),
            "Gateway" => drop(objects.gateways.insert(name, decode(&value).into())),
            "XBackend" => drop(objects.backends.insert(name, decode(&value).into())),
            kind => drop(
                objects
                    .session_policies
                    .insert(policy_name(kind, name), decode(&value).into()),
            ),
        }
    }

    pub(super) fn rules(&self) -> Vec<RuleFacts<'_>> {
        let http = self.objects.http_routes.iter().flat_map(|(name, route)| {
            route.spec.rules.iter().enumerate().map(move |(index, rule)| {
                let paths = rule.matches.iter().map(path).collect();
                let refs = &rule.backend_refs;
                let parents = (&route.spec.parent_refs[..], &route.spec.hostnames[..]);
                self.facts(
                    Kind::HttpRoute,
                    name,
                    route,
                    index,
                    rule.session_persistence.as_ref(),
                    refs,
                    parents,
                    paths,
                )
            })
        });
        let grpc = self.objects.grpc_routes.iter().flat_map(|(name, route)| {
            route.spec.rules.iter().enumerate().map(move |(index, rule)| {
                let refs = &rule.backend_refs;
                let parents = (&route.spec.parent_refs[..], &route.spec.hostnames[..]);
                let inline = rule.session_persistence.as_ref();
                self.facts(Kind::GrpcRoute, name, route, index, inline, refs, parents, Vec::new())
            })
        });
        http.chain(grpc).collect()
    }

    #[expect(clippy::too_many_arguments, reason = "two kinds of routes, one shape")]
    fn facts<'a, S>(
        &self,
        kind: Kind,
        name: &ObjectName,
        route: &'a Object<S>,
        index: usize,
        inline: Option<&'a SessionPersistence>,
        refs: &[BackendRef],
        (parents, hostnames): (&[ParentRef], &[String]),
        paths: Vec<PathMatch>,
    ) -> RuleFacts<'a> {
        let backend = |backend: &BackendRef| {
            let namespace = backend.namespace.as_deref().unwrap_or(&name.namespace);
            let name = ObjectName::new(namespace, &backend.name);
            if backend.kind == "XBackend" {
                self.objects
                    .backends
                    .contains_key(&name)
                    .then_some(RuleBackend::XBackend(name))
            } else {
                self.objects
                    .services
                    .contains_key(&name)
                    .then_some(RuleBackend::Service(name))
            }
        };
        let mut facts = RuleFacts {
            sessionless: None,
            route: ObjectRef {
                kind,
                name: name.clone(),
            },
            meta: &route.meta,
            field: format!("spec.rules[{index}]"),
            name: RuleName(format!("{}/{name}/{index}", kind.as_str().to_lowercase()).into()),
            inline,
            foreign: None,
            backends: refs.iter().filter_map(backend).collect(),
            clusters: refs
                .iter()
                .filter(|found| backend(found).is_some())
                .map(cluster)
                .collect(),
            refused_backends: BTreeMap::new(),
            paths,
            gateways: parents
                .iter()
                .map(|parent| ObjectName::new(parent.namespace.as_deref().unwrap_or(&name.namespace), &parent.name))
                .collect(),
            hosts: if hostnames.is_empty() {
                BTreeSet::from([Hostname::Any])
            } else {
                hostnames.iter().map(|host| Hostname::parse(Some(host))).collect()
            },
            schemes: crate::sessions::Schemes::default(),
            places: Arc::default(),
        };
        let places = facts.gateways.iter().flat_map(|gateway| {
            let place = |host: &Hostname| (gateway.clone(), host.clone());
            facts.hosts.iter().map(place)
        });
        facts.places = Arc::new(places.collect());
        facts
    }

    pub(super) fn sessions(&self) -> Sessions {
        let rules = self.rules();
        let sessions = sessions_of(self, &rules);
        assert_eq!(sessions.rules.len(), rules.len());
        check_references(&sessions);
        sessions
    }
}

fn cluster(backend: &BackendRef) -> Text {
    format!("{}/{}", backend.name, backend.port.unwrap_or_default()).into()
}

fn path(matched: &HttpMatch) -> PathMatch {
    let value = |path: &limpet_api::HttpPathMatch| path.value.clone().unwrap_or_default();
    match &matched.path {
        None => PathMatch::default(),
        Some(path) => match path.kind.as_deref() {
            Some("Exact") => PathMatch::Exact(value(path)),
            Some("RegularExpression") => PathMatch::Regex(value(path)),
            _ => PathMatch::Prefix(value(path).trim_end_matches('/').to_owned()),
        },
    }
}

/// Checks that every named policy exists, every policy is named, and the filter accepts all of them.
fn check_references(sessions: &Sessions) {
    let mut used = BTreeSet::new();
    for rule in &sessions.rules {
        let all = std::iter::once(&rule.session).chain(rule.by_path.values());
        for session in all {
            if let Session::Rule(session) | Session::EachDestination(session) = session {
                used.insert(&session.policy);
            }
        }
        assert!(rule.problems.is_empty() || rule.session == Session::None, "{rule:?}");
    }
    used.extend(sessions.destinations.values().map(|session| &session.policy));
    used.extend(sessions.affinities.values());
    assert_eq!(used, sessions.policies.keys().collect::<BTreeSet<_>>());
    let config = json!({"sdsKeys": {"name": "keyring"}, "policies": sessions.policies});
    let config = limpet_core::config::parse(config.to_string().as_bytes()).unwrap();
    limpet_core::Filter::without_keys(&config).unwrap();
}

pub(super) fn policy_name(kind: &str, name: ObjectName) -> SessionPolicyName {
    let kind = match kind {
        "BackendLBPolicy" => SessionPolicyKind::BackendLbPolicy,
        "XBackendTrafficPolicy" => SessionPolicyKind::XBackendTrafficPolicy,
        other => panic!("no kind of these tests: {other}"),
    };
    SessionPolicyName { kind, name }
}

impl Sessions {
    pub(super) fn policy(&self, rule: usize) -> &PolicyConfig {
        self.policy_of(&self.rules[rule].session)
    }

    pub(super) fn policy_of(&self, session: &Session) -> &PolicyConfig {
        match session {
            Session::Rule(session) | Session::EachDestination(session) => &self.policies[&session.policy],
            other => panic!("no session of a rule: {other:?}"),
        }
    }

    pub(super) fn written(&self, rule: usize) -> Value {
        serde_json::to_value(self.policy(rule)).unwrap()
    }

    /// As `field: message`.
    pub(super) fn problems(&self, rule: usize) -> Vec<String> {
        problems(&self.rules[rule])
    }

    /// The report on `BackendLBPolicy shop/<name>`.
    pub(super) fn report(&self, name: &str) -> &PolicyReport {
        self.report_of("BackendLBPolicy", name)
    }

    pub(super) fn report_of(&self, kind: &str, name: &str) -> &PolicyReport {
        &self.session_policies[&policy_name(kind, ObjectName::new("shop", name))]
    }

    /// The conditions of `BackendLBPolicy shop/<name>` at its only ancestor.
    pub(super) fn status(&self, name: &str) -> Vec<String> {
        only_ancestor(self.report(name))
    }
}

pub(super) fn problems(rule: &RuleSession) -> Vec<String> {
    let problems = rule.problems.iter();
    problems
        .map(|problem| format!("{}: {}", problem.field, problem.message))
        .collect()
}

/// As `Accepted=True/Accepted: message`.
pub(super) fn only_ancestor(report: &PolicyReport) -> Vec<String> {
    assert_eq!(report.ancestors.len(), 1, "{report:?}");
    conditions(&report.ancestors[0])
}

pub(super) fn conditions(ancestor: &AncestorReport) -> Vec<String> {
    let text = |condition: &Condition| {
        let status = match condition.status {
            ConditionStatus::True => "True",
            ConditionStatus::False => "False",
            ConditionStatus::Unknown => "Unknown",
        };
        format!(
            "{}={status}/{}: {}",
            condition.kind, condition.reason, condition.message
        )
    };
    ancestor.conditions.iter().map(text).collect()
}

pub(super) fn by_gateway(report: &PolicyReport) -> BTreeMap<&str, Vec<String>> {
    let ancestors = report.ancestors.iter();
    ancestors
        .map(|ancestor| (ancestor.ancestor_ref.name.as_str(), conditions(ancestor)))
        .collect()
}

pub(super) const ACCEPTED: &str = "Accepted=True/Accepted: The policy is accepted";

/// Services `a`, `b` and `c`, and a route with one rule, which leads to `a`.
pub(super) const SERVICE_AND_ROUTE: &str = "
kind: Service
metadata: {name: a}
---
kind: Service
metadata: {name: b}
---
kind: Service
metadata: {name: c}
---
kind: HTTPRoute
metadata: {name: web, creationTimestamp: '2026-01-01T00:00:00Z'}
spec:
  parentRefs: [{name: gw}]
  rules:
  - backendRefs: [{name: a, port: 80}]
---
";

/// [`SERVICE_AND_ROUTE`], and a `BackendLBPolicy` called `p` on `a` with this `sessionPersistence`.
pub(super) fn with_policy(persistence: &Value) -> World {
    let mut world = world(SERVICE_AND_ROUTE);
    world.add(policy("BackendLBPolicy", "p", &["a"], persistence));
    world
}

pub(super) fn policy(kind: &str, name: &str, services: &[&str], persistence: &Value) -> Value {
    let targets: Vec<Value> = services
        .iter()
        .map(|name| json!({"group": "", "kind": "Service", "name": name}))
        .collect();
    json!({
        "kind": kind,
        "metadata": {"name": name, "generation": 7, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"targetRefs": targets, "sessionPersistence": persistence},
    })
}

pub(super) fn route_at(name: &str, gateways: &[&str], rules: &Value) -> Value {
    let mut route = route(name, rules);
    route["spec"]["parentRefs"] = gateways.iter().map(|name| json!({"name": name})).collect();
    route
}

pub(super) fn made(mut object: Value, day: u32) -> Value {
    object["metadata"]["creationTimestamp"] = json!(format!("2026-02-{day:02}T00:00:00Z"));
    object
}

/// Adds the annotation `session.limpet.dev/<name>`.
pub(super) fn annotated(mut object: Value, name: &str, value: &str) -> Value {
    object["metadata"]["annotations"][format!("session.limpet.dev/{name}")] = json!(value);
    object
}

pub(super) fn route(name: &str, rules: &Value) -> Value {
    json!({
        "kind": "HTTPRoute",
        "metadata": {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"parentRefs": [{"name": "gw"}], "rules": rules},
    })
}

pub(super) fn rule(services: &[&str]) -> Value {
    let refs: Vec<Value> = services.iter().map(|name| json!({"name": name, "port": 80})).collect();
    json!({"backendRefs": refs})
}

pub(super) fn inline(services: &[&str], persistence: &Value) -> Value {
    let mut rule = rule(services);
    rule["sessionPersistence"] = persistence.clone();
    rule
}

/// All Gateways serve.
pub(super) fn sessions_of(world: &World, rules: &[RuleFacts<'_>]) -> Sessions {
    let serving = rules.iter().flat_map(|rule| &rule.gateways).collect();
    sessions(
        &world.objects,
        &world.settings,
        rules,
        &serving,
        BuildContext::default(),
    )
}
