//! Decides which sessions each rule and each destination has: all dialects of GEP-1619, precedence, conflicts and
//! names.
//!
//! - `persistence` reads `sessionPersistence`, `annotations` what it has no field for. `policy` makes a policy of the
//!   filter from both and the defaults. `origins` and `explain` say why.
//! - `objects` reads session policies; `backends` reads `XBackend`s; `by_cookie` objects without
//!   `sessionPersistence`; `affinities` and `service_annotations` Services.
//! - `rules` chooses the sessions of each rule. `names_in_use` finds cookies of which a client would keep only one, by
//!   `shared_names`. This file has what depends on all rules at once.
//! - `cookie_counts`, `scopes`, `schemes` and `domains` are about cookies of several rules.
//! - `verdicts` says which objects can be followed. `policy_status` and `backend_status` write the reports.

mod affinities;
mod annotations;
mod backend_status;
mod backends;
mod build_context;
mod by_cookie;
mod cookie_counts;
mod cookie_path;
mod defaults;
mod domains;
mod explain;
mod facts;
mod field_error;
mod former;
mod names;
mod names_in_use;
mod naming;
mod objects;
mod origins;
mod persistence;
mod policy;
mod policy_status;
mod renamed;
mod rules;
mod schemes;
mod scopes;
mod service_annotations;
mod shared_names;
mod status;
#[cfg(test)]
mod tests;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

use super::field_problem::FieldProblem;
use super::graph::{PathMatch, Session, SessionRequester, SessionUse};
use super::reports::{Condition, PolicyReport};
use super::stand_in::SessionVerdicts;
use super::{Objects, SessionPolicyName, Settings, affinity};
use limpet_api::{ObjectName, ObjectRef, Text};
use limpet_core::config::schema::PolicyConfig;

pub(crate) use build_context::{BuildContext, BuildLimits, CookieOwners};
pub(crate) use by_cookie::{CookieSessionInputs, CookieSessions, ForeignRule, annotated};
pub(crate) use cookie_path::literal_prefix;
pub use defaults::check as check_defaults;
pub(crate) use explain::ExplainedRule;
pub(crate) use facts::{GatewayHost, RuleFacts, Schemes, Sessionless, TwinReferences};
pub use former::{LIFETIME as PRUNED_LIFETIME, NAME as PRUNED_NAME};
pub(super) use policy_status::{MAX_ANCESTORS, keep_oldest};
pub use service_annotations::costs_of_deletion;
pub(super) use service_annotations::{never_begins, problems as service_problems, session_verdicts as judged_services};
pub(crate) use shared_names::{CookiePlace, WrittenCookie, wider_places};
pub(super) use status::{Remarks, ancestor};

use affinities::Affinities;
use backends::SessionBackends;
use cookie_counts::CookieCounts;
use explain::RuleExplainer;
use facts::services;
use names::PolicyNames;
use names_in_use::{CookieNotes, NamesInUse, since_of};
use objects::{PolicyTargets, ValidPolicy};
use policy::PolicyDraft;
use policy_status::PolicyStatuses;
use rules::{PolicyOutcome, RuleChoice, SessionChooser, SessionSource};

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// For each rule, in their order.
    pub(crate) rules: Vec<RuleSession>,
    pub(crate) destinations: BTreeMap<ObjectName, SessionUse>,
    /// The policies of Services whose affinity counts.
    pub(crate) affinities: BTreeMap<ObjectName, Text>,
    pub(crate) policies: BTreeMap<Text, PolicyConfig>,
    pub(crate) session_policies: BTreeMap<SessionPolicyName, PolicyReport>,
    pub(crate) backends: BTreeMap<ObjectName, PolicyReport>,
    /// Findings on other XBackends, and on policies that no rule leads to.
    pub(crate) without_status: BTreeMap<ObjectRef, Condition>,
    pub(crate) verdicts: SessionVerdicts,
    pub(crate) explained: Vec<ExplainedRule>,
    pub(crate) in_common: SharedCookies,
}

