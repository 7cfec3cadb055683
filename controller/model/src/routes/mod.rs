//! `HTTPRoute` and `GRPCRoute`: what they attach to, and what their rules mean.

mod attach;
mod backends;
mod expressions;
mod filters;
mod grpc;
mod http;
mod matches;
mod rule_name;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use limpet_api::{BackendRef, DecodeError, Filter, Kind, Meta, Object, ObjectName, ParentRef, SessionPersistence};

use super::gateways::GatewayState;
use super::graph::{Destination, HeaderChanges, Hostname, Match, Redirect, Rewrite, RuleName};
use super::references::{Backend, References};
use super::reports::ObjectRef;
use super::sessions::{Problem, RuleFacts};
use super::{Objects, Settings};

pub(super) use attach::{Attachment, Parent, gateway_name};

/// A route that names a Gateway of ours.
#[derive(Debug)]
pub(super) struct RouteState<'a> {
    pub(super) object: ObjectRef,
    pub(super) meta: &'a Meta,
    pub(super) rules: Vec<Rule<'a>>,
    /// The listeners that it attaches to.
    pub(super) attachments: Vec<Attachment>,
    /// For each parent of ours that it names.
    pub(super) parents: Vec<Parent>,
    /// Fields that nothing reads and nobody misses.
    pub(super) ignored: Vec<String>,
    /// Whether nothing is known of its rules.
    pub(super) is_malformed: bool,
}

/// One rule, read.
#[derive(Debug)]
pub(super) struct Rule<'a> {
    /// Its path in the route, like `spec.rules[2]`.
    pub(super) field: String,
    pub(super) name: RuleName,
    /// The name that it has itself.
    pub(super) own_name: Option<&'a str>,
    /// None of them: the rule was dropped, `refused` says why.
    pub(super) matches: Vec<Match>,
    pub(super) action: RuleAction,
    pub(super) request_headers: HeaderChanges,
    pub(super) response_headers: HeaderChanges,
    pub(super) inline: Option<&'a SessionPersistence>,
    /// The backends that are there.
    pub(super) backends: Vec<Backend>,
    /// References that lead nowhere.
    pub(super) unresolved: Vec<BadReference>,
    /// XBackends that are there and can not be led to, and why.
    pub(super) refused_backends: BTreeMap<ObjectName, String>,
    /// Fields that can not be followed, and what that means for the rule.
    pub(super) refused: Vec<Refused>,
}

/// What a rule does.
#[derive(Debug)]
pub(super) enum RuleAction {
    Redirect(Redirect),
    Forward {
        destinations: Vec<Destination>,
        rewrite: Rewrite,
        request_timeout: Option<Duration>,
        backend_timeout: Option<Duration>,
        not_followed: Vec<String>,
    },
    Respond {
        status: u16,
        reason: String,
    },
}

/// A reference that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct BadReference {
    /// One of the reasons of `ResolvedRefs`, or that the backend asks for what is not supported.
    pub(super) reason: &'static str,
    pub(super) field: String,
    pub(super) message: String,
}

/// A field that can not be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) problem: Problem,
    /// Whether the rule is left out. Otherwise it is there, and answers as it can without what was asked for.
    pub(super) drops_rule: bool,
}

/// What a rule says, in either kind of route.
struct RuleInput<'a> {
    field: String,
    name: Option<&'a str>,
    matches: Result<Vec<Match>, Problem>,
    filters: &'a [Filter],
    backends: &'a [BackendRef],
    timeouts: Result<(Option<Duration>, Option<Duration>), Problem>,
    inline: Option<&'a SessionPersistence>,
}

/// What a route says, in either kind.
struct RouteInput<'a> {
    kind: Kind,
    meta: &'a Meta,
    malformed: Option<&'a DecodeError>,
    unread: &'a [String],
    parents: &'a [ParentRef],
    hostnames: &'a [String],
    rules: Vec<RuleInput<'a>>,
    /// Whether it is ours to judge.
    is_judged: bool,
}

/// Every route that names a Gateway of ours; counts them at the listeners.
pub(super) fn routes<'a>(
    objects: &'a Objects,
    gateways: &mut BTreeMap<&'a ObjectName, GatewayState<'a>>,
    references: &References<'_>,
    settings: &Settings,
) -> Vec<RouteState<'a>> {
    let names_ours = |meta: &Meta, parents: &[ParentRef]| {
        let mut names = parents
            .iter()
            .filter_map(|parent| attach::gateway_name(&meta.namespace, parent));
        names.any(|name| gateways.contains_key(&name))
    };
    let http: Vec<&Object<_>> = objects
        .http_routes
        .values()
        .filter(|route| names_ours(&route.meta, &route.spec.parent_refs))
        .collect();
    let grpc: Vec<&Object<_>> = objects
        .grpc_routes
        .values()
        .filter(|route| names_ours(&route.meta, &route.spec.parent_refs))
        .collect();
    let mut states = Vec::with_capacity(http.len() + grpc.len());
    let judges = settings.judges();
    for route in http {
        states.push(route_state(&http::input(route, judges), objects, gateways, references));
    }
    for route in grpc {
        states.push(route_state(&grpc::input(route, judges), objects, gateways, references));
    }
    states
}

