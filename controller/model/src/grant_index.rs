//! What `ReferenceGrant`s permit, by their namespace, so that one of many references looks at few grants.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::maps::Map;
use limpet_api::{Kind, Object, ObjectName, ReferenceGrantSpec, Text};

type ReferenceGrants = Map<ObjectName, Object<ReferenceGrantSpec>>;

/// What the grants of each namespace permit. A copy costs nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct GrantIndex(Map<Text, GrantedTargets>);

/// Group, kind and name of the target by kind and namespace of the referrer; without a name, all of the kind. All
/// referrers of a grant share one text.
type GrantedTargets = HashMap<(Kind, String), HashSet<Arc<GrantTarget>>>;
type GrantTarget = (String, String, Option<String>);

impl GrantIndex {
    pub(crate) fn new(grants: &ReferenceGrants) -> Self {
        let mut index = Self::default();
        let namespaces: BTreeSet<&Text> = grants.keys().map(|name| &name.namespace).collect();
        for namespace in namespaces {
            index.catch_up(namespace, grants);
        }
        index
    }

    pub(crate) fn catch_up(&mut self, namespace: &Text, grants: &ReferenceGrants) {
        let first = ObjectName::new(namespace, "");
        let here = grants.range(first..);
        let mut granted = GrantedTargets::new();
        for (_, grant) in here.take_while(|(name, _)| name.namespace == *namespace) {
            add(&mut granted, &grant.spec);
        }
        if granted.is_empty() {
            self.0.remove(namespace);
        } else {
            self.0.insert(namespace.clone(), Arc::new(granted));
        }
    }

    /// `from`: kind and namespace.
    pub(crate) fn permits(&self, from: (Kind, &str), (group, kind): (&str, &str), to: &ObjectName) -> bool {
        let granted = self.0.get(&to.namespace);
        let granted = granted.and_then(|granted| granted.get(&(from.0, from.1.to_owned())));
        granted.is_some_and(|granted| {
            [None, Some(to.name.to_string())].into_iter().any(|name| {
                #[cfg(test)]
                crate::looked::at_one();
                granted.contains(&(group.to_owned(), kind.to_owned(), name))
            })
        })
    }
}

fn add(granted: &mut GrantedTargets, grant: &ReferenceGrantSpec) {
    #[cfg(test)]
    crate::looked::at_one();
    let to = grant.to.iter();
    let to = to.map(|to| Arc::new((to.group.clone(), to.kind.clone(), to.name.clone())));
    let to: Vec<Arc<GrantTarget>> = to.collect();
    for from in &grant.from {
        if let Some(kind) = Kind::find(&from.group, &from.kind) {
            let of = granted.entry((kind, from.namespace.clone())).or_default();
            of.extend(to.iter().cloned());
        }
    }
}