/// The cookies that sessions write, and the oldest scope elsewhere that also writes them and is older. Not known where
/// there are no other objects.
pub(crate) type SharedCookies = Vec<(WrittenCookie, Option<(String, String)>)>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleSession {
    pub(crate) session: Session,
    /// The sessions of single paths, if the path of the cookie is the match's
    /// ([`CookiePath::Route`](super::CookiePath)).
    pub(crate) by_path: BTreeMap<PathMatch, Session>,
    pub(crate) requested_by: Option<SessionRequester>,
    /// Why the rule has no session, for the conditions of the route. Problems of the route's annotations are only on
    /// the first rule that they concern.
    pub(crate) problems: Vec<FieldProblem>,
    pub(crate) notes: Vec<String>,
}

impl RuleSession {
    pub(crate) fn of_path(&self, path: &PathMatch) -> &Session {
        self.by_path.get(path).unwrap_or(&self.session)
    }
}

/// Decides on all rules at once, since rules that share a policy affect each other. `serving`: the Gateways that serve.
pub(crate) fn sessions(
    objects: &Objects,
    settings: &Settings,
    rules: &[RuleFacts<'_>],
    serving: &BTreeSet<&ObjectName>,
    context: BuildContext<'_>,
) -> Sessions {
    let policies = objects::read(objects, settings);
    let targets = PolicyTargets::new(&policies);
    let backends = SessionBackends::read(objects, settings, rules);
    let affinities = Affinities::read(objects, settings, rules);
    let chooser = SessionChooser {
        targets: &targets,
        backends: &backends,
        affinities: &affinities,
        settings,
        remembered: &objects.memory.sessions,
    };
    let mut chosen = chooser.choose(rules);
    domains::refuse_foreign(&mut chosen);
    scopes::settle(&mut chosen);
    schemes::settle(&mut chosen);
    let statuses = PolicyStatuses::new(objects, settings, &policies, &targets, &chosen, serving);
    refuse_without_room(&statuses, &mut chosen);

    let used = used_backends(objects, &chosen, &backends);
    let mut in_common = SharedCookies::default();
    let names_in_use = NamesInUse::find(&chosen, &used, context, &mut in_common);
    // Kept for as long as the objects.
    in_common.shrink_to_fit();
    let per_scope = per_scope(&chosen, &names_in_use);
    let crowds = CookieCounts::find(&chosen, &per_scope, &used, context.limits.most_cookies);
    let cookie_notes = CookieNotes::new(&names_in_use, &crowds);

    let mut emitted = PolicyNames::default();
    let of_rules = emit_rules(&chosen, &per_scope, &mut emitted);
    let of_backends = emit_backends(&used, &names_in_use, &mut emitted);
    let of_services = emit_affinities(&chosen, &affinities, &mut emitted);

    let of_rule = |(rule, emitted): (&RuleChoice<'_>, EmittedPolicies)| RuleSession {
        session: emitted.session(rule, &backends),
        by_path: emitted.by_path(rule),
        requested_by: asked_by(rule, &backends),
        problems: rule.problems.clone(),
        notes: notes(objects, settings, rule, &cookie_notes),
    };
    let of_rules: Vec<RuleSession> = chosen.iter().zip(of_rules).map(of_rule).collect();
    let reports = backend_status::reports(objects, &backends, &used, &names_in_use, &chosen);
    let mut without_status = statuses.without_status();
    without_status.extend(policy_status::without_policy(&chosen));
    without_status.extend(backend_status::without_ancestors(objects, settings, &reports));
    let explainer = RuleExplainer {
        chooser: &chooser,
        used: &used,
        policies: &emitted.by_name,
        stand_ins: &objects.stand_ins,
    };
    Sessions {
        explained: explainer.rules(context.explained, &chosen, &of_rules),
        verdicts: verdicts::session_verdicts(objects, &policies, &backends, &chosen),
        rules: of_rules,
        destinations: destinations(of_backends),
        affinities: affinity_policies(of_services),
        policies: emitted.by_name,
        session_policies: statuses.reports(&chosen, &cookie_notes),
        backends: reports,
        without_status,
        in_common,
    }
}

/// Whether each rule has its scope behind the name of its cookie.
fn per_scope(chosen: &[RuleChoice<'_>], names_in_use: &NamesInUse<'_>) -> Vec<bool> {
    let is_per_scope = |rule: &RuleChoice<'_>| rule.scope.has_several_cookies || names_in_use.older(rule).is_some();
    let mut per_scope: Vec<bool> = chosen.iter().map(is_per_scope).collect();
    scopes::agree(chosen, &mut per_scope);
    per_scope
}

fn asked_by(rule: &RuleChoice<'_>, backends: &SessionBackends) -> Option<SessionRequester> {
    match (rule.source, &rule.draft) {
        (SessionSource::Inline, Some(_)) => Some(SessionRequester::Rule),
        (SessionSource::Policy(owner), Some(_)) => Some(SessionRequester::Policy(owner.policy.name.clone())),
        (SessionSource::Kept(first), Some(_)) => Some(SessionRequester::Backends(vec![first.clone()])),
        (SessionSource::Destinations, _) if !rule.is_without() => {
            let backends: Vec<ObjectName> = backends.with_sessions(rule.facts).into_iter().cloned().collect();
            (!backends.is_empty()).then_some(SessionRequester::Backends(backends))
        }
        _ => None,
    }
}

fn notes(objects: &Objects, settings: &Settings, rule: &RuleChoice<'_>, cookies: &CookieNotes<'_>) -> Vec<String> {
    let mut notes = match rule.source {
        SessionSource::Inline | SessionSource::None if !rule.is_without() => {
            policy_status::affinity_notes(objects, settings, rule.facts)
        }
        _ => Vec::new(),
    };
    if let (SessionSource::Inline, Some(why)) = (rule.source, rule.sessionless().and_then(Sessionless::reason))
        && rule.problems.is_empty()
    {
        let field = &rule.facts.field;
        notes.push(format!("{field}.sessionPersistence has no effect, because {why}"));
    }
    if rule
        .draft
        .iter()
        .chain(rule.each.values())
        .any(PolicyDraft::is_plain_for_http)
    {
        notes.push(format!("{}: {}", rule.facts.field, schemes::NOT_SECURE));
    }
    if matches!(rule.source, SessionSource::Inline) {
        let renamed = rule.draft.iter().filter_map(PolicyDraft::former_note);
        notes.extend(renamed.map(|note| format!("{}: {note}", rule.facts.field)));
    }
    notes.extend(rule.scope_note.clone());
    if matches!(rule.source, SessionSource::Inline)
        && settings.serves()
        && rule.facts.inline.is_some_and(persistence::has_newer_fields)
    {
        notes.extend(status::deprecated("a rule", services(rule.facts).cloned()));
    }
    notes.extend(cookies.for_rule(rule));
    notes.extend(rule.overruled.iter().cloned());
    notes
}

/// The notes on these rules, each once.
pub(crate) fn notes_on(rules: &[RuleSession]) -> impl Iterator<Item = &str> {
    let mut known = HashSet::new();
    let notes = rules.iter().flat_map(|rule| &rule.notes).map(String::as_str);
    notes.filter(move |note| known.insert(*note))
}

struct EmittedPolicies {
    all: Option<Text>,
    each: BTreeMap<PathMatch, Text>,
}

impl EmittedPolicies {
    fn session(&self, rule: &RuleChoice<'_>, backends: &SessionBackends) -> Session {
        match (&self.all, rule.source) {
            (Some(policy), _) => rule.scope.session(policy.clone()),
            (None, SessionSource::Destinations)
                if !rule.is_without() && !backends.with_sessions(rule.facts).is_empty() =>
            {
                Session::Destinations
            }
            (None, SessionSource::Affinity) if !rule.is_without() => Session::Destinations,
            _ => Session::None,
        }
    }

    fn by_path(&self, rule: &RuleChoice<'_>) -> BTreeMap<PathMatch, Session> {
        let each = self.each.iter();
        each.map(|(path, policy)| (path.clone(), rule.scope.session(policy.clone())))
            .collect()
    }
}

struct UsedBackend<'a> {
    scope: String,
    /// Since when it may have its cookie.
    since: String,
    draft: &'a PolicyDraft,
    schemes: Schemes,
    places: BTreeSet<&'a GatewayHost>,
}

impl UsedBackend<'_> {
    fn draft(&self) -> PolicyDraft {
        self.draft.clone().for_schemes(&self.schemes)
    }
}

