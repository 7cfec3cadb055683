//! `HTTPRoute` and `GRPCRoute`: which listeners they attach to, and what their rules do.

mod attach;
mod backends;
mod cors;
mod expressions;
mod filters;
mod grpc;
mod http;
mod matches;
mod mirrors;
mod rule;
mod rule_name;
mod size;
mod token;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rule::{RefusedRule, RouteInput, RuleInput, not_supported, quarantine, refuse};

use super::gateways::GatewayState;
use super::graph::{HeaderChanges, Hostname, Match, RuleName};
use super::references::References;
use super::rule_names::{RememberedName, RuleNames};
use super::sessions::{GatewayHost, RuleFacts, Schemes};
use super::unknown_fields::UnknownFields;
use super::{Objects, Quarantined, RouteReplacement, Settings};
use limpet_api::{Kind, Meta, Object, ObjectName, ObjectRef, ParentRef, Text};

pub use attach::gateways_of;
pub(super) use attach::{Attachment, Parent, allows, gateway_name};
pub(super) use rule::{RouteRule, RuleAction};

#[derive(Debug)]
pub(super) struct RouteState<'a> {
    pub(super) object: ObjectRef,
    pub(super) meta: &'a Meta,
    pub(super) rules: Vec<RouteRule<'a>>,
    remembered: Vec<RememberedName>,
    /// The listeners that it attaches to.
    pub(super) attachments: Vec<Attachment>,
    /// The parents that are ours.
    pub(super) parents: Vec<Parent>,
    /// Unsupported fields.
    pub(super) ignored: Vec<String>,
    /// Whether the route could not be read, so its rules are unknown.
    pub(super) is_malformed: bool,
    /// Whether its Gateways are ours. Another control plane may follow what Limpet cannot.
    is_judged: bool,
    /// Set if Envoys refused it.
    pub(super) quarantined: Option<&'a Quarantined>,
}

/// Reads every route that refers to one of our Gateways, and counts attached routes at the listeners.
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
    let http: Vec<&Arc<Object<_>>> = objects
        .http_routes
        .values()
        .filter(|route| names_ours(&route.meta, &route.spec.parent_refs))
        .collect();
    let grpc: Vec<&Arc<Object<_>>> = objects
        .grpc_routes
        .values()
        .filter(|route| names_ours(&route.meta, &route.spec.parent_refs))
        .collect();
    let mut states = Vec::with_capacity(http.len() + grpc.len());
    let judges = settings.serves();
    for route in http {
        states.push(route_state(&http::input(route, judges), objects, gateways, references));
    }
    for route in grpc {
        states.push(route_state(&grpc::input(route, judges), objects, gateways, references));
    }
    states
}

/// Names of routes with sessions, and of those that were remembered before; unchanged if a route exists and cannot be
/// read now.
pub(super) fn rule_names(
    objects: &Objects,
    routes: &[RouteState<'_>],
    has_sessions: impl Fn(&ObjectRef) -> bool,
) -> RuleNames {
    let mut names = RuleNames::default();
    let former = &objects.memory.rule_names;
    let http = objects.http_routes.values().map(|route| (Kind::HttpRoute, &route.meta));
    let grpc = objects.grpc_routes.values().map(|route| (Kind::GrpcRoute, &route.meta));
    for (kind, meta) in http.chain(grpc) {
        let name = meta.object_name();
        let route = ObjectRef { kind, name }.key();
        let known = former.of(&route, &meta.uid).to_vec();
        names.set(route, &meta.uid, known);
    }
    for state in routes.iter().filter(|state| !state.is_malformed) {
        let (route, uid) = (state.object.key(), &state.meta.uid);
        if has_sessions(&state.object) || !names.of(&route, uid).is_empty() {
            names.set(route, uid, state.remembered.clone());
        }
    }
    names
}

fn route_state<'a>(
    input: &RouteInput<'a>,
    objects: &'a Objects,
    gateways: &mut BTreeMap<&'a ObjectName, GatewayState<'a>>,
    references: &References<'_>,
) -> RouteState<'a> {
    let hostnames: Vec<Hostname> = input
        .hostnames
        .iter()
        .map(|hostname| Hostname::parse(Some(hostname)))
        .collect();
    let (attachments, parents) = attach::attach(input, &hostnames, objects, gateways);
    let mut rules = read_rules(input, &attachments, references);
    let remembered = rule_name::name_rules(input.kind, input.meta, &mut rules, &objects.memory.rule_names);
    let object = ObjectRef {
        kind: input.kind,
        name: input.meta.object_name(),
    };
    let quarantined = objects.quarantined.get(&object);
    if let Some(serves) = quarantined.map(|quarantined| quarantined.serves)
        && serves != RouteReplacement::Former
    {
        for rule in &mut rules {
            quarantine(rule, serves);
        }
    }
    let in_refused_part = |field: &&String| {
        ["matches", "filters"]
            .iter()
            .any(|part| field.contains(&format!(".{part}")))
    };
    let state = RouteState {
        object,
        quarantined,
        meta: input.meta,
        rules,
        remembered,
        attachments,
        parents,
        ignored: input
            .unread
            .iter()
            .filter(|field| !in_refused_part(field))
            .cloned()
            .collect(),
        is_malformed: input.malformed.is_some(),
        is_judged: input.is_judged,
    };
    if !state.is_refused() {
        state.count(gateways);
    }
    state
}

