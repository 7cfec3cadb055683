//! Chooses the sessions of each rule, before the number of rules that each policy governs is known.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::affinities::Affinities;
use super::backends::SessionBackends;
use super::by_cookie::ForeignRule;
use super::facts::{RuleFacts, Sessionless, TwinReferences};
use super::field_error::{SessionFieldError, annotation_field};
use super::objects::{PolicyContent, PolicyObject, PolicyTargets, ValidPolicy};
use super::origins::FieldSource;
use super::persistence::{self, Dialect, Persistence, Shape};
use super::policy::{PolicyDraft, PolicyInputs};
use super::renamed::{FormerSessions, settings_of_route};
use super::{annotations, cookie_path};
use crate::Settings;
use crate::field_problem::FieldProblem;
use crate::graph::{PathMatch, Session, SessionUse};
use crate::objects::RuleBackend;
use crate::remembered_sessions::RememberedSessions;
use crate::session_fields::{CookiePath, FieldTarget, SessionCarrier, SessionFields, SessionScope, SessionSplit};
use limpet_api::{ObjectName, ObjectRef, Text};
use limpet_core::config::schema::{CookieConfig, CookieModeConfig};

/// Whether a policy governs a rule, and why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicyOutcome<'p> {
    /// The rule has its sessions.
    Governs,
    /// The policy asks for no sessions, or has mistakes.
    Nothing,
    /// An older policy targets the same Services.
    TargetLost,
    /// An older policy has the same session name on this route.
    NameTaken(&'p PolicyObject<'p>),
    /// The rule has the sessions of an older policy of another of its backends.
    Older(&'p PolicyObject<'p>),
    /// The rule has its own `sessionPersistence`.
    Inline,
    /// The rule leads to `XBackend`s that have sessions.
    Destinations,
    /// The route's annotations cannot be followed.
    Annotations,
    /// Browsers drop the cookie, by its domain and the rule's hosts.
    ForeignDomain { is_policys_fault: bool },
    /// The policy's status has no room for the rule's Gateways.
    NoRoom,
    /// No request of the rule can have a session.
    Sessionless(Sessionless),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum SessionSource<'p> {
    None,
    Inline,
    Policy(ValidPolicy<'p>),
    Destinations,
    /// The rule's, as the first of these `XBackend`s asks: a session keeps its backend.
    Kept(&'p ObjectName),
    /// No object asks for sessions, but some of its Services have affinity.
    Affinity,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct RuleScope {
    /// Tokens are bound to it; where each destination has its own sessions, its cluster follows.
    pub(super) text: Text,
    pub(super) is_per_destination: bool,
    /// Part of its cookies' names.
    pub(super) of_cookie: Text,
    pub(super) has_several_cookies: bool,
}

impl RuleScope {
    pub(super) fn session(&self, policy: Text) -> Session {
        let scope = self.text.clone();
        let used = SessionUse { policy, scope };
        if self.is_per_destination {
            Session::EachDestination(used)
        } else {
            Session::Rule(used)
        }
    }
}

#[derive(Debug)]
pub(super) struct RuleChoice<'p> {
    pub(super) facts: &'p RuleFacts<'p>,
    pub(super) source: SessionSource<'p>,
    /// `None` if there are problems.
    pub(super) draft: Option<PolicyDraft>,
    /// The drafts by path, if the cookie's path depends on it.
    pub(super) each: BTreeMap<PathMatch, PolicyDraft>,
    /// Problems of the route's annotations are on one of its rules.
    pub(super) problems: Vec<FieldProblem>,
    pub(super) scope: RuleScope,
    pub(super) scope_note: Option<String>,
    /// Annotations of the route that have no effect, on one of its rules.
    pub(super) overruled: Vec<String>,
    /// Whether there were problems, here or on another rule of the route.
    pub(super) is_refused: bool,
    pub(super) is_routes_fault: bool,
    pub(super) outcomes: BTreeMap<&'p PolicyObject<'p>, PolicyOutcome<'p>>,
}

pub(super) struct SessionChooser<'p> {
    pub(super) targets: &'p PolicyTargets<'p>,
    pub(super) backends: &'p SessionBackends,
    pub(super) affinities: &'p Affinities,
    pub(super) settings: &'p Settings,
    pub(super) remembered: &'p RememberedSessions,
}

