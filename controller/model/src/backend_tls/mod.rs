//! Which backends are reached over TLS, and how their certificates are verified (`BackendTLSPolicy`, GEP-1897).
//!
//! Targets of a policy are never reached in plain text. If the policy is invalid, or none of its authorities can be
//! read, requests for its targets are answered with status 500. The oldest policy of a target counts even if it is
//! invalid: a younger one may demand less. An unclear target is everything that may be meant: each port of a Service if
//! the policy names none of them, each backend of the namespace if no name can be read.

mod content;

use std::collections::BTreeMap;

use super::Objects;
use super::graph::BackendTls;
use super::objects::RuleBackend;
use super::reports::Condition;
use limpet_api::{BackendTlsPolicySpec, Kind, Object, ObjectName, TlsPolicyTarget};

#[derive(Debug, Default)]
pub(super) struct TlsPolicies<'a> {
    /// Those that win first.
    policies: Vec<TlsPolicy<'a>>,
    owners: BTreeMap<TlsTarget<'a>, usize>,
    /// Backends without a port that a policy targets, with the first such port.
    portless: BTreeMap<RuleBackend, (usize, &'a str)>,
    /// Policies with a target of which nothing can be read, by namespace.
    unclear: BTreeMap<&'a str, usize>,
}

#[derive(Debug)]
pub(super) struct TlsPolicy<'a> {
    pub(super) name: &'a ObjectName,
    pub(super) object: &'a Object<BackendTlsPolicySpec>,
    pub(super) content: TlsPolicyContent,
}

#[derive(Debug)]
pub(super) struct TlsPolicyContent {
    /// The error is the condition `Accepted`.
    pub(super) tls: Result<BackendTls, Condition>,
    pub(super) resolved: Option<Condition>,
}

/// A backend, or one port of a Service by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TlsTarget<'a> {
    pub(super) backend: RuleBackend,
    pub(super) port: Option<&'a str>,
}

impl<'a> TlsPolicies<'a> {
    pub(super) fn read(objects: &'a Objects) -> Self {
        let policies = objects.backend_tls_policies.iter();
        let mut policies: Vec<TlsPolicy<'_>> = policies
            .map(|(name, object)| TlsPolicy {
                name,
                object,
                content: content::read(objects, name, object),
            })
            .collect();
        policies.sort_by_key(|policy| policy.object.meta.precedence());
        let mut all = Self::default();
        for (index, policy) in policies.iter().enumerate() {
            for target in policy.targets().flatten() {
                if let Some(port) = target.port.filter(|_| !has_port(objects, &target)) {
                    all.portless.entry(target.backend.clone()).or_insert((index, port));
                }
                all.owners.entry(target).or_insert(index);
            }
            if policy.object.spec.unclear_targets.contains(&None) {
                all.unclear.entry(&policy.name.namespace).or_insert(index);
            }
        }
        Self { policies, ..all }
    }

    /// TLS towards a port of a backend. The error says why the backend cannot be used.
    pub(super) fn resolve(&self, backend: &RuleBackend, port: &str) -> Result<Option<BackendTls>, String> {
        let Some(policy) = self.governing(backend, port) else {
            return self.unclear(backend).map_or(Ok(None), Err);
        };
        match &policy.content.tls {
            Ok(tls) => Ok(Some(tls.clone())),
            Err(condition) => Err(format!(
                "expected BackendTLSPolicy {} to be valid: {}",
                policy.name, condition.message
            )),
        }
    }

    /// A policy for the port itself wins over one for the whole backend.
    fn governing(&self, backend: &RuleBackend, port: &str) -> Option<&TlsPolicy<'a>> {
        if self.is_empty() {
            return None;
        }
        let target = |port| TlsTarget {
            backend: backend.clone(),
            port,
        };
        self.owner(&target(Some(port))).or_else(|| self.owner(&target(None)))
    }

    fn unclear(&self, backend: &RuleBackend) -> Option<String> {
        if let Some((index, port)) = self.portless.get(backend) {
            let policy = self.policies.get(*index)?;
            return Some(format!(
                "expected BackendTLSPolicy {} to target a port by its name, found sectionName {port}, which may stand \
                 for any port",
                policy.name
            ));
        }
        let (RuleBackend::Service(name) | RuleBackend::XBackend(name)) = backend;
        let policy = self.policies.get(*self.unclear.get(&*name.namespace)?)?;
        Some(format!(
            "expected BackendTLSPolicy {} to have targets that can be read, because it may mean any backend of its \
             namespace",
            policy.name
        ))
    }

    pub(super) fn owner(&self, target: &TlsTarget<'_>) -> Option<&TlsPolicy<'a>> {
        self.policies.get(*self.owners.get(target)?)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.policies.is_empty()
    }

    pub(super) fn all(&self) -> &[TlsPolicy<'a>] {
        &self.policies
    }
}

impl<'a> TlsPolicy<'a> {
    /// The targets, by their index in `targetRefs`. `None`: not a kind that rules lead to.
    pub(super) fn targets(&self) -> impl Iterator<Item = Option<TlsTarget<'a>>> + use<'a> {
        let namespace = &self.name.namespace;
        let spec = &self.object.spec;
        let refs = spec.target_refs.iter();
        let unclear = spec.unclear_targets.iter().flatten().flat_map(move |name| {
            let name = ObjectName::new(namespace, name);
            let backends = [RuleBackend::Service(name.clone()), RuleBackend::XBackend(name)];
            backends.map(|backend| Some(TlsTarget { backend, port: None }))
        });
        refs.map(move |target| read_target(namespace, target)).chain(unclear)
    }
}

pub(super) fn has_port(objects: &Objects, target: &TlsTarget<'_>) -> bool {
    match (&target.backend, target.port) {
        (RuleBackend::Service(name), Some(port)) => {
            let service = objects.services.get(name);
            service.is_some_and(|service| service.spec.ports.iter().any(|known| known.name == port))
        }
        _ => false,
    }
}

/// Whether this can only mean a Service: groups of other kinds have a dot.
fn means_service(target: &TlsPolicyTarget) -> bool {
    let kind = target.kind.to_ascii_lowercase();
    ["service", "services", "svc"].contains(&&*kind) && !target.group.contains('.')
}

fn read_target<'a>(namespace: &str, target: &'a TlsPolicyTarget) -> Option<TlsTarget<'a>> {
    let name = ObjectName::new(namespace, &target.name);
    let backend = match Kind::find(&target.group, &target.kind) {
        Some(Kind::Service) => RuleBackend::Service(name),
        Some(Kind::XBackend) => RuleBackend::XBackend(name),
        None if means_service(target) => RuleBackend::Service(name),
        _ => return None,
    };
    Some(TlsTarget {
        backend,
        port: target.section_name.as_deref().filter(|section| !section.is_empty()),
    })
}
