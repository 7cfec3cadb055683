//! Session policies: their sessions, and the Services that they target.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};
use std::fmt;

use super::annotations;
use super::field_error::{self, SessionFieldError};
use super::former::{self, LostFields, RestoredFrom, RestoredPersistence};
use super::persistence::{self, Dialect, Persistence};
use super::policy::{PolicyDraft, PolicyInputs};
use super::renamed::FormerSessions;
use crate::field_problem::FieldProblem;
use crate::objects::RuleBackend;
use crate::remembered_sessions::{RememberedSession, SessionSettings};
use crate::session_fields::SessionFields;
use crate::{Objects, SessionPolicyKind, SessionPolicyName, Settings};
use limpet_api::{Kind, Object, ObjectName, SessionPolicySpec};

/// The most targets, by GEP-713 and the CRDs.
const MAX_TARGETS: usize = 16;

/// A session policy. Of conflicting ones, the smallest wins.
#[derive(Debug)]
pub(super) struct PolicyObject<'a> {
    pub(super) name: &'a SessionPolicyName,
    pub(super) object: &'a Object<SessionPolicySpec>,
    /// `None` where it asks for no sessions.
    pub(super) content: Result<Option<PolicyContent>, Vec<FieldProblem>>,
    /// The targets that may be backends, each with its index in `targetRefs`.
    pub(super) targets: Vec<(usize, RuleBackend)>,
}

#[derive(Debug)]
pub(super) struct PolicyContent {
    pub(super) persistence: Persistence,
    pub(super) overrides: SessionFields,
    /// The sessions by only its own annotations.
    pub(super) draft: PolicyDraft,
    pub(super) lost: Option<LostFields>,
    pub(super) restored: Vec<(&'static str, RestoredFrom)>,
    /// Annotations that have no effect.
    pub(super) overruled: Vec<String>,
    pub(super) settings: SessionSettings,
    pub(super) former: Vec<FormerSessions>,
}

/// A policy that asks for sessions.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValidPolicy<'p> {
    pub(super) policy: &'p PolicyObject<'p>,
    pub(super) content: &'p PolicyContent,
}

/// The policies that target a backend, those that win first.
#[derive(Debug)]
pub(super) struct PolicyTargets<'p>(HashMap<&'p RuleBackend, Vec<&'p PolicyObject<'p>>>);

impl fmt::Display for PolicyObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)
    }
}

impl PolicyObject<'_> {
    /// GEP-713: the oldest first, then by namespace and name. The kind decides between policies of different kinds.
    fn rank(&self) -> impl Ord + '_ {
        (self.object.meta.precedence(), self.name.kind)
    }

    /// `None` if it is invalid, or asks for no sessions.
    pub(super) fn content(&self) -> Option<&PolicyContent> {
        self.content.as_ref().ok()?.as_ref()
    }
}

impl Ord for PolicyObject<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for PolicyObject<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PolicyObject<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for PolicyObject<'_> {}

/// Reads all session policies, those that win first.
pub(super) fn read<'a>(objects: &'a Objects, settings: &Settings) -> Vec<PolicyObject<'a>> {
    let policies = objects.session_policies.iter().map(|(name, object)| PolicyObject {
        name,
        object,
        content: content(
            name,
            object,
            objects.memory.sessions.of(&name.object_ref(), &object.meta),
            settings,
        ),
        targets: targets(name, object),
    });
    let mut policies: Vec<_> = policies.collect();
    policies.sort();
    policies
}

/// Policies of a target that count: each rule that leads to it has an outcome for each of them.
const MOST_OF_TARGET: usize = 64;

impl<'p> PolicyTargets<'p> {
    /// `policies` must be sorted.
    pub(super) fn new(policies: &'p [PolicyObject<'p>]) -> Self {
        let mut by_target: HashMap<&RuleBackend, Vec<&PolicyObject<'_>>> = HashMap::new();
        for policy in policies {
            let targets: BTreeSet<&RuleBackend> = policy.targets.iter().map(|(_, target)| target).collect();
            for target in targets {
                let of_target = by_target.entry(target).or_default();
                if of_target.len() < MOST_OF_TARGET {
                    of_target.push(policy);
                }
            }
        }
        Self(by_target)
    }

    /// The policies that target the backend, valid or not.
    pub(super) fn targeting(&self, backend: &RuleBackend) -> &[&'p PolicyObject<'p>] {
        self.0.get(backend).map(Vec::as_slice).unwrap_or_default()
    }

    /// The oldest valid policy that targets the backend, which counts.
    pub(super) fn owner(&self, backend: &RuleBackend) -> Option<ValidPolicy<'p>> {
        self.targeting(backend).iter().find_map(|policy| {
            let content = policy.content()?;
            Some(ValidPolicy { policy, content })
        })
    }
}