struct RouteSessions<'p> {
    overrides: SessionFields,
    /// Fields for rules with a header. Fields for cookies are meant for a rule of the route with a cookie, if any.
    for_headers: SessionFields,
    former: Vec<FormerSessions>,
    drafts: BTreeMap<&'p PolicyObject<'p>, Result<PolicyDraft, Vec<SessionFieldError>>>,
}

type InlinePersistence = Option<Result<Persistence, Vec<SessionFieldError>>>;

impl<'p> SessionChooser<'p> {
    pub(super) fn choose(&self, rules: &'p [RuleFacts<'p>]) -> Vec<RuleChoice<'p>> {
        let mut chosen: Vec<RuleChoice<'p>> = rules.iter().map(|rule| self.source(rule)).collect();
        let mut routes: HashMap<&ObjectRef, Vec<&mut RuleChoice<'p>>> = HashMap::new();
        for rule in chosen.iter_mut().filter(|rule| rule.facts.foreign.is_none()) {
            routes.entry(&rule.facts.route).or_default().push(rule);
        }
        for rules in routes.values_mut() {
            self.build_route(rules);
            settle_names(rules);
        }
        chosen
    }

    fn source(&self, facts: &'p RuleFacts<'p>) -> RuleChoice<'p> {
        let backends = || facts.backends.iter().filter(|_| facts.foreign.is_none());
        let services = backends().filter(|backend| matches!(backend, RuleBackend::Service(_)));
        let owners: Vec<ValidPolicy<'p>> = services.filter_map(|service| self.targets.owner(service)).collect();
        let oldest = owners.iter().copied().min_by_key(|owner| owner.policy);
        // GEP-1619, Route Rule API: `sessionPersistence` of a rule overrides policies of its backends. The sessions of
        // a backend "MUST NOT override which backend is selected", as a policy's would.
        let asks = facts.foreign.and_then(ForeignRule::asks);
        let source = if facts.inline.is_some() || asks.is_some() {
            SessionSource::Inline
        } else if self.backends.any_requests_sessions(facts) {
            self.source_of_backends(facts)
        } else if let Some(oldest) = oldest {
            SessionSource::Policy(oldest)
        } else if self.affinities.any(facts) {
            SessionSource::Affinity
        } else {
            SessionSource::None
        };
        let outcome = |policy: &'p PolicyObject<'p>| {
            let Some(content) = policy.content() else {
                return PolicyOutcome::Nothing;
            };
            if !owners.iter().any(|owner| owner.policy == policy) {
                return PolicyOutcome::TargetLost;
            }
            match source {
                SessionSource::Inline => PolicyOutcome::Inline,
                SessionSource::Destinations | SessionSource::Kept(_) => PolicyOutcome::Destinations,
                SessionSource::Policy(winner) if winner.policy == policy => facts
                    .sessionless
                    .map_or(PolicyOutcome::Governs, PolicyOutcome::Sessionless),
                SessionSource::Policy(winner) if have_one_name(winner.content, content) => {
                    PolicyOutcome::NameTaken(winner.policy)
                }
                SessionSource::Policy(winner) => PolicyOutcome::Older(winner.policy),
                SessionSource::None | SessionSource::Affinity => PolicyOutcome::Nothing,
            }
        };
        let touching = backends().flat_map(|backend| self.targets.targeting(backend));
        RuleChoice {
            facts,
            source,
            draft: asks.map(|asks| asks.0.clone()),
            each: BTreeMap::new(),
            problems: Vec::new(),
            scope: RuleScope::default(),
            scope_note: None,
            overruled: Vec::new(),
            is_refused: false,
            is_routes_fault: false,
            outcomes: touching.map(|policy| (*policy, outcome(policy))).collect(),
        }
    }

    /// Whether the sessions of a rule that leads to `XBackend`s are theirs or its own.
    fn source_of_backends(&self, facts: &'p RuleFacts<'p>) -> SessionSource<'p> {
        // Wrong annotations are reported with the sessions of the rule.
        let said = annotations::read(&facts.meta.annotations).unwrap_or_default();
        let split = said.split.or(self.settings.session_defaults.split);
        match self.backends.first_with_sessions(facts) {
            Some(first) if split == Some(SessionSplit::Keep) => SessionSource::Kept(first),
            _ => SessionSource::Destinations,
        }
    }

    fn build_route(&self, rules: &mut [&mut RuleChoice<'p>]) {
        let Some(first) = rules.first() else {
            return;
        };
        let overrides = annotations::read(&first.facts.meta.annotations);
        let read = |rule: &&mut RuleChoice<'_>| Some(persistence::read(rule.facts.inline?, Dialect::Either));
        let inline: Vec<InlinePersistence> = rules.iter().map(read).collect();
        let has_cookie = |(rule, inline): (&&mut RuleChoice<'_>, &InlinePersistence)| match (rule.source, inline) {
            (SessionSource::Inline, Some(Ok(persistence))) => persistence.is_cookie(),
            (SessionSource::Policy(owner), _) => owner.content.persistence.is_cookie(),
            _ => false,
        };
        let any_cookie = rules.iter().zip(&inline).any(has_cookie);
        let meta = first.facts.meta;
        let said = || settings_of_route(meta, rules.iter().filter_map(|rule| rule.facts.written_persistence()));
        let former = self.remembered.former(&first.facts.route, meta, said);
        let mut route = overrides.map(|overrides| RouteSessions {
            for_headers: if any_cookie {
                overrides.only(|of| !of.is_for_cookies())
            } else {
                overrides.clone()
            },
            overrides,
            former: FormerSessions::read(former),
            drafts: BTreeMap::new(),
        });
        let mut told = HashSet::new();
        let mut overruled = HashSet::new();
        for (rule, inline) in rules.iter_mut().zip(inline) {
            self.build(rule, inline, &mut route);
            // The sessions of two backends may have one name, whatever the route says.
            let is_of_backends = matches!(rule.source, SessionSource::Destinations) && route.is_ok();
            rule.is_routes_fault = !rule.problems.is_empty() && !is_of_backends;
            if let Some(why) = rule.sessionless() {
                rule.draft = None;
                rule.each.clear();
                rule.problems.extend(twins_problem(rule.facts, why));
            }
            rule.overruled.retain(|why| overruled.insert(why.clone()));
            if !rule.problems.is_empty() {
                rule.is_refused = true;
                rule.problems.retain(|problem| told.insert(problem.clone()));
                rule.draft = None;
                rule.each.clear();
                for outcome in rule.outcomes.values_mut() {
                    if *outcome == PolicyOutcome::Governs {
                        *outcome = PolicyOutcome::Annotations;
                    }
                }
            }
        }
    }

    fn build(
        &self,
        rule: &mut RuleChoice<'p>,
        inline: InlinePersistence,
        route: &mut Result<RouteSessions<'p>, Vec<SessionFieldError>>,
    ) {
        let facts = rule.facts;
        let below = |faults: &[SessionFieldError]| -> Vec<FieldProblem> {
            faults.iter().map(|fault| fault.clone().below(&facts.field)).collect()
        };
        if let Err(faults) = route {
            rule.problems = below(faults);
        }
        match (rule.source, inline, route) {
            (SessionSource::Inline, Some(Err(faults)), _) => rule.problems.extend(below(&faults)),
            (SessionSource::Inline, Some(Ok(persistence)), Ok(route)) => {
                let overrides = route.overrides_of(&persistence);
                rule.overruled = persistence.overruled(overrides, &facts.field, "");
                if let Err(faults) = self.build_inline(&persistence, overrides, &route.former, rule) {
                    rule.problems.extend(below(&faults));
                }
            }
            (SessionSource::Policy(owner), _, Ok(route)) => {
                let ValidPolicy { policy, content } = owner;
                let overrides = route.overrides_of(&content.persistence);
                rule.overruled = content
                    .persistence
                    .overruled(overrides, "spec", &format!(" of {policy}"));
                match self.draft_of_policy(owner, route) {
                    Ok(draft) => rule.draft = Some(draft),
                    Err(problems) => rule.problems.extend(problems),
                }
            }
            (SessionSource::Kept(first), _, Ok(route)) => {
                rule.overruled = of_backends_alone(&route.overrides);
                rule.draft = self.draft_of_backend(first, &route.overrides);
            }
            (SessionSource::Destinations, _, route) => {
                if let Ok(route) = route {
                    rule.overruled = of_backends_alone(&route.overrides);
                }
                if let Some((one, other)) = self.backends.with_one_name(facts) {
                    rule.problems.push(FieldProblem {
                        field: format!("{}.backendRefs", facts.field),
                        message: format!(
                            "expected backends whose sessions have different names: XBackend {one} and XBackend \
                             {other} have the same"
                        ),
                    });
                }
            }
            _ => {}
        }
    }

    fn build_inline(
        &self,
        persistence: &Persistence,
        overrides: &SessionFields,
        former: &[FormerSessions],
        rule: &mut RuleChoice<'p>,
    ) -> Result<(), Vec<SessionFieldError>> {
        let parts = PolicyInputs::new(persistence, overrides, self.settings);
        let has_own_cookie = parts.holder() == SessionCarrier::OwnCookie;
        if persistence.shape == Shape::Union && has_own_cookie && overrides.path == Some(CookiePath::Route) {
            let message = "expected root, or none: sessionPersistence.cookie has a path";
            return Err(vec![SessionFieldError::annotation("path", message)]);
        }
        let fields = overrides.merged_over(&self.settings.session_defaults);
        let is_shared = fields.scope.is_some_and(|scope| scope != SessionScope::Rule);
        if is_shared && overrides.path == Some(CookiePath::Route) {
            let message = "expected root or a path like /shop, because rules share the session";
            return Err(vec![SessionFieldError::annotation("path", message)]);
        }
        let is_of_route = !is_shared && fields.path == Some(CookiePath::Route);
        let paths = (persistence.shape == Shape::Named && has_own_cookie && is_of_route)
            .then(|| cookie_path::derive(&rule.facts.paths));
        let former = parts.former_of_rule(former, rule.facts.name.last());
        let draft = |path: Option<&str>| PolicyInputs { path, ..parts }.draft_after(former.clone());
        rule.draft = Some(draft(paths.as_ref().map(|paths| paths.all.as_str()))?);
        for (matched, path) in paths.iter().flat_map(|paths| &paths.each) {
            rule.each.insert(matched.clone(), draft(Some(path))?);
        }
        Ok(())
    }

    fn draft_of_backend(&self, name: &ObjectName, overrides: &SessionFields) -> Option<PolicyDraft> {
        let draft = self.backends.draft(name)?;
        let fields = overrides.merged_over(&self.settings.session_defaults);
        let mut origins = draft.origins;
        for entry in fields.set_of(|of| of == FieldTarget::Rules) {
            let is_of_route = entry.is_set_in(overrides);
            let part = if is_of_route {
                FieldSource::Route
            } else {
                FieldSource::Defaults
            };
            origins.set(&entry.annotation(), part);
        }
        Some(PolicyDraft {
            scope: fields.scope.unwrap_or_default(),
            split: SessionSplit::Keep,
            origins,
            ..draft.clone()
        })
    }

    /// The policy's draft, with the route's annotations in place of its own.
    fn draft_of_policy(
        &self,
        owner: ValidPolicy<'p>,
        route: &mut RouteSessions<'p>,
    ) -> Result<PolicyDraft, Vec<FieldProblem>> {
        let ValidPolicy { policy, content } = owner;
        if route.overrides.is_empty() && route.former.is_empty() {
            return Ok(content.draft.clone());
        }
        let of_route = route.overrides_of(&content.persistence).clone();
        let overrides = of_route.merged_over(&content.overrides);
        let parts = PolicyInputs {
            of_route: Some(&of_route),
            ..PolicyInputs::new(&content.persistence, &overrides, self.settings)
        };
        let former = &route.former;
        let draft = route.drafts.entry(policy).or_insert_with(|| {
            let of_policy = parts.former(&content.former);
            let of_route = former.iter().filter_map(|former| {
                let overrides = former.overrides.merged_over(&content.overrides);
                parts.carrier_by(&content.persistence, &overrides)
            });
            parts.draft_after(of_policy.into_iter().chain(of_route))
        });
        let of_route = |fault: &SessionFieldError| fault.clone().of_route(policy, |name| route.overrides.has(name));
        draft.clone().map_err(|faults| faults.iter().map(of_route).collect())
    }
}

