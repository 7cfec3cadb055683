//! `limpet explain`: why the rules of a route have the sessions that they have, and whether a token would be honoured.
//!
//! It decides nothing: the model says who counts and what each field came from.
//!
//! - `carrier`: what a client gets to see of a session. Pure.
//! - `text`: the explanation for people. Pure.

mod carrier;
mod text;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::cluster::cli::{ExplainArgs, RouteArgument};
use crate::cluster::config::Config;
use crate::cluster::kube::{Store, Update, Wanted};
use crate::cluster::render::{Files, add_classes, read_manifests};
use crate::exit::{Failure, Verdict};
use crate::output::{self, Output};
use crate::time_format;
use limpet_api::{Kind, ObjectName, ObjectRef};
use limpet_core::time::Timestamp;
use limpet_model::explanation::RuleExplanation;
use limpet_model::reports::{Condition, ConditionStatus};
use limpet_model::{Authorities, Certificate, Objects, Reports, Settings, explain};

/// The namespace of objects that name none, as in kubectl.
const DEFAULT_NAMESPACE: &str = "default";

pub(crate) fn run(args: &ExplainArgs, format: Output) -> Result<Verdict, Failure> {
    let config = match &args.config {
        Some(file) => Config::read(file, args.output)?,
        None => Config::default(),
    };
    let settings = config.settings(args.output);
    let Files { store, .. } = read_manifests(&args.files, &settings)?;
    let namespace = args.namespace.as_deref().unwrap_or(DEFAULT_NAMESPACE);
    let mut store = store;
    assume_named(&mut store);
    let mut objects = Objects::clone(&store.objects());
    if let Some(plane) = config.control_plane(args.output) {
        add_classes(&mut objects, &plane);
    }
    let explanation = Explanation::new(args, namespace, &objects, &settings)?;
    let now = time_format::now();
    match format {
        Output::Text => output::print(&text::text(&explanation, now))?,
        Output::Json => output::print_json(&explanation.json(now))?,
    }
    Ok(if explanation.is_good() {
        Verdict::Good
    } else {
        Verdict::Bad
    })
}

/// Answers for the single objects that others name. What is in them changes no session, so nobody needs the right to
/// read them, and no private key is read.
fn assume_named(store: &mut Store) {
    for object in store.wanted().clone().into_keys() {
        let certificate = Certificate {
            chain: Vec::new().into(),
            key: Arc::default(),
        };
        store.apply(match object {
            Wanted::Secret(name) => Update::Secret(name, Some(Ok(certificate))),
            Wanted::ConfigMap(name) => Update::ConfigMap(name, Some(Ok(Authorities::of_pem("")))),
            Wanted::Node(name) => Update::Node(name, None),
        });
    }
}

/// Everything that is said.
#[derive(Debug)]
struct Explanation {
    route: ObjectRef,
    /// What is wrong with the route as a whole.
    problems: Vec<String>,
    rules: Vec<RuleExplanation>,
}

impl Explanation {
    fn new(args: &ExplainArgs, namespace: &str, objects: &Objects, settings: &Settings) -> Result<Self, Failure> {
        let RouteArgument { kind, name } = &args.route;
        let route = ObjectRef {
            kind: *kind,
            name: ObjectName::new(namespace, name),
        };
        if !exists(objects, &route) {
            return Err(Failure(format!("expected an existing route, found {route}")));
        }
        let (_, reports, mut rules) = explain(objects, settings, &route);
        if let Some(wanted) = &args.rule {
            let all = rules.clone();
            rules.retain(|rule| rule.is_called(wanted));
            if rules.is_empty() {
                return Err(Failure(format!("--rule: expected {}, found {wanted:?}", one_of(&all))));
            }
        }
        Ok(Self {
            problems: problems(&reports, &route, rules.is_empty()),
            route,
            rules,
        })
    }

    fn is_good(&self) -> bool {
        self.problems.is_empty() && self.rules.iter().all(|rule| rule.problems.is_empty())
    }

    fn json(&self, now: Timestamp) -> Value {
        let rules = self.rules.iter().map(|rule| {
            // For types of Limpet only: all their keys are strings, and nothing in them fails.
            let mut rule = serde_json::to_value(rule).unwrap_or_default();
            carrier::add(&mut rule, now);
            rule
        });
        json!({
            "route": self.route.to_string(),
            "problems": self.problems,
            "rules": rules.collect::<Vec<_>>(),
        })
    }
}

fn exists(objects: &Objects, route: &ObjectRef) -> bool {
    match route.kind {
        Kind::GrpcRoute => objects.grpc_routes.contains_key(&route.name),
        Kind::IngressRoute => objects.ingress_routes.contains_key(&route.name),
        _ => objects.http_routes.contains_key(&route.name),
    }
}

fn one_of(rules: &[RuleExplanation]) -> String {
    let names = rules.iter().map(|rule| rule.name.as_deref().unwrap_or(&rule.field));
    names.collect::<Vec<_>>().join(" or ")
}

/// What the reports say of the route, where it is not good.
fn problems(reports: &Reports, route: &ObjectRef, is_nowhere: bool) -> Vec<String> {
    let of_kind = match route.kind {
        Kind::GrpcRoute => &reports.grpc_routes,
        _ => &reports.http_routes,
    };
    let parents = of_kind.get(&route.name).into_iter().flat_map(|report| &report.parents);
    let conditions = parents.flat_map(|parent| parent.conditions.iter().map(move |condition| (parent, condition)));
    let is_bad = |condition: &Condition| match condition.kind {
        "PartiallyInvalid" => condition.is_true(),
        _ => condition.status == ConditionStatus::False,
    };
    let bad = conditions.filter(|(_, condition)| is_bad(condition));
    let mut told: Vec<String> = bad
        .map(|(parent, condition)| {
            let Condition {
                kind, reason, message, ..
            } = condition;
            let gateway = &parent.parent_ref.name;
            format!("at {gateway}: {kind} ({reason}): {message}")
        })
        .collect();
    told.dedup();
    if let Some(condition) = reports.without_status.get(route) {
        told.push(condition.message.clone());
    }
    if is_nowhere && told.is_empty() {
        told.push("it attaches to no Gateway of a class of ours that is there".to_owned());
    }
    told
}