fn used_backends<'a>(
    objects: &Objects,
    chosen: &'a [RuleChoice<'a>],
    backends: &'a SessionBackends,
) -> BTreeMap<&'a ObjectName, UsedBackend<'a>> {
    let mut used: BTreeMap<&ObjectName, UsedBackend<'_>> = BTreeMap::new();
    for rule in chosen {
        if !matches!(rule.source, SessionSource::Destinations) || rule.is_without() {
            continue;
        }
        for name in backends.with_sessions(rule.facts) {
            if let Some(draft) = backends.draft(name) {
                let backend = used.entry(name).or_insert_with(|| UsedBackend {
                    scope: backends::scope(name),
                    since: objects
                        .backends
                        .get(name)
                        .map(|object| since_of(&object.meta))
                        .unwrap_or_default(),
                    draft,
                    schemes: Schemes::default(),
                    places: BTreeSet::new(),
                });
                backend.schemes.extend(&rule.facts.schemes);
                backend.places.extend(&*rule.facts.places);
            }
        }
    }
    used
}

fn used_affinities<'a>(chosen: &'a [RuleChoice<'a>], affinities: &Affinities) -> BTreeMap<&'a ObjectName, Duration> {
    let rules = chosen.iter().filter(|rule| !rule.is_without());
    let is_by_service =
        |rule: &&RuleChoice<'_>| matches!(rule.source, SessionSource::Affinity | SessionSource::Destinations);
    let rules = rules.filter(|rule| is_by_service(rule) || rule.facts.foreign.is_some());
    let names = rules.flat_map(|rule| services(rule.facts));
    names
        .filter_map(|name| Some((name, affinities.timeout(name)?)))
        .collect()
}

fn emit_rules(chosen: &[RuleChoice<'_>], per_scope: &[bool], emitted: &mut PolicyNames) -> Vec<EmittedPolicies> {
    let emit = |(rule, per_scope): (&RuleChoice<'_>, &bool)| {
        let mut add = |draft: &PolicyDraft| emitted.add(draft.of_scope(&rule.scope.of_cookie, *per_scope));
        let all = rule.draft.as_ref().map(&mut add);
        let each = rule.each.iter().map(|(path, draft)| (path.clone(), add(draft)));
        let each = each.collect();
        EmittedPolicies { all, each }
    };
    chosen.iter().zip(per_scope).map(emit).collect()
}

fn emit_backends<'a>(
    used: &BTreeMap<&'a ObjectName, UsedBackend<'a>>,
    names_in_use: &NamesInUse<'_>,
    emitted: &mut PolicyNames,
) -> Vec<(&'a ObjectName, Text)> {
    let emit = |(name, backend): (&&'a ObjectName, &UsedBackend<'_>)| {
        let shares_name = names_in_use.older_than_backend(name).is_some();
        (
            *name,
            emitted.add(backend.draft().of_scope(&backend.scope, shares_name)),
        )
    };
    used.iter().map(emit).collect()
}

fn emit_affinities<'a>(
    chosen: &'a [RuleChoice<'a>],
    affinities: &Affinities,
    emitted: &mut PolicyNames,
) -> Vec<(&'a ObjectName, Text)> {
    let used = used_affinities(chosen, affinities).into_iter();
    used.map(|(name, timeout)| (name, emitted.add(affinity::policy(timeout))))
        .collect()
}