impl RouteSessions<'_> {
    fn overrides_of(&self, persistence: &Persistence) -> &SessionFields {
        if persistence.is_cookie() {
            &self.overrides
        } else {
            &self.for_headers
        }
    }
}

/// Annotations of a route without effect where its sessions belong to `XBackend`s.
fn of_backends_alone(overrides: &SessionFields) -> Vec<String> {
    let others = overrides.set_of(|of| of != FieldTarget::Rules);
    let said = others.map(|field| {
        format!(
            "{}: it has no effect on rules that lead to XBackends with sessions, whose own annotations count",
            annotation_field(&field.annotation())
        )
    });
    said.collect()
}

fn have_one_name(one: &PolicyContent, other: &PolicyContent) -> bool {
    let key = |content: &PolicyContent| {
        let persistence = &content.persistence;
        let name = persistence.name.as_deref()?;
        Some(if persistence.is_cookie() {
            (true, name.to_owned())
        } else {
            (false, name.to_ascii_lowercase())
        })
    };
    key(one).is_some() && key(one) == key(other)
}

/// GEP-1619, Session Naming Collision: of two policies with the same name on a route, the oldest one keeps it. Rules of
/// one policy, of several routes, or with their own `sessionPersistence` get a name per scope instead (`shared_names`).
fn settle_names<'p>(rules: &mut [&mut RuleChoice<'p>]) {
    let mut by_policy: BTreeMap<&'p PolicyObject<'p>, PolicyDraft> = BTreeMap::new();
    for rule in rules.iter() {
        if let (SessionSource::Policy(owner), Some(draft)) = (rule.source, &rule.draft) {
            by_policy.entry(owner.policy).or_insert_with(|| draft.clone());
        }
    }
    let mut kept: HashMap<String, Vec<(&'p PolicyObject<'p>, CookieConfig)>> = HashMap::new();
    let mut lost: BTreeMap<&'p PolicyObject<'p>, &'p PolicyObject<'p>> = BTreeMap::new();
    for (policy, draft) in by_policy {
        let Some(cookie) = draft.config.cookie.filter(|_| !draft.is_unnamed) else {
            continue;
        };
        let older = kept.entry(cookie.name.clone()).or_default();
        match older.iter().find(|(_, older)| are_one_cookie(older, &cookie)) {
            Some((winner, _)) => {
                lost.insert(policy, winner);
            }
            None => older.push((policy, cookie)),
        }
    }
    for rule in rules {
        if let SessionSource::Policy(owner) = rule.source
            && let Some(winner) = lost.get(owner.policy)
        {
            rule.draft = None;
            rule.outcomes.insert(owner.policy, PolicyOutcome::NameTaken(winner));
        }
    }
}