/// The rules without names; refused if too much is made of them.
fn read_rules<'a>(
    route: &RouteInput<'a>,
    attachments: &[Attachment],
    references: &References<'_>,
) -> Vec<RouteRule<'a>> {
    let rules = route.rules.iter().map(|rule| read_rule(route, rule, references));
    let mut rules: Vec<RouteRule<'_>> = rules.collect();
    if let Some(problem) = size::problem(&rules, attachments) {
        for rule in &mut rules {
            rule.otherwise.clear();
            refuse(rule, &problem, true);
        }
        if let Some(first) = rules.first_mut().filter(|_| route.is_judged) {
            first.otherwise.push(Match::default());
        }
    }
    rules
}

fn read_rule<'a>(route: &RouteInput<'a>, input: &RuleInput<'a>, references: &References<'_>) -> RouteRule<'a> {
    let unread = UnknownFields::new(route.unread);
    let mut rule = matched(input, &unread, route.is_judged);
    let mut not_followed = Vec::new();
    if !route.is_judged {
        not_followed.extend(unread.below(&input.field).into_iter().map(str::to_owned));
        not_followed.extend(input.unsupported_fields());
    }
    let destinations = backends::destinations(route, input, references, &mut rule, &mut not_followed);
    let action = filters::action(route, input, references, &destinations, &mut rule);
    rule.action = action.unwrap_or_else(|problem| {
        if !route.is_judged {
            not_followed.push(problem.field);
            return filters::forward_unchanged(destinations);
        }
        // Requests must not be forwarded without a filter that the rule asks for.
        let reason = problem.to_string();
        rule.refused.push(RefusedRule {
            problem,
            drops_rule: false,
        });
        RuleAction::Respond { status: 500, reason }
    });
    if let RuleAction::Forward(forward) = &mut rule.action {
        not_followed.sort();
        not_followed.dedup();
        forward.not_followed = not_followed;
    }
    rule
}

/// The rule before anything but its matches is read.
fn matched<'a>(input: &RuleInput<'a>, unread: &UnknownFields<'_>, is_judged: bool) -> RouteRule<'a> {
    let drops_rule = |problem| RefusedRule {
        problem,
        drops_rule: true,
    };
    let (mut matches, mut refused) = match &input.matches {
        Ok(matches) => (matches.clone(), Vec::new()),
        Err(problem) => (Vec::new(), vec![drops_rule(problem.clone())]),
    };
    // Without the unsupported condition, the match would take requests of other rules.
    for field in unread.below(&format!("{}.matches", input.field)) {
        refused.push(drops_rule(not_supported(field)));
        matches.clear();
    }
    RouteRule {
        field: input.field.clone(),
        // It depends on all rules of the route.
        name: RuleName(Text::default()),
        own_name: input.name,
        matches,
        otherwise: if is_judged { input.otherwise.clone() } else { Vec::new() },
        action: RuleAction::Respond {
            status: 500,
            reason: String::new(),
        },
        request_headers: HeaderChanges::default(),
        response_headers: HeaderChanges::default(),
        inline: input.inline,
        cors: None,
        backends: Vec::new(),
        twins: None,
        mirrors: Vec::new(),
        unresolved: Vec::new(),
        refused_backends: BTreeMap::new(),
        refused,
    }
}

impl RouteState<'_> {
    /// Whether no rule can be followed. Gateway API: "A Route MUST be considered "Accepted" if at least one of the
    /// Route's rules is implemented by the Gateway".
    pub(super) fn is_refused(&self) -> bool {
        !self.rules.is_empty() && self.rules.iter().all(RouteRule::is_refused)
    }

    fn count(&self, gateways: &mut BTreeMap<&ObjectName, GatewayState<'_>>) {
        for attachment in &self.attachments {
            let gateway = gateways.get_mut(&attachment.gateway);
            if let Some(listener) = gateway.and_then(|gateway| gateway.listeners.get_mut(attachment.listener)) {
                listener.attached += 1;
            }
        }
    }

    /// The Gateways that serve it.
    pub(super) fn gateways(&self) -> BTreeSet<ObjectName> {
        self.attachments
            .iter()
            .map(|attachment| attachment.gateway.clone())
            .collect()
    }

    /// A route that is attached nowhere has no sessions, so its names do not collide with others.
    pub(super) fn facts(&self) -> Vec<RuleFacts<'_>> {
        if self.attachments.is_empty() {
            return Vec::new();
        }
        let gateways = self.gateways();
        let hosts = self.attachments.iter().flat_map(|attachment| &attachment.hostnames);
        let hosts: BTreeSet<Hostname> = hosts.cloned().collect();
        let mut schemes = Schemes::default();
        for attachment in &self.attachments {
            let of_scheme = if attachment.is_plain {
                &mut schemes.over_http
            } else {
                &mut schemes.over_https
            };
            of_scheme.extend(attachment.hostnames.iter().cloned());
        }
        let places = self.attachments.iter().flat_map(|attachment| {
            let place = |host: &Hostname| (attachment.gateway.clone(), host.clone());
            attachment.hostnames.iter().map(place)
        });
        let places: Arc<BTreeSet<GatewayHost>> = Arc::new(places.collect());
        let mut facts = Vec::with_capacity(self.rules.len());
        for rule in &self.rules {
            facts.push(RuleFacts {
                route: self.object.clone(),
                meta: self.meta,
                field: rule.field.clone(),
                name: rule.name.clone(),
                inline: rule.inline,
                foreign: None,
                sessionless: rule.sessionless(self.is_judged),
                backends: rule.backends.iter().map(|backend| backend.object.clone()).collect(),
                clusters: rule
                    .backends
                    .iter()
                    .map(|backend| backend.cluster.base_text())
                    .collect(),
                refused_backends: rule.refused_backends.clone(),
                paths: rule.matches.iter().map(|found| found.path.clone()).collect(),
                gateways: gateways.clone(),
                hosts: hosts.clone(),
                schemes: schemes.clone(),
                places: Arc::clone(&places),
            });
        }
        facts
    }
}
