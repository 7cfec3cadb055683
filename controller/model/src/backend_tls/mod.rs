//! Which backends are reached over TLS, and how their certificates are verified (`BackendTLSPolicy`, GEP-1897).
//!
//! What a policy targets is never reached in plain text. If the policy is invalid, or none of its authorities can be
//! read, its targets are invalid references, whose requests are answered with status 500. For the same reason the
//! oldest policy of a target counts even if it is invalid: a younger one may demand less.
//!
//! `content` reads what a policy demands. `backend_tls_status` writes the reports.

mod content;

use std::collections::BTreeMap;

use super::Objects;
use super::graph::BackendTls;
use super::objects::RuleBackend;
use super::reports::Condition;
use limpet_api::{BackendTlsPolicySpec, Kind, Object, ObjectName, TlsPolicyTarget};

/// All policies.
#[derive(Debug, Default)]
pub(super) struct TlsPolicies<'a> {
    /// Those that win first.
    policies: Vec<TlsPolicy<'a>>,
    /// The index of the policy that counts, by what it targets.
    owners: BTreeMap<Target<'a>, usize>,
}

#[derive(Debug)]
pub(super) struct TlsPolicy<'a> {
    pub(super) name: &'a ObjectName,
    pub(super) object: &'a Object<BackendTlsPolicySpec>,
    pub(super) content: Content,
}

/// What a policy demands of its targets.
#[derive(Debug)]
pub(super) struct Content {
    /// The error is the condition `Accepted`.
    pub(super) tls: Result<BackendTls, Condition>,
    /// `ResolvedRefs`, if the references could be read.
    pub(super) resolved: Option<Condition>,
}

/// A backend, or one port of a Service by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target<'a> {
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
        let mut owners = BTreeMap::new();
        for (index, policy) in policies.iter().enumerate() {
            for target in policy.targets().flatten() {
                owners.entry(target).or_insert(index);
            }
        }
        Self { policies, owners }
    }

    /// TLS towards a port of a backend. The error says why the backend cannot be used.
    pub(super) fn of(&self, backend: &RuleBackend, port: &str) -> Result<Option<BackendTls>, String> {
        let Some(policy) = self.governing(backend, port) else {
            return Ok(None);
        };
        match &policy.content.tls {
            Ok(tls) => Ok(Some(tls.clone())),
            Err(condition) => Err(format!(
                "expected BackendTLSPolicy {} to be valid: {}",
                policy.name, condition.message
            )),
        }
    }

    /// The policy that counts for a port. One for the port itself wins over one for the whole backend.
    fn governing(&self, backend: &RuleBackend, port: &str) -> Option<&TlsPolicy<'a>> {
        if self.is_empty() {
            return None;
        }
        let target = |port| Target {
            backend: backend.clone(),
            port,
        };
        self.owner(&target(Some(port))).or_else(|| self.owner(&target(None)))
    }

    /// The policy that counts among those with this very target.
    pub(super) fn owner(&self, target: &Target<'_>) -> Option<&TlsPolicy<'a>> {
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
    /// Its targets, by their index in `targetRefs`. `None`: not a kind that rules lead to.
    pub(super) fn targets(&self) -> impl Iterator<Item = Option<Target<'a>>> + use<'a> {
        let namespace = &self.name.namespace;
        let object = self.object;
        let refs = object.spec.target_refs.iter();
        refs.map(move |target| read_target(namespace, target))
    }
}

fn read_target<'a>(namespace: &str, target: &'a TlsPolicyTarget) -> Option<Target<'a>> {
    let name = ObjectName::new(namespace, &target.name);
    let backend = match Kind::find(&target.group, &target.kind) {
        Some(Kind::Service) => RuleBackend::Service(name),
        Some(Kind::XBackend) => RuleBackend::XBackend(name),
        _ => return None,
    };
    Some(Target {
        backend,
        port: target.section_name.as_deref().filter(|section| !section.is_empty()),
    })
}