fn destinations(emitted: Vec<(&ObjectName, Text)>) -> BTreeMap<ObjectName, SessionUse> {
    let session = |(name, policy): (&ObjectName, Text)| {
        let scope = backends::scope(name).into();
        (name.clone(), SessionUse { policy, scope })
    };
    emitted.into_iter().map(session).collect()
}

fn affinity_policies(emitted: Vec<(&ObjectName, Text)>) -> BTreeMap<ObjectName, Text> {
    let affinity = |(name, policy): (&ObjectName, Text)| (name.clone(), policy);
    emitted.into_iter().map(affinity).collect()
}

fn refuse_without_room<'p>(statuses: &PolicyStatuses<'p>, chosen: &mut [RuleChoice<'p>]) {
    for rule in chosen {
        if let (SessionSource::Policy(ValidPolicy { policy, .. }), Some(_)) = (rule.source, &rule.draft)
            && !statuses.has_room(policy, rule.facts)
        {
            rule.draft = None;
            rule.is_refused = true;
            rule.outcomes.insert(policy, PolicyOutcome::NoRoom);
            rule.problems.push(FieldProblem {
                field: format!("{}.backendRefs", rule.facts.field),
                message: format!(
                    "there are no sessions: {policy} applies to more Gateways than its status has room for, and to the \
                     oldest ones first"
                ),
            });
        }
    }
}
