//! Whether references to objects are permitted: in another namespace, by a ReferenceGrant there.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::objects::{Objects, RouteReferences};
use limpet_api::{BackendRef, Kind, ObjectName};

/// The object that has a reference.
#[derive(Debug, Clone, Copy)]
pub struct Referrer<'a> {
    /// The kind of the referring object.
    pub kind: Kind,
    /// The namespace of the referring object.
    pub namespace: &'a str,
}

/// The namespace of a grant, and the kind and the namespace that may refer to objects there.
type Grantee<'a> = (&'a str, Kind, &'a str);

/// The group, the kind and the name of an object that may be referred to; without a name, all of the kind.
type Granted<'a> = (&'a str, &'a str, Option<&'a str>);

type Grants<'a> = HashMap<Grantee<'a>, HashSet<Granted<'a>>>;

/// Which references the grants among these objects permit.
#[derive(Debug)]
pub struct GrantedReferences<'a> {
    objects: &'a Objects,
    /// What may be referred to, by whom: one of many references looks at few of many grants. It is collected for the
    /// first reference to another namespace.
    grants: OnceLock<Grants<'a>>,
}

impl<'a> GrantedReferences<'a> {
    /// Those that the grants among these objects permit.
    #[must_use]
    pub fn new(objects: &'a Objects) -> Self {
        let grants = OnceLock::new();
        Self { objects, grants }
    }

    /// Whether `from` may refer to an object: it is in the same namespace, or a ReferenceGrant in its namespace permits
    /// it.
    #[must_use]
    pub fn permitted(&self, from: Referrer<'_>, group: &str, kind: &str, to: &ObjectName) -> bool {
        if from.namespace == to.namespace {
            return true;
        }
        let grants = self.grants.get_or_init(|| grants(self.objects));
        let granted = grants.get(&(to.namespace.as_str(), from.kind, from.namespace));
        granted.is_some_and(|granted| {
            [None, Some(to.name.as_str())].into_iter().any(|name| {
                #[cfg(test)]
                crate::looked::at_one();
                granted.contains(&(group, kind, name))
            })
        })
    }

    /// What a route's reference names, whether it exists or not, if the route may refer to it.
    pub(super) fn permitted_backend(&self, from: Referrer<'_>, reference: &BackendRef) -> Option<ObjectName> {
        let namespace = reference.namespace.as_deref().unwrap_or(from.namespace);
        let name = ObjectName::new(namespace, &reference.name);
        self.permitted(from, &reference.group, &reference.kind, &name)
            .then_some(name)
    }
}

impl<'a> RouteReferences<'a> {
    pub(super) fn referrer(&self) -> Referrer<'a> {
        Referrer {
            kind: self.kind,
            namespace: &self.meta.namespace,
        }
    }

    /// The Services among its backends that it may refer to, whether they exist or not.
    pub(super) fn services(&self, granted: &GrantedReferences<'_>) -> impl Iterator<Item = ObjectName> {
        let services = self.backends.iter();
        let services = services.filter(|backend| Kind::find(&backend.group, &backend.kind) == Some(Kind::Service));
        services.filter_map(|backend| granted.permitted_backend(self.referrer(), backend))
    }
}

fn grants(objects: &Objects) -> Grants<'_> {
    let mut grants = Grants::new();
    for (name, grant) in &objects.reference_grants {
        let to = grant.spec.to.iter();
        let to = to.map(|to| (to.group.as_str(), to.kind.as_str(), to.name.as_deref()));
        for from in &grant.spec.from {
            if let Some(kind) = Kind::find(&from.group, &from.kind) {
                let grantee = (name.namespace.as_str(), kind, from.namespace.as_str());
                grants.entry(grantee).or_default().extend(to.clone());
            }
        }
    }
    grants
}