fn twins_problem(facts: &RuleFacts<'_>, why: Sessionless) -> Option<FieldProblem> {
    let Sessionless::Twins(TwinReferences { first, second }) = why else {
        return None;
    };
    let field = &facts.field;
    Some(FieldProblem {
        field: format!("{field}.backendRefs[{second}]"),
        message: format!(
            "expected another Service than {field}.backendRefs[{first}] names, which has other filters: a session \
             belongs to a Service, and could not tell the two apart. A second Service may select the same Pods"
        ),
    })
}

impl RuleChoice<'_> {
    /// Sessions of destinations leave the choice to the split.
    pub(super) fn sessionless(&self) -> Option<Sessionless> {
        let is_of_rule = matches!(
            self.source,
            SessionSource::Inline | SessionSource::Policy(_) | SessionSource::Kept(_)
        );
        let why = self.facts.sessionless?;
        (is_of_rule || !matches!(why, Sessionless::Twins(_))).then_some(why)
    }

    pub(super) fn is_without(&self) -> bool {
        self.is_refused || self.sessionless().is_some()
    }

    pub(super) fn named_cookies(&self) -> impl Iterator<Item = &CookieConfig> {
        let drafts = self.draft.iter().chain(self.each.values());
        drafts.filter_map(PolicyDraft::named_cookie)
    }
}

/// Whether a client keeps only one of both. The paths of the application's cookies are unknown.
fn are_one_cookie(one: &CookieConfig, other: &CookieConfig) -> bool {
    let is_own = |cookie: &CookieConfig| cookie.mode == CookieModeConfig::Insert;
    match (is_own(one), is_own(other)) {
        (true, true) => one.path == other.path && one.domain == other.domain,
        (false, false) => false,
        _ => true,
    }
}
