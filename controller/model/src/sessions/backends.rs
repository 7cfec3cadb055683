//! `XBackend`s with their own sessions: the split chooses the backend of every request.

use std::collections::{BTreeMap, BTreeSet};

use super::annotations;
use super::facts::RuleFacts;
use super::field_error::SessionFieldError;
use super::persistence::{self, Dialect, Persistence};
use super::policy::{PolicyDraft, PolicyInputs};
use super::renamed::FormerSessions;
use crate::field_problem::FieldProblem;
use crate::objects::RuleBackend;
use crate::remembered_sessions::SessionSettings;
use crate::{Objects, Settings};
use limpet_api::{Kind, ObjectName, ObjectRef};
use limpet_core::config::schema::PolicyConfig;

const OF_RULES: &str = "expected on the route, or in the controller's sessionDefaults: it is about rules";

/// The `XBackend`s that rules lead to, and which of them ask for sessions, valid or not.
#[derive(Debug, Default)]
pub(super) struct SessionBackends(
    pub(super) BTreeMap<ObjectName, Result<Option<BackendPersistence>, Vec<FieldProblem>>>,
    BTreeSet<ObjectName>,
);

#[derive(Debug)]
pub(super) struct BackendPersistence {
    pub(super) persistence: Persistence,
    pub(super) draft: PolicyDraft,
    /// Annotations that have no effect.
    pub(super) overruled: Vec<String>,
}

impl SessionBackends {
    pub(super) fn read(objects: &Objects, settings: &Settings, rules: &[RuleFacts<'_>]) -> Self {
        let names: BTreeSet<&ObjectName> = rules.iter().flat_map(x_backends).collect();
        let read = |name: &&ObjectName| (ObjectName::clone(name), content(name, objects, settings));
        let contents = names.iter().map(read).collect();
        let asks = |name: &&ObjectName| {
            let object = objects.backends.get(*name);
            object.is_some_and(|object| object.spec.session_persistence.is_some())
        };
        Self(contents, names.into_iter().filter(asks).cloned().collect())
    }

    /// Whether the backend asks for sessions, valid or not. A mistake in it does not make the rule's sessions count
    /// instead.
    pub(super) fn requests_sessions(&self, name: &ObjectName) -> bool {
        self.1.contains(name)
    }

    pub(super) fn any_requests_sessions(&self, rule: &RuleFacts<'_>) -> bool {
        x_backends(rule).any(|name| self.requests_sessions(name))
    }

    pub(super) fn own(&self, name: &ObjectName) -> Option<&BackendPersistence> {
        self.0.get(name)?.as_ref().ok()?.as_ref()
    }

    pub(super) fn draft(&self, name: &ObjectName) -> Option<&PolicyDraft> {
        self.own(name).map(|own| &own.draft)
    }

    pub(super) fn with_sessions<'r>(&self, rule: &'r RuleFacts<'_>) -> BTreeSet<&'r ObjectName> {
        x_backends(rule).filter(|name| self.draft(name).is_some()).collect()
    }

    pub(super) fn first_with_sessions<'r>(&self, rule: &'r RuleFacts<'_>) -> Option<&'r ObjectName> {
        x_backends(rule).find(|name| self.draft(name).is_some())
    }

    /// Two backends of the rule whose sessions have the same name, so a client cannot keep both.
    pub(super) fn with_one_name<'r>(&self, rule: &'r RuleFacts<'_>) -> Option<(&'r ObjectName, &'r ObjectName)> {
        let mut known: BTreeMap<String, &ObjectName> = BTreeMap::new();
        for name in self.with_sessions(rule) {
            let Some(key) = self.draft(name).and_then(key) else {
                continue;
            };
            if let Some(other) = known.insert(key, name) {
                return Some((other, name));
            }
        }
        None
    }
}

pub(super) fn scope(name: &ObjectName) -> String {
    format!("xbackend/{}/{}", name.namespace, name.name)
}

pub(super) fn x_backends<'r>(rule: &'r RuleFacts<'_>) -> impl Iterator<Item = &'r ObjectName> {
    rule.backends.iter().filter_map(|backend| match backend {
        RuleBackend::XBackend(name) => Some(name),
        RuleBackend::Service(_) => None,
    })
}

/// The explicit name of the session, by which a client tells sessions apart. Case does not matter for headers.
fn key(draft: &PolicyDraft) -> Option<String> {
    let PolicyConfig {
        cookie, header, query, ..
    } = &draft.config;
    let named = |name: String| (!draft.is_unnamed).then_some(name);
    match (cookie, header, query) {
        (Some(cookie), ..) => named(format!("cookie {}", cookie.name)),
        (_, Some(header), _) => named(format!("header {}", header.name.to_ascii_lowercase())),
        (.., query) => query.as_ref().map(|query| format!("query {}", query.name)),
    }
}

pub(super) fn content(
    name: &ObjectName,
    objects: &Objects,
    settings: &Settings,
) -> Result<Option<BackendPersistence>, Vec<FieldProblem>> {
    let Some(object) = objects.backends.get(name) else {
        return Ok(None);
    };
    let below =
        |faults: Vec<SessionFieldError>| faults.into_iter().map(|fault| fault.below("spec")).collect::<Vec<_>>();
    let overrides = annotations::read_without_rules(&object.meta.annotations, OF_RULES);
    let Some(persistence) = &object.spec.session_persistence else {
        return overrides.map(|_| None).map_err(below);
    };
    let mut problems = Vec::new();
    if object.spec.kind != "EndpointSelector" {
        let message = format!(
            "remove it with type {}: only an EndpointSelector has sessions",
            object.spec.kind
        );
        problems.extend(below(vec![SessionFieldError::persistence("", message)]));
    }
    let persistence = persistence::read(persistence, Dialect::Union);
    let own = match (persistence, overrides) {
        (Ok(persistence), Ok(overrides)) => {
            let parts = PolicyInputs::new(&persistence, &overrides, settings);
            let of = ObjectRef {
                kind: Kind::XBackend,
                name: name.clone(),
            };
            let said = || SessionSettings::of_backend(object);
            let former = FormerSessions::read(objects.memory.sessions.former(&of, &object.meta, said));
            parts
                .draft_after(parts.former(&former))
                .map(|draft| BackendPersistence {
                    draft,
                    overruled: persistence.overruled(&overrides, "spec", ""),
                    persistence,
                })
        }
        (persistence, overrides) => Err([persistence.err(), overrides.err()]
            .into_iter()
            .flatten()
            .flatten()
            .collect()),
    };
    match own {
        Ok(own) if problems.is_empty() => Ok(Some(own)),
        Ok(_) => Err(problems),
        Err(faults) => {
            problems.extend(below(faults));
            Err(problems)
        }
    }
}
