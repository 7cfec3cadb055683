//! Which sessions each rule and each destination has: every dialect of GEP-1619, precedence, conflicts and names.
//!
//! - `persistence`: `sessionPersistence` in all its shapes. `annotations`: what it has no field for. `policy`: both of them and the defaults, as a
//!   policy of the filter.
//! - `objects`: session policies, their targets and their age. `backends`: `XBackend`s.
//! - `rules`: whose sessions a rule has, and which names collide. `shared_names`: cookies that a client would keep only one of. Here: what depends on
//!   all rules at once.
//! - `policy_status`, `backend_status`: what is reported.

mod annotations;
mod backend_status;
mod backends;
mod cookie_path;
mod defaults;
mod facts;
mod fault;
mod names;
mod objects;
mod persistence;
mod policy;
mod policy_status;
mod rules;
mod shared_names;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::graph::{AskedBy, Hostname, PathMatch, Session, SessionUse};
use super::problem::Problem;
use super::reports::PolicyReport;
use super::{Objects, SessionPolicyName, Settings};
use limpet_api::ObjectName;
use limpet_core::config::schema::PolicyConfig;

pub use defaults::check as check_defaults;
pub(crate) use facts::RuleFacts;
pub(super) use policy_status::MAX_ANCESTORS;
pub(super) use status::ancestor;

use backends::Backends;
use names::Policies;
use objects::PolicyObjects;
use policy::Draft;
use policy_status::Statuses;
use rules::{Chooser, Outcome, Rule, Source};
use shared_names::SharedNames;

/// What sessions there are.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    /// For each rule, in their order.
    pub(crate) rules: Vec<RuleSession>,
    /// Of XBackends with sessions of their own.
    pub(crate) destinations: BTreeMap<ObjectName, SessionUse>,
    /// The policies that are used.
    pub(crate) policies: BTreeMap<String, PolicyConfig>,
    /// Of all session policies.
    pub(crate) session_policies: BTreeMap<SessionPolicyName, PolicyReport>,
    /// Of all XBackends that rules lead to.
    pub(crate) backends: BTreeMap<ObjectName, PolicyReport>,
}

/// The session of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RuleSession {
    /// Whose it is, and by which policy.
    pub(crate) session: Session,
    /// The same for single paths of the rule's matches, where the cookie's path is that of the match ([`CookiePath::Route`](super::CookiePath)).
    pub(crate) by_path: BTreeMap<PathMatch, Session>,
    /// Who asks for it; nobody, where there is none.
    pub(crate) asked_by: Option<AskedBy>,
    /// What is wrong with it, for the route's conditions; the rule then has no session. What is wrong with the route's annotations, the
    /// first of its rules has that is concerned.
    pub(crate) problems: Vec<Problem>,
    /// What a person may want to know, for the message of a condition that holds.
    pub(crate) notes: Vec<String>,
}

impl RuleSession {
    /// The session of the rule's match with this path.
    pub(crate) fn of_path(&self, path: &PathMatch) -> &Session {
        self.by_path.get(path).unwrap_or(&self.session)
    }
}

/// The sessions of all rules at once: whether rules share a policy matters to each.
pub(crate) fn sessions(objects: &Objects, settings: &Settings, rules: &[RuleFacts<'_>]) -> Sessions {
    let policies = PolicyObjects::read(objects, settings);
    let backends = Backends::read(objects, settings, rules);
    let chooser = Chooser {
        rules,
        policies: &policies,
        backends: &backends,
        defaults: &settings.session_defaults,
    };
    let mut chosen = chooser.choose();
    let statuses = Statuses::new(objects, rules, &policies, &chosen);
    refuse_without_room(&statuses, &policies, rules, &mut chosen);

    let mut emitted = Policies::default();
    let governed = governed(&chosen, policies.all.len());
    let used = used_backends(rules, &chosen, &backends);
    let sharing = sharing(rules, &chosen, &governed, &used);
    let of_rules: Vec<Emitted> = rules
        .iter()
        .zip(&chosen)
        .enumerate()
        .map(|(index, (facts, rule))| {
            let per_scope = sharing.contains(&index) || is_one_of_several(rule, &governed);
            emit(facts, rule, per_scope, &mut emitted)
        })
        .collect();
    let of_backends: Vec<(&ObjectName, usize)> = used
        .iter()
        .enumerate()
        .map(|(index, (name, backend))| {
            let shares_name = sharing.contains(&(rules.len() + index));
            (*name, emitted.add(backend.draft.of_scope(&backend.scope, shares_name)))
        })
        .collect();

    let (names, by_name) = emitted.named();
    let session_use = |policy: usize, scope: String| SessionUse {
        policy: names.get(policy).cloned().unwrap_or_default(),
        scope,
    };
    let of_rule = |((facts, rule), emitted): ((&RuleFacts<'_>, &Rule), Emitted)| {
        let session = |policy: usize| Session::Rule(session_use(policy, facts.name.0.clone()));
        RuleSession {
            session: match (emitted.all, rule.source) {
                (Some(policy), _) => session(policy),
                (None, Source::Destinations) if !rule.is_refused && !backends.with_sessions(facts).is_empty() => {
                    Session::Destinations
                }
                _ => Session::None,
            },
            by_path: emitted
                .each
                .into_iter()
                .map(|(path, policy)| (path, session(policy)))
                .collect(),
            asked_by: match (rule.source, &rule.draft) {
                (Source::Inline, Some(_)) => Some(AskedBy::Rule),
                (Source::Policy(policy), Some(_)) => {
                    let policy = policies.all.get(policy);
                    policy.map(|policy| AskedBy::Policy(policy.name.clone()))
                }
                (Source::Destinations, _) if !rule.is_refused => {
                    let backends: Vec<ObjectName> = backends.with_sessions(facts).into_iter().cloned().collect();
                    (!backends.is_empty()).then_some(AskedBy::Backends(backends))
                }
                _ => None,
            },
            problems: rule.problems.clone(),
            notes: match rule.source {
                Source::Inline if !rule.is_refused => policy_status::affinity_notes(objects, facts),
                _ => Vec::new(),
            },
        }
    };
    let reports = policies.all.iter().enumerate();
    Sessions {
        rules: rules.iter().zip(&chosen).zip(of_rules).map(of_rule).collect(),
        destinations: of_backends
            .into_iter()
            .map(|(name, policy)| (name.clone(), session_use(policy, backends::scope(name))))
            .collect(),
        policies: by_name,
        session_policies: reports
            .map(|(index, policy)| (policy.name.clone(), statuses.report(index, &chosen)))
            .collect(),
        backends: backend_status::reports(objects, rules, &backends, &chosen),
    }
}

/// The numbers of a rule's policies.
struct Emitted {
    all: Option<usize>,
    each: BTreeMap<PathMatch, usize>,
}

/// An XBackend with sessions that rules lead to.
struct UsedBackend<'a> {
    scope: String,
    draft: &'a Draft,
    /// The hosts of these rules.
    hosts: BTreeSet<&'a Hostname>,
}

fn used_backends<'a>(
    rules: &'a [RuleFacts<'_>],
    chosen: &[Rule],
    backends: &'a Backends,
) -> BTreeMap<&'a ObjectName, UsedBackend<'a>> {
    let mut used: BTreeMap<&ObjectName, UsedBackend<'_>> = BTreeMap::new();
    for (facts, rule) in rules.iter().zip(chosen) {
        if rule.source != Source::Destinations || rule.is_refused {
            continue;
        }
        for name in backends.with_sessions(facts) {
            if let Some(draft) = backends.draft(name) {
                let backend = used.entry(name).or_insert_with(|| UsedBackend {
                    scope: backends::scope(name),
                    draft,
                    hosts: BTreeSet::new(),
                });
                backend.hosts.extend(&facts.hosts);
            }
        }
    }
    used
}