fn route_state<'a>(
    input: &RouteInput<'a>,
    objects: &Objects,
    gateways: &mut BTreeMap<&'a ObjectName, GatewayState<'a>>,
    references: &References<'_>,
) -> RouteState<'a> {
    let hostnames: Vec<Hostname> = input
        .hostnames
        .iter()
        .map(|hostname| Hostname::parse(Some(hostname)))
        .collect();
    let (attachments, parents) = attach::attach(input, &hostnames, objects, gateways);
    let rules = input
        .rules
        .iter()
        .map(|rule| read_rule(input, rule, references))
        .collect();
    let in_refused_part = |field: &&String| {
        ["matches", "filters"]
            .iter()
            .any(|part| field.contains(&format!(".{part}")))
    };
    RouteState {
        object: ObjectRef {
            kind: input.kind,
            name: input.meta.object_name(),
        },
        meta: input.meta,
        rules,
        attachments,
        parents,
        ignored: input
            .unread
            .iter()
            .filter(|field| !in_refused_part(field))
            .cloned()
            .collect(),
        is_malformed: input.malformed.is_some(),
    }
}

fn read_rule<'a>(route: &RouteInput<'a>, input: &RuleInput<'a>, references: &References<'_>) -> Rule<'a> {
    let mut refused = Vec::new();
    let unread = super::unread::Unread::new(route.unread);
    let mut matches = match &input.matches {
        Ok(matches) => matches.clone(),
        Err(problem) => {
            refused.push(Refused {
                problem: problem.clone(),
                drops_rule: true,
            });
            Vec::new()
        }
    };
    // A match that lost a condition would take requests that are another rule's.
    for field in unread.below(&format!("{}.matches", input.field)) {
        refused.push(Refused {
            problem: not_supported(field),
            drops_rule: true,
        });
        matches.clear();
    }
    let name = rule_name::rule_name(route.kind, route.meta, input.name, &matches);
    let mut rule = Rule {
        field: input.field.clone(),
        name,
        own_name: input.name,
        matches,
        action: RuleAction::Respond {
            status: 500,
            reason: String::new(),
        },
        request_headers: HeaderChanges::default(),
        response_headers: HeaderChanges::default(),
        inline: input.inline,
        backends: Vec::new(),
        unresolved: Vec::new(),
        refused_backends: BTreeMap::new(),
        refused,
    };
    let mut not_followed = Vec::new();
    if !route.is_judged {
        not_followed.extend(unread.below(&input.field).into_iter().map(str::to_owned));
    }
    let destinations = backends::destinations(route, input, references, &mut rule, &mut not_followed);
    let action = filters::action(input, &unread, &destinations, &mut rule);
    rule.action = action.unwrap_or_else(|problem| {
        if !route.is_judged {
            not_followed.push(problem.field);
            return filters::forward_unchanged(destinations);
        }
        // A request must not get past a filter that is missing.
        let reason = format!("{}: {}", problem.field, problem.message);
        rule.refused.push(Refused {
            problem,
            drops_rule: false,
        });
        RuleAction::Respond { status: 500, reason }
    });
    if let RuleAction::Forward {
        not_followed: known, ..
    } = &mut rule.action
    {
        not_followed.sort();
        not_followed.dedup();
        *known = not_followed;
    }
    rule
}

fn not_supported(field: &str) -> Problem {
    Problem {
        field: field.to_owned(),
        message: "expected it to be left out, since it is not supported".to_owned(),
    }
}

impl RouteState<'_> {
    /// The Gateways that serve it.
    pub(super) fn gateways(&self) -> BTreeSet<ObjectName> {
        self.attachments
            .iter()
            .map(|attachment| attachment.gateway.clone())
            .collect()
    }

    /// What sessions want to know of each rule.
    pub(super) fn facts(&self) -> Vec<RuleFacts<'_>> {
        let gateways = self.gateways();
        let hosts = self.attachments.iter().flat_map(|attachment| &attachment.hostnames);
        let hosts: BTreeSet<Hostname> = hosts.cloned().collect();
        let mut facts = Vec::with_capacity(self.rules.len());
        for rule in &self.rules {
            facts.push(RuleFacts {
                route: self.object.clone(),
                meta: self.meta,
                field: rule.field.clone(),
                name: rule.name.clone(),
                inline: rule.inline,
                backends: rule.backends.iter().map(|backend| backend.object.clone()).collect(),
                refused_backends: rule.refused_backends.clone(),
                paths: rule.matches.iter().map(|found| found.path.clone()).collect(),
                gateways: gateways.clone(),
                hosts: hosts.clone(),
            });
        }
        facts
    }
}
