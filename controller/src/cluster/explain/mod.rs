//! `limpet explain`: why the rules of a route have the sessions that they have, and whether a token would be honoured.
//!
//! It decides nothing: the model says who counts and what each field came from.
//!
//! - `sources`, `online`: what it is explained from: files, or a cluster with the rights of the user.
//! - `fetch`: the answer of a server, for its sessions.
//! - `missing`: a route that is not there, or that no Gateway serves. Pure.
//! - `carrier`: what a client gets to see of a session. `presented`: the tokens that a person has. Pure.
//! - `judge`: whether a token would be honoured, and if not, why. Pure: it asks the filter. `judgement`: what is said.
//! - `text`: the explanation for people. Pure.

mod carrier;
mod fetch;
mod judge;
mod judgement;
mod missing;
mod online;
mod presented;
mod sources;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::cluster::cli::{ExplainArgs, RouteArgument};
use crate::cluster::config::Config;
use crate::cluster::render::add_classes;
use crate::cluster::runtime::runtime;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use crate::time_format;
use fetch::HttpAnswer;
use judge::TokenJudge;
use judgement::{TokenJudgement, TokenVerdict};
use limpet_api::{Kind, ObjectName, ObjectRef};
use limpet_core::config::schema::{FilterConfig, default_max_idle};
use limpet_core::time::Timestamp;
use limpet_model::endpoints::{Endpoint, EndpointState};
use limpet_model::explanation::{
    Contender, DestinationExplanation, FieldExplanation, FieldOrigin, RuleExplanation, SessionExplanation,
};
use limpet_model::reports::{Condition, ConditionStatus, IngressRouteStatus};
use limpet_model::{Graph, Objects, Reports, Settings, explain};
use limpet_outputs::{FilterInputs, FilterKeys, all_policies, filter_config};
use presented::PresentedToken;
use sources::ExplainSources;

pub(crate) use online::{ConfigSource, ControllerObjects, list_error_message};
pub(crate) use sources::assume_named;

pub(crate) fn run(args: &ExplainArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let route = RouteArgument::read(&args.route).map_err(CommandFailure)?;
    let judges_tokens = args.token.is_some() || args.cookie.is_some() || args.curl.is_some();
    let runtime = runtime()?;
    let mut sources = if args.files.is_empty() {
        runtime.block_on(online::read(args, &route, judges_tokens))?
    } else {
        sources::from_files(args)?
    };
    let answer = match &args.curl {
        Some(url) => Some(runtime.block_on(fetch::fetch(url, &args.headers, args.insecure))?),
        None => None,
    };
    let now = args.time.unwrap_or_else(time_format::now);
    let mut explanation = Explanation::new(args, &route, &sources, answer.as_ref(), now)?;
    let pods = explanation.ready_pods();
    if !pods.is_empty() && runtime.block_on(online::read_pods(&pods, &mut sources)) {
        explanation = Explanation::new(args, &route, &sources, answer.as_ref(), now)?;
    }
    match form {
        Output::Text { is_wide } => output::print(&text::text(&explanation, now, is_wide))?,
        Output::Document(format) => output::print_document(format, &explanation.json(now))?,
    }
    Ok(explanation.verdict())
}

/// Everything that is said.
#[derive(Debug)]
struct Explanation {
    route: ObjectRef,
    /// What is not known, and why.
    unknown: Vec<String>,
    /// What is wrong with the route as a whole.
    problems: Vec<String>,
    rules: Vec<RuleExplanation>,
    /// The endpoints of each cluster that rules lead to, as far as they are known.
    endpoints: BTreeMap<String, Vec<Endpoint>>,
    /// `None`: there was nothing to judge.
    judged: Option<JudgedTokens>,
}

/// What became of what a person presented.
#[derive(Debug)]
struct JudgedTokens {
    tokens: Vec<TokenJudgement>,
    /// What else there is to say of it.
    note: Option<String>,
}

