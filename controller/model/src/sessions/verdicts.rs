//! Objects whose sessions can be followed, and their settings.

use std::collections::BTreeMap;

use super::backends::SessionBackends;
use super::domains::{EXPECTED, foreign_domain};
use super::naming::why_unusable;
use super::objects::PolicyObject;
use super::renamed::settings_of_route;
use super::rules::{PolicyOutcome, RuleChoice};
use crate::Objects;
use crate::field_problem::{FieldProblem, joined};
use crate::remembered_sessions::SessionSettings;
use crate::stand_in::{InvalidSessions, SessionVerdict, SessionVerdicts};
use limpet_api::{Kind, ObjectName, ObjectRef, PolicyTarget};

pub(super) fn session_verdicts(
    objects: &Objects,
    policies: &[PolicyObject<'_>],
    backends: &SessionBackends,
    chosen: &[RuleChoice<'_>],
) -> SessionVerdicts {
    let of_no_host = DroppedCookies::find(backends, chosen);
    let mut all = SessionVerdicts::new();
    for policy in policies {
        let judged = of_policy(objects, policy, &of_no_host);
        all.insert(policy.name.object_ref(), judged);
    }
    for name in backends.0.keys() {
        let object = ObjectRef {
            kind: Kind::XBackend,
            name: name.clone(),
        };
        all.extend(of_backend(objects, backends, name, &of_no_host).map(|judged| (object, judged)));
    }
    all.extend(of_routes(chosen));
    all
}

/// Policies and `XBackend`s of rules: whether browsers drop their cookies on all hosts of these rules.
#[derive(Debug, Default)]
struct DroppedCookies<'a> {
    policies: BTreeMap<&'a PolicyObject<'a>, bool>,
    backends: BTreeMap<&'a ObjectName, bool>,
}

impl<'a> DroppedCookies<'a> {
    fn find(backends: &SessionBackends, chosen: &'a [RuleChoice<'a>]) -> Self {
        let mut all = Self::default();
        for rule in chosen {
            for (policy, outcome) in &rule.outcomes {
                #[cfg(test)]
                crate::looked::at_one();
                let is_of_none = match outcome {
                    PolicyOutcome::Governs => false,
                    PolicyOutcome::ForeignDomain { is_policys_fault: true } => true,
                    _ => continue,
                };
                *all.policies.entry(policy).or_insert(true) &= is_of_none;
            }
            for name in backends.with_sessions(rule.facts) {
                #[cfg(test)]
                crate::looked::at_one();
                let draft = backends.draft(name);
                let is_of_none = draft.is_some_and(|draft| foreign_domain(draft, rule.facts).is_some());
                *all.backends.entry(name).or_insert(true) &= is_of_none;
            }
        }
        all
    }
}

fn of_policy(objects: &Objects, policy: &PolicyObject<'_>, of_none: &DroppedCookies<'_>) -> SessionVerdict {
    let object = policy.object;
    match &policy.content {
        // Without sessions on purpose.
        Err(_) if object.malformed.is_none() && object.spec.session_persistence.is_none() => {
            SessionVerdict::Valid(Box::default())
        }
        Err(problems) => wrong(problems),
        Ok(None) => SessionVerdict::Valid(Box::default()),
        Ok(Some(content)) if of_none.policies.get(policy) == Some(&true) => of_no_host(content.draft.config.domain()),
        Ok(Some(content)) => {
            let valid = || SessionVerdict::Valid(Box::new(content.settings.clone()));
            of_new_targets(objects, policy).unwrap_or_else(valid)
        }
    }
}

/// Targets that cannot be found, and that the last version did not have: a name is misspelt where this version had a
/// target that can be. A target that was there before was deleted, and the policy counts (`None`).
fn of_new_targets(objects: &Objects, policy: &PolicyObject<'_>) -> Option<SessionVerdict> {
    let known = objects
        .memory
        .sessions
        .of(&policy.name.object_ref(), &policy.object.meta);
    let known = known.map_or(&[][..], |known| &known.settings.target_refs);
    let why = |target: &PolicyTarget| why_unusable(objects, &policy.name.name.namespace, &target.name);
    let now = &policy.object.spec.target_refs;
    let new = now.iter().enumerate().filter(|(_, target)| !known.contains(target));
    let missing = new.filter_map(|(index, target)| {
        Some(FieldProblem {
            field: format!("spec.targetRefs[{index}].name"),
            message: why(target)?,
        })
    });
    let missing: Vec<FieldProblem> = missing.collect();
    let has_any = |targets: &[PolicyTarget]| targets.iter().any(|target| why(target).is_none());
    if missing.is_empty() {
        None
    } else if has_any(known) {
        Some(wrong(&missing))
    } else {
        (!has_any(now)).then_some(SessionVerdict::WithoutTargets)
    }
}

fn of_backend(
    objects: &Objects,
    backends: &SessionBackends,
    name: &ObjectName,
    of_none: &DroppedCookies<'_>,
) -> Option<SessionVerdict> {
    let object = objects.backends.get(name)?;
    if object.spec.session_persistence.is_none() {
        return Some(SessionVerdict::Valid(Box::default()));
    }
    if let Some(Err(problems)) = backends.0.get(name) {
        return Some(wrong(problems));
    }
    let draft = backends.draft(name)?;
    if of_none.backends.get(name) == Some(&true) {
        return Some(of_no_host(draft.config.domain()));
    }
    Some(SessionVerdict::Valid(Box::new(SessionSettings::of_backend(object))))
}

fn of_routes(chosen: &[RuleChoice<'_>]) -> SessionVerdicts {
    let mut routes: BTreeMap<&ObjectRef, Vec<&RuleChoice<'_>>> = BTreeMap::new();
    for rule in chosen.iter().filter(|rule| rule.facts.foreign.is_none()) {
        routes.entry(&rule.facts.route).or_default().push(rule);
    }
    let judged = |rules: Vec<&RuleChoice<'_>>| {
        let wrong = || rules.iter().filter(|rule| rule.is_routes_fault);
        let refused = wrong().map(|rule| (rule.facts.field.clone(), rule.facts.name.last().into()));
        let refused: BTreeMap<_, _> = refused.collect();
        if !refused.is_empty() {
            return SessionVerdict::Wrong(InvalidSessions {
                problems: joined(wrong().flat_map(|rule| &rule.problems)),
                rules: refused,
            });
        }
        let said = rules.first().map(|first| {
            settings_of_route(
                first.facts.meta,
                rules.iter().filter_map(|rule| rule.facts.written_persistence()),
            )
        });
        SessionVerdict::Valid(Box::new(said.unwrap_or_default()))
    };
    let all = routes.into_iter();
    all.map(|(route, rules)| (route.clone(), judged(rules))).collect()
}

fn wrong(problems: &[FieldProblem]) -> SessionVerdict {
    SessionVerdict::Wrong(InvalidSessions {
        problems: joined(problems),
        rules: BTreeMap::new(),
    })
}

/// Browsers drop its cookie wherever it counts.
fn of_no_host(domain: Option<&str>) -> SessionVerdict {
    SessionVerdict::Wrong(InvalidSessions {
        problems: format!(
            "{EXPECTED}, found {:?}: browsers drop the cookie",
            domain.unwrap_or_default()
        ),
        rules: BTreeMap::new(),
    })
}