/// The numbers of rules, and behind them those of backends, whose cookie has the name, path and domain of another one that the same clients get, so that either would
/// end the other's session. What a
/// rule or a backend says takes nothing from what a policy says, so a policy gives way to policies alone.
fn sharing(
    rules: &[RuleFacts<'_>],
    chosen: &[Rule],
    governed: &[usize],
    used: &BTreeMap<&ObjectName, UsedBackend<'_>>,
) -> HashSet<usize> {
    let (mut of_policies, mut of_all) = (SharedNames::default(), SharedNames::default());
    let mut policies = HashSet::new();
    for (index, (facts, rule)) in rules.iter().zip(chosen).enumerate() {
        if is_one_of_several(rule, governed) {
            continue;
        }
        for cookie in rule.named_cookies() {
            of_all.add(index, &facts.name.0, &facts.hosts, cookie);
            if matches!(rule.source, Source::Policy(_)) {
                of_policies.add(index, &facts.name.0, &facts.hosts, cookie);
                policies.insert(index);
            }
        }
    }
    for (index, backend) in used.values().enumerate() {
        if let Some(cookie) = backend.draft.named_cookie() {
            of_all.add(
                rules.len() + index,
                &backend.scope,
                backend.hosts.iter().copied(),
                cookie,
            );
        }
    }
    let mut sharing = of_all.shared();
    sharing.retain(|index| !policies.contains(index));
    sharing.extend(of_policies.shared());
    sharing
}

/// Whether its policy governs others, too. Then it writes a cookie for each (GEP-1619: they "MUST NOT share persistent sessions"). That ends no session
/// when a second rule comes: the filter reads the cookie under its former name, too.
fn is_one_of_several(rule: &Rule, governed: &[usize]) -> bool {
    match rule.source {
        Source::Policy(policy) => governed.get(policy).is_some_and(|rules| *rules > 1),
        _ => false,
    }
}

fn emit(facts: &RuleFacts<'_>, rule: &Rule, per_scope: bool, emitted: &mut Policies) -> Emitted {
    let mut add = |draft: &Draft| emitted.add(draft.of_scope(&facts.name.0, per_scope));
    Emitted {
        all: rule.draft.as_ref().map(&mut add),
        each: rule
            .each
            .iter()
            .map(|(path, draft)| (path.clone(), add(draft)))
            .collect(),
    }
}

/// How many rules each policy governs.
fn governed(chosen: &[Rule], policies: usize) -> Vec<usize> {
    let mut counts = vec![0; policies];
    for rule in chosen {
        if let (Source::Policy(policy), Some(_)) = (rule.source, &rule.draft)
            && let Some(count) = counts.get_mut(policy)
        {
            *count += 1;
        }
    }
    counts
}

fn refuse_without_room(
    statuses: &Statuses<'_>,
    policies: &PolicyObjects<'_>,
    rules: &[RuleFacts<'_>],
    chosen: &mut [Rule],
) {
    for (facts, rule) in rules.iter().zip(chosen) {
        if let (Source::Policy(policy), Some(_)) = (rule.source, &rule.draft)
            && !statuses.has_room(policy, facts)
        {
            rule.draft = None;
            rule.is_refused = true;
            rule.outcomes.insert(policy, Outcome::NoRoom);
            let policy = policies.all.get(policy).map(ToString::to_string);
            rule.problems.push(Problem {
                field: format!("{}.backendRefs", facts.field),
                message: format!(
                    "there are no sessions: {} applies to more Gateways than its status has room for, and to older ones first",
                    policy.unwrap_or_default()
                ),
            });
        }
    }
}
