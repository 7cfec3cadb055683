//! Whether references to objects are permitted: in another namespace, by a ReferenceGrant there.

use std::sync::OnceLock;

use super::grant_index::GrantIndex;
use super::objects::{Objects, RouteReferences};
use limpet_api::{BackendRef, Kind, ObjectName};

/// The object that has a reference.
#[derive(Debug, Clone, Copy)]
pub struct Referrer<'a> {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: &'a str,
}

/// The references that grants permit.
#[derive(Debug)]
pub struct GrantedReferences<'a> {
    objects: &'a Objects,
    /// Collected for the first reference to another namespace, unless the objects have it.
    grants: OnceLock<GrantIndex>,
}

impl<'a> GrantedReferences<'a> {
    /// Takes the grants among these objects.
    #[must_use]
    pub fn new(objects: &'a Objects) -> Self {
        let grants = OnceLock::new();
        Self { objects, grants }
    }

    /// Whether `from` may refer to an object, in the same namespace or by a ReferenceGrant.
    #[must_use]
    pub fn permitted(&self, from: Referrer<'_>, group: &str, kind: &str, to: &ObjectName) -> bool {
        if from.namespace == to.namespace {
            return true;
        }
        let grants = match &self.objects.grants {
            Some(known) => known,
            None => self
                .grants
                .get_or_init(|| GrantIndex::new(&self.objects.reference_grants)),
        };
        grants.permits((from.kind, from.namespace), (group, kind), to)
    }

    /// The object of a route's reference, existing or not, if the route may refer to it.
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

    /// The Services among its backends that it may refer to, existing or not.
    pub(super) fn services(&self, granted: &GrantedReferences<'_>) -> impl Iterator<Item = ObjectName> {
        let services = self.backends.iter();
        let services = services.filter(|backend| Kind::find(&backend.group, &backend.kind) == Some(Kind::Service));
        services.filter_map(|backend| granted.permitted_backend(self.referrer(), backend))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;
    use crate::{Incremental, Settings, looked};

    #[test]
    fn one_grant_that_changed_had_all_grants_looked_at() {
        const MANY: usize = 200;
        let mut objects = Objects::default();
        let put = |objects: &mut Objects, index: usize, to: &str| {
            let (namespace, from) = (index.to_string(), "gateway.networking.k8s.io");
            let grant = json!({
                "metadata": {"namespace": namespace, "name": "a"},
                "spec": {
                    "from": [{"group": from, "kind": "Gateway", "namespace": "web"}],
                    "to": [{"group": "", "kind": "Secret", "name": to}],
                },
            });
            let grant = limpet_api::readable(&grant);
            let name = ObjectName::new(&namespace, "a");
            objects.reference_grants.insert(name, grant.into());
        };
        (0..MANY).for_each(|index| put(&mut objects, index, "a"));
        let changed = BTreeSet::from(["7".into()]);
        objects.catch_up_grants(&changed);
        let mut incremental = Incremental::default();
        let _ = incremental.build(&objects, &Settings::default());
        let gateway = Referrer {
            kind: Kind::Gateway,
            namespace: "web",
        };
        let permits = |objects: &Objects, namespace: &str, name: &str| {
            GrantedReferences::new(objects).permitted(gateway, "", "Secret", &ObjectName::new(namespace, name))
        };
        assert!(permits(&objects, "7", "a") && permits(&objects, "8", "a") && !permits(&objects, "7", "b"));
        let before = objects.clone();
        put(&mut objects, 7, "b");
        looked::take();
        objects.catch_up_grants(&changed);
        assert_eq!(looked::take(), 1);
        assert!(permits(&objects, "7", "b") && permits(&objects, "8", "a") && !permits(&objects, "7", "a"));
        assert!(permits(&before, "7", "a"), "a build has the objects as they were");
        let _ = incremental.build(&objects, &Settings::default());
        assert!(looked::take() < 20);
    }
}
