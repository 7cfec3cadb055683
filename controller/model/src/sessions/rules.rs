//! Which sessions each rule has, before it is known how many rules a policy governs.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::annotations::{self, Overrides};
use super::backends::Backends;
use super::cookie_path;
use super::facts::RuleFacts;
use super::fault::Fault;
use super::objects::PolicyObjects;
use super::persistence::{self, Dialect, Shape, Wanted};
use super::policy::{Draft, Parts};
use crate::graph::PathMatch;
use crate::problem::Problem;
use crate::references::RuleBackend;
use crate::{CookiePath, SessionDefaults};
use limpet_api::{ObjectName, ObjectRef};
use limpet_core::config::schema::{CookieConfig, CookieModeConfig};

/// What became of a policy on one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// The rule has its sessions.
    Governs,
    /// It asks for no sessions, or has mistakes.
    Nothing,
    /// An older policy targets the same Services.
    TargetLost(usize),
    /// An older policy has the same session name on this route.
    NameTaken(usize),
    /// The rule has the sessions of an older policy of another of its backends.
    Older(usize),
    /// The rule has `sessionPersistence` of its own.
    Inline,
    /// The rule leads to `XBackend`s that have sessions.
    Destinations,
    /// The route's annotations can not be followed.
    Annotations,
    /// The policy's status has no room for the rule's Gateways.
    NoRoom,
}

/// Where a rule's sessions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    None,
    Inline,
    Policy(usize),
    Destinations,
}

/// A rule's sessions.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) source: Source,
    /// Of the rule or of a policy; `None` where there are problems.
    pub(super) draft: Option<Draft>,
    /// Of each of its paths, where the cookie's path depends on it.
    pub(super) each: BTreeMap<PathMatch, Draft>,
    /// Those of the route's annotations are told once for each route.
    pub(super) problems: Vec<Problem>,
    /// Whether there were problems, told here or with another rule of the route.
    pub(super) is_refused: bool,
    /// The policies that target its backends.
    pub(super) outcomes: BTreeMap<usize, Outcome>,
}

/// Decides rule by rule, and route by route.
pub(super) struct Chooser<'a> {
    pub(super) rules: &'a [RuleFacts<'a>],
    pub(super) policies: &'a PolicyObjects<'a>,
    pub(super) backends: &'a Backends,
    pub(super) defaults: &'a SessionDefaults,
}

/// What the rules of one route have in common.
struct Route {
    /// By its annotations.
    overrides: Result<Overrides, Vec<Fault>>,
    /// The same for a rule with a header: what is for cookies alone is for others of its rules, if any has a cookie.
    for_headers: Overrides,
    /// With the policies of its rules, each once.
    drafts: HashMap<usize, Result<Draft, Vec<Fault>>>,
}