impl Explanation {
    fn new(
        args: &ExplainArgs,
        route: &RouteArgument,
        sources: &ExplainSources,
        answer: Option<&HttpAnswer>,
        now: Timestamp,
    ) -> Result<Self, CommandFailure> {
        let mut objects = Objects::clone(&sources.store.objects());
        if let Some(plane) = sources.config.control_plane(args.target) {
            add_classes(&mut objects, &plane);
        }
        let place = if args.files.is_empty() { "cluster" } else { "files" };
        let name = ObjectName::new(&sources.namespace, &route.name);
        let kind = match route.kind {
            Some(kind) => kind,
            None => missing::only_kind(&objects, &name, place).map_err(CommandFailure)?,
        };
        let route = ObjectRef { kind, name };
        if let Some(why) = missing::not_there(&objects, &route, &sources.settings, place) {
            return Err(CommandFailure(why));
        }
        let (graph, reports, mut rules) = explain(&objects, &sources.settings, &route);
        let mut problems = problems(&reports, &route, &rules, &sources.settings);
        if rules.is_empty() {
            problems.extend(missing::gateways_without_class(&objects, &route, place));
        }
        if let Some(wanted) = args.rule.as_ref().filter(|_| !rules.is_empty()) {
            let all = one_of(&rules);
            rules.retain(|rule| rule.is_called(wanted));
            if rules.is_empty() {
                return Err(CommandFailure(format!("--rule: expected {all}, found {wanted:?}")));
            }
        }
        add_idle_bounds(&mut rules, &sources.config);
        add_strayed_policies(&mut rules, &reports);
        let destinations = rules.iter().flat_map(|rule| &rule.destinations);
        let known = destinations.filter_map(|to| Some((to.cluster.as_ref()?.to_string(), endpoints(sources, to)?)));
        Ok(Self {
            endpoints: known.collect(),
            unknown: sources.unknown.clone(),
            judged: judged(args, sources, &graph, &rules, answer, now)?,
            problems,
            route,
            rules,
        })
    }

    /// The pods that tokens lead to, and that may drain by their annotation for all that is known yet.
    fn ready_pods(&self) -> BTreeSet<ObjectName> {
        let tokens = self.judged.iter().flat_map(|judged| &judged.tokens);
        tokens.filter_map(|judgement| judgement.ready.clone()).collect()
    }

    fn verdict(&self) -> CommandVerdict {
        let Some(JudgedTokens { tokens, .. }) = &self.judged else {
            let is_good = self.problems.is_empty() && self.rules.iter().all(|rule| rule.problems.is_empty());
            return if is_good {
                CommandVerdict::Good
            } else {
                CommandVerdict::Bad
            };
        };
        let has = |verdict| tokens.iter().any(|judgement| judgement.verdict == verdict);
        if has(TokenVerdict::Honoured) {
            CommandVerdict::Good
        } else if has(TokenVerdict::Refused) {
            CommandVerdict::Bad
        } else {
            CommandVerdict::Warned
        }
    }

    fn json(&self, now: Timestamp) -> Value {
        let rules = self.rules.iter().map(|rule| {
            // For types of Limpet only: all their keys are strings, and nothing in them fails.
            let mut rule = serde_json::to_value(rule).unwrap_or_default();
            carrier::add(&mut rule, now);
            rule
        });
        let endpoint = |endpoint: &Endpoint| json!({"address": endpoint.address, "state": state_name(endpoint.state), "pod": endpoint.pod});
        let endpoints = self.endpoints.iter();
        let endpoints: Map<String, Value> = endpoints
            .map(|(cluster, endpoints)| (cluster.clone(), endpoints.iter().map(endpoint).collect()))
            .collect();
        let mut json = json!({
            "route": self.route.to_string(),
            "unknown": self.unknown,
            "problems": self.problems,
            "rules": rules.collect::<Vec<_>>(),
            "endpoints": endpoints,
        });
        if let (Some(judged), Value::Object(fields)) = (&self.judged, &mut json) {
            fields.insert("tokens".to_owned(), json!(judged.tokens));
            fields.insert("note".to_owned(), json!(judged.note));
        }
        json
    }
}

fn state_name(state: EndpointState) -> &'static str {
    match state {
        EndpointState::Ready => "ready",
        EndpointState::Draining => "draining",
    }
}

/// Adds to rules without sessions the policies beside their Services that target what does not exist: one of them may
/// be meant for the rule.
fn add_strayed_policies(rules: &mut [RuleExplanation], reports: &Reports) {
    let strayed = reports.without_status.iter().filter(|(object, condition)| {
        let is_policy = matches!(object.kind, Kind::BackendLbPolicy | Kind::XBackendTrafficPolicy);
        is_policy && condition.reason == "TargetNotFound"
    });
    let strayed: Vec<_> = strayed.collect();
    for rule in rules.iter_mut().filter(|rule| rule.sessions().next().is_none()) {
        let services = rule.destinations.iter().filter_map(|to| to.service.as_ref());
        let namespaces: BTreeSet<&str> = services.map(|service| &*service.namespace).collect();
        let beside = strayed
            .iter()
            .filter(|(policy, _)| namespaces.contains(&*policy.name.namespace));
        rule.contenders.extend(beside.map(|(policy, condition)| Contender {
            who: policy.to_string(),
            counts: false,
            why: condition.message.clone(),
        }));
    }
}