fn targets(name: &SessionPolicyName, object: &Object<SessionPolicySpec>) -> Vec<(usize, RuleBackend)> {
    let backend = |(index, target): (usize, &limpet_api::PolicyTarget)| {
        let name = ObjectName::new(&name.name.namespace, &target.name);
        match Kind::find(&target.group, &target.kind) {
            Some(Kind::Service) => Some((index, RuleBackend::Service(name))),
            // Invalid targets, but rules lead to them, so their Gateways are in the status of the policy.
            None if target.group == "core" && target.kind == Kind::Service.as_str() => {
                Some((index, RuleBackend::Service(name)))
            }
            Some(Kind::XBackend) => Some((index, RuleBackend::XBackend(name))),
            _ => None,
        }
    };
    object.spec.target_refs.iter().enumerate().filter_map(backend).collect()
}

fn content(
    name: &SessionPolicyName,
    object: &Object<SessionPolicySpec>,
    known: Option<&RememberedSession>,
    settings: &Settings,
) -> Result<Option<PolicyContent>, Vec<FieldProblem>> {
    if let Some(error) = &object.malformed {
        return Err(vec![error.clone().into()]);
    }
    let is_older = name.kind == SessionPolicyKind::BackendLbPolicy;
    let is_read = |name: &str| !is_older && name == former::KEPT_NAME;
    let overrides = annotations::read_except(&object.meta.annotations, is_read);
    let dialect = if is_older { Dialect::Named } else { Dialect::Either };
    let persistence = object.spec.session_persistence.as_ref();
    let persistence = persistence
        .map(|persistence| {
            let restored = former::restored(persistence, &object.meta, known);
            Ok((persistence::read(&restored.persistence, dialect)?, restored))
        })
        .transpose();
    let mut problems = target_problems(&object.spec);
    if persistence == Ok(None) && !object.unread.is_empty() {
        problems.push(FieldProblem {
            field: "spec.sessionPersistence".to_owned(),
            message: format!(
                "expected session persistence, which is all that Limpet supports of a policy; {} cannot be followed",
                object.unread.join(", ")
            ),
        });
    }
    let content = match (persistence, overrides) {
        (Ok(None), Ok(_)) => Ok(None),
        (Ok(Some(asked)), Ok(overrides)) => PolicyContent::draft(object, known, settings, asked, overrides).map(Some),
        (persistence, overrides) => {
            let faults = [persistence.err(), overrides.err()].into_iter().flatten();
            Err(faults.flatten().collect())
        }
    };
    match content {
        Ok(content) if problems.is_empty() => Ok(content),
        Ok(_) => Err(problems),
        Err(faults) => {
            problems.extend(faults.into_iter().map(|fault| fault.below("spec")));
            Err(problems)
        }
    }
}

impl PolicyContent {
    fn draft(
        object: &Object<SessionPolicySpec>,
        known: Option<&RememberedSession>,
        settings: &Settings,
        (persistence, restored): (Persistence, RestoredPersistence),
        overrides: SessionFields,
    ) -> Result<Self, Vec<SessionFieldError>> {
        let said = SessionSettings {
            target_refs: object.spec.target_refs.clone(),
            session_persistence: Some(restored.persistence.clone()),
            ..SessionSettings::annotated(&object.meta)
        };
        let former = FormerSessions::read(known.map(|known| known.former(&said)).unwrap_or_default());
        let parts = PolicyInputs::new(&persistence, &overrides, settings);
        Ok(Self {
            draft: parts.draft_after(parts.former(&former))?,
            overruled: overruled(&persistence, &overrides, &restored),
            settings: said,
            former,
            persistence,
            overrides,
            lost: restored.lost,
            restored: restored.from,
        })
    }
}

fn overruled(persistence: &Persistence, overrides: &SessionFields, restored: &RestoredPersistence) -> Vec<String> {
    let mut overruled = persistence.overruled(overrides, "spec", "");
    if restored.has_other_name {
        let field = format!("spec.sessionPersistence.{}", persistence.name_field());
        overruled.push(field_error::overruled(former::KEPT_NAME, "it", &field));
    }
    overruled
}

fn target_problems(spec: &SessionPolicySpec) -> Vec<FieldProblem> {
    let count = spec.target_refs.len();
    if !(1..=MAX_TARGETS).contains(&count) {
        return vec![FieldProblem {
            field: "spec.targetRefs".to_owned(),
            message: format!("expected 1 to {MAX_TARGETS} targets, found {count}"),
        }];
    }
    let mut known = BTreeSet::new();
    let mut problems = Vec::new();
    for (index, target) in spec.target_refs.iter().enumerate() {
        let field = format!("spec.targetRefs[{index}]");
        let mut problem = |name: &str, message: String| {
            problems.push(FieldProblem {
                field: format!("{field}{name}"),
                message,
            });
        };
        if !known.insert(target) {
            problem("", "expected each target once".to_owned());
        }
        match (Kind::find(&target.group, &target.kind), target.group.as_str()) {
            (Some(Kind::Service), _) => {}
            (_, "") => problem(".kind", format!("expected Service, found {:?}", target.kind)),
            (Some(Kind::XBackend), _) => problem(
                ".kind",
                "expected Service: an XBackend has sessionPersistence of its own".to_owned(),
            ),
            (_, group) => problem(
                ".group",
                format!("expected \"\", the group of Service, found {group:?}"),
            ),
        }
        if target.name.is_empty() {
            problem(".name", "expected a name".to_owned());
        }
    }
    problems
}