impl Chooser<'_> {
    /// For each rule, in their order.
    pub(super) fn choose(&self) -> Vec<Rule> {
        let mut routes: HashMap<&ObjectRef, Vec<usize>> = HashMap::new();
        for (index, rule) in self.rules.iter().enumerate() {
            routes.entry(&rule.route).or_default().push(index);
        }
        let mut chosen: Vec<Rule> = self.rules.iter().map(|rule| self.source(rule)).collect();
        for indices in routes.values() {
            self.build_route(indices, &mut chosen);
            Self::settle_names(indices, &mut chosen);
        }
        chosen
    }

    fn source(&self, rule: &RuleFacts<'_>) -> Rule {
        let services = rule.backends.iter();
        let services = services.filter(|backend| matches!(backend, RuleBackend::Service(_)));
        let owners: BTreeSet<usize> = services.filter_map(|service| self.policies.owner(service)).collect();
        // The policies are in the order of their age.
        let oldest = owners.first().copied();
        // GEP-1619, Route Rule API: what a rule says overrides what is attached to its backends, to be kept for every kind of backend. And
        // sessions of a backend's own "MUST NOT override which backend is selected", as a policy's would.
        let source = if rule.inline.is_some() {
            Source::Inline
        } else if self.backends.any_asks(rule) {
            Source::Destinations
        } else {
            oldest.map_or(Source::None, Source::Policy)
        };
        let outcome = |policy: usize| {
            if self.policies.content(policy).is_none() {
                return Outcome::Nothing;
            }
            if !owners.contains(&policy) {
                return Outcome::TargetLost(oldest.unwrap_or(policy));
            }
            match source {
                Source::Inline => Outcome::Inline,
                Source::Destinations => Outcome::Destinations,
                Source::Policy(winner) if winner == policy => Outcome::Governs,
                Source::Policy(winner) if self.have_one_name(winner, policy) => Outcome::NameTaken(winner),
                Source::Policy(winner) => Outcome::Older(winner),
                Source::None => Outcome::Nothing,
            }
        };
        let touching = rule
            .backends
            .iter()
            .flat_map(|backend| self.policies.targeting(backend));
        Rule {
            source,
            draft: None,
            each: BTreeMap::new(),
            problems: Vec::new(),
            is_refused: false,
            outcomes: touching.map(|policy| (*policy, outcome(*policy))).collect(),
        }
    }

    fn have_one_name(&self, one: usize, other: usize) -> bool {
        let key = |policy: usize| {
            let wanted = &self.policies.content(policy)?.wanted;
            let name = wanted.name()?;
            Some(if wanted.is_cookie() {
                (true, name.to_owned())
            } else {
                (false, name.to_ascii_lowercase())
            })
        };
        key(one).is_some() && key(one) == key(other)
    }

    fn build_route(&self, indices: &[usize], chosen: &mut [Rule]) {
        let Some(first) = indices.first().and_then(|index| self.rules.get(*index)) else {
            return;
        };
        let overrides = annotations::read(&first.meta.annotations);
        let inline: HashMap<usize, Result<Wanted, Vec<Fault>>> = indices
            .iter()
            .filter_map(|index| {
                let wanted = self.rules.get(*index)?.inline?;
                Some((*index, persistence::read(wanted, Dialect::Either)))
            })
            .collect();
        let has_cookie = |index: &usize| match chosen.get(*index).map(|rule| rule.source) {
            Some(Source::Inline) => inline
                .get(index)
                .is_some_and(|wanted| wanted.as_ref().is_ok_and(Wanted::is_cookie)),
            Some(Source::Policy(policy)) => self
                .policies
                .content(policy)
                .is_some_and(|content| content.wanted.is_cookie()),
            _ => false,
        };
        let for_headers = match &overrides {
            Ok(overrides) if indices.iter().any(has_cookie) => overrides.for_header(),
            Ok(overrides) => overrides.clone(),
            Err(_) => Overrides::default(),
        };
        let mut route = Route {
            overrides,
            for_headers,
            drafts: HashMap::new(),
        };
        let mut told = HashSet::new();
        for index in indices {
            let (Some(facts), Some(rule)) = (self.rules.get(*index), chosen.get_mut(*index)) else {
                continue;
            };
            self.build(facts, inline.get(index), &mut route, rule);
            if !rule.problems.is_empty() {
                rule.is_refused = true;
                rule.problems.retain(|problem| told.insert(problem.clone()));
                rule.draft = None;
                rule.each.clear();
                for outcome in rule
                    .outcomes
                    .values_mut()
                    .filter(|outcome| **outcome == Outcome::Governs)
                {
                    *outcome = Outcome::Annotations;
                }
            }
        }
    }

    fn build(
        &self,
        facts: &RuleFacts<'_>,
        inline: Option<&Result<Wanted, Vec<Fault>>>,
        route: &mut Route,
        rule: &mut Rule,
    ) {
        let below = |faults: &[Fault]| -> Vec<Problem> {
            faults.iter().map(|fault| fault.clone().below(&facts.field)).collect()
        };
        if let Err(faults) = &route.overrides {
            rule.problems = below(faults);
        }
        match (rule.source, inline) {
            (Source::Inline, Some(Err(faults))) => rule.problems.extend(below(faults)),
            (Source::Inline, Some(Ok(wanted))) => {
                let Ok(overrides) = &route.overrides else {
                    return;
                };
                let overrides = if wanted.is_cookie() {
                    overrides
                } else {
                    &route.for_headers
                };
                if let Err(faults) = self.build_inline(facts, wanted, overrides, rule) {
                    rule.problems.extend(below(&faults));
                }
            }
            (Source::Policy(policy), _) => match self.draft_of_policy(policy, route) {
                Ok(draft) => rule.draft = Some(draft),
                Err(problems) => rule.problems.extend(problems),
            },
            (Source::Destinations, _) => {
                if let Some((one, other)) = self.backends.with_one_name(facts) {
                    rule.problems.push(Problem {
                        field: format!("{}.backendRefs", facts.field),
                        message: format!(
                            "expected backends whose sessions have different names: XBackend {one} and XBackend {other} have one"
                        ),
                    });
                }
            }
            _ => {}
        }
    }

    fn build_inline(
        &self,
        facts: &RuleFacts<'_>,
        wanted: &Wanted,
        overrides: &Overrides,
        rule: &mut Rule,
    ) -> Result<(), Vec<Fault>> {
        let mode = overrides.mode.unwrap_or(self.defaults.mode);
        let has_own_cookie = wanted.is_cookie() && mode == CookieModeConfig::Insert;
        if wanted.shape == Shape::Union && has_own_cookie && overrides.path == Some(CookiePath::Route) {
            let message = "expected root, or none: sessionPersistence.cookie has a path";
            return Err(vec![Fault::annotation("path", message)]);
        }
        let is_of_route = overrides.path.unwrap_or(self.defaults.path) == CookiePath::Route;
        let paths =
            (wanted.shape == Shape::Named && has_own_cookie && is_of_route).then(|| cookie_path::derive(&facts.paths));
        let draft = |path: Option<&str>| {
            Parts {
                wanted,
                overrides,
                defaults: self.defaults,
                forward: self.defaults.forward,
                path,
            }
            .draft()
        };
        rule.draft = Some(draft(paths.as_ref().map(|paths| paths.all.as_str()))?);
        for (matched, path) in paths.iter().flat_map(|paths| &paths.each) {
            rule.each.insert(matched.clone(), draft(Some(path))?);
        }
        Ok(())
    }

    /// The policy's draft, with what the route's annotations say in its stead.
    fn draft_of_policy(&self, index: usize, route: &mut Route) -> Result<Draft, Vec<Problem>> {
        let (Some(policy), Ok(overrides)) = (self.policies.all.get(index), &route.overrides) else {
            return Err(Vec::new());
        };
        let Some(content) = policy.content() else {
            return Err(Vec::new());
        };
        if overrides.is_empty() {
            return Ok(content.draft.clone());
        }
        let of_route = if content.wanted.is_cookie() {
            overrides
        } else {
            &route.for_headers
        };
        let draft = route.drafts.entry(index).or_insert_with(|| {
            Parts {
                wanted: &content.wanted,
                overrides: &of_route.over(&content.overrides),
                defaults: self.defaults,
                forward: self.defaults.forward,
                path: None,
            }
            .draft()
        });
        let of_route = |fault: &Fault| fault.clone().of_route(policy, |name| overrides.has(name));
        draft.clone().map_err(|faults| faults.iter().map(of_route).collect())
    }

    /// GEP-1619, Session Naming Collision: two policies have one name on one route. The oldest keeps it. Rules of one policy, of
    /// several routes, and with `sessionPersistence` of their own get names for each scope instead (`shared_names`).
    fn settle_names(indices: &[usize], chosen: &mut [Rule]) {
        let mut by_policy: BTreeMap<usize, Draft> = BTreeMap::new();
        for rule in indices.iter().filter_map(|index| chosen.get(*index)) {
            if let (Source::Policy(policy), Some(draft)) = (rule.source, &rule.draft) {
                by_policy.entry(policy).or_insert_with(|| draft.clone());
            }
        }
        let mut kept: HashMap<String, Vec<(usize, CookieConfig)>> = HashMap::new();
        let mut lost: HashMap<usize, usize> = HashMap::new();
        for (policy, draft) in by_policy {
            let Some(cookie) = draft.config.cookie.filter(|_| !draft.is_unnamed) else {
                continue;
            };
            let older = kept.entry(cookie.name.clone()).or_default();
            match older.iter().find(|(_, older)| are_one_cookie(older, &cookie)) {
                Some((winner, _)) => {
                    lost.insert(policy, *winner);
                }
                None => older.push((policy, cookie)),
            }
        }
        for index in indices {
            let Some(rule) = chosen.get_mut(*index) else { continue };
            if let Source::Policy(policy) = rule.source
                && let Some(winner) = lost.get(&policy)
            {
                rule.draft = None;
                rule.outcomes.insert(policy, Outcome::NameTaken(*winner));
            }
        }
    }
}

impl Rule {
    /// The cookies of the filter's own that the rule writes, and whose names are given.
    pub(super) fn named_cookies(&self) -> impl Iterator<Item = &CookieConfig> {
        let drafts = self.draft.iter().chain(self.each.values());
        drafts.filter_map(Draft::named_cookie)
    }
}

/// Whether a client has one cookie of the two. What the application sets has its own path.
fn are_one_cookie(one: &CookieConfig, other: &CookieConfig) -> bool {
    let is_own = |cookie: &CookieConfig| cookie.mode == CookieModeConfig::Insert;
    match (is_own(one), is_own(other)) {
        (true, true) => one.path == other.path && one.domain == other.domain,
        (false, false) => false,
        _ => true,
    }
}

/// The Services that the rule leads to.
pub(super) fn services<'r>(rule: &'r RuleFacts<'_>) -> impl Iterator<Item = &'r ObjectName> {
    rule.backends.iter().filter_map(|backend| match backend {
        RuleBackend::Service(name) => Some(name),
        RuleBackend::XBackend(_) => None,
    })
}