/// Adds what bounds the sessions without any timeout. It is the controller's, and of no object.
fn add_idle_bounds(rules: &mut [RuleExplanation], config: &Config) {
    let bound = config.max_idle();
    let from = if config.max_idle.is_some() {
        FieldOrigin::Controller {
            field: "maxIdle".to_owned(),
        }
    } else if bound < default_max_idle() {
        FieldOrigin::Controller {
            field: "maxSessionLife".to_owned(),
        }
    } else {
        FieldOrigin::Filter
    };
    for session in rules.iter_mut().flat_map(RuleExplanation::sessions_mut) {
        let SessionExplanation { config, fields, .. } = session;
        let has_timeout = config.idle_timeout.is_some() || config.absolute_timeout.is_some();
        if config.source.is_none() && !has_timeout {
            fields.push(FieldExplanation {
                field: "maxIdle".to_owned(),
                value: bound.to_string().into(),
                from: from.clone(),
            });
        }
    }
}

/// Judges what the arguments present.
fn judged(
    args: &ExplainArgs,
    sources: &ExplainSources,
    graph: &Graph,
    rules: &[RuleExplanation],
    answer: Option<&HttpAnswer>,
    now: Timestamp,
) -> Result<Option<JudgedTokens>, CommandFailure> {
    let sessions = rules.iter().flat_map(RuleExplanation::sessions);
    let names: Vec<String> = sessions
        .filter_map(|session| carrier::name(&session.config, &session.scope))
        .collect();
    let is_expected = |name: &str| names.iter().any(|known| known == name);
    let Some((presented, from)) = presented(args, answer, is_expected) else {
        return Ok(None);
    };
    let note = presented.is_empty().then(|| {
        let expected = if names.is_empty() {
            "these rules have no sessions with tokens".to_owned()
        } else {
            format!("expected {}", names.join(" or "))
        };
        format!("{from} has no token: {expected}")
    });
    let (keys, no_keys) = match &sources.keys {
        Ok(keys) => (keys.clone(), None),
        Err(why) => (Vec::new(), Some(why.as_str())),
    };
    let inputs = FilterInputs {
        max_idle: sources.config.max_idle(),
        clock_skew: sources.config.clock_skew,
        ..FilterInputs::with_keys(FilterKeys::Listed(keys))
    };
    let endpoints = |to: &DestinationExplanation| endpoints(sources, to);
    let config = FilterConfig {
        fences: sources.fences.clone(),
        ..filter_config(all_policies(graph), &BTreeSet::new(), false, &inputs)
    };
    let judge = TokenJudge {
        config: Rc::new(config),
        no_keys,
        graph,
        rules,
        endpoints: &endpoints,
        now,
    };
    let mut tokens: Vec<TokenJudgement> = presented
        .iter()
        .map(|presented| judge.judge(presented))
        .collect::<Result<_, _>>()?;
    judgement::mark_newest(&mut tokens);
    Ok(Some(JudgedTokens { tokens, note }))
}

/// The tokens that the arguments present, and where these come from.
fn presented(
    args: &ExplainArgs,
    answer: Option<&HttpAnswer>,
    is_expected: impl Fn(&str) -> bool,
) -> Option<(Vec<PresentedToken>, String)> {
    match (&args.token, &args.cookie, answer) {
        (Some(token), ..) => Some((PresentedToken::tokens(token), String::new())),
        (_, Some(line), _) => Some((PresentedToken::cookies(line, is_expected), "the line".to_owned())),
        (.., Some(answer)) => {
            let headers = answer.headers.iter();
            let headers = headers.map(|(name, value)| (name.as_str(), value.as_str()));
            let from = format!("the answer, with status {},", answer.status);
            Some((PresentedToken::answered(headers, is_expected), from))
        }
        _ => None,
    }
}

/// The endpoints of a destination, as far as they are known.
fn endpoints(sources: &ExplainSources, to: &DestinationExplanation) -> Option<Vec<Endpoint>> {
    let found = sources.store.endpoints(to.service.as_ref()?, &to.port_name);
    (sources.has_all_endpoints || !found.is_empty()).then_some(found)
}

fn one_of(rules: &[RuleExplanation]) -> String {
    let names = rules.iter().map(|rule| rule.name.as_deref().unwrap_or(&rule.field));
    names.collect::<Vec<_>>().join(" or ")
}

/// What the reports say of the route, where it is not good.
fn problems(reports: &Reports, route: &ObjectRef, rules: &[RuleExplanation], settings: &Settings) -> Vec<String> {
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
    if let Some(report) = reports
        .ingress_routes
        .get(&route.name)
        .filter(|_| route.kind == Kind::IngressRoute)
    {
        if report.status != IngressRouteStatus::Valid {
            told.push(report.description.to_string());
        }
        told.extend(report.notes.iter().cloned());
    }
    if rules.is_empty() && told.is_empty() && route.kind == Kind::IngressRoute {
        told.push(
            "the controller does not serve it: its class is not the class of `contour` in the configuration, or a \
             Gateway has the name of `contour.gateway`"
                .to_owned(),
        );
    }
    if rules.is_empty() && told.is_empty() {
        let name = &settings.controller_name;
        told.push(format!(
            "it attaches to no Gateway whose class has the controllerName {name}"
        ));
    }
    told
}
