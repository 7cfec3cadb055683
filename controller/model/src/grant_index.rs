//! What `ReferenceGrant`s permit, by the namespace that they are in. One of many references looks at few grants.

use std::collections::{HashMap, HashSet};

use super::maps::Map;
use limpet_api::{Kind, Object, ObjectName, ReferenceGrantSpec, Text};

type ReferenceGrants = Map<ObjectName, Object<ReferenceGrantSpec>>;

/// What the grants of each namespace permit.
#[derive(Debug, Clone, Default)]
pub(crate) struct GrantIndex(HashMap<Text, Granted>);

/// Which references into a namespace are permitted: by the kind and the namespace of the referrer, the group, the kind
/// and the name of what it may refer to; without a name, all of the kind.
type Granted = HashMap<(Kind, String), HashSet<(String, String, Option<String>)>>;

impl GrantIndex {
    pub(crate) fn of(grants: &ReferenceGrants) -> Self {
        let mut index = Self::default();
        for (name, grant) in grants {
            index.add(&name.namespace, grant);
        }
        index
    }

    fn add(&mut self, namespace: &Text, grant: &Object<ReferenceGrantSpec>) {
        #[cfg(test)]
        crate::looked::at_one();
        let granted = self.0.entry(namespace.clone()).or_default();
        let to = grant.spec.to.iter();
        let to = to.map(|to| (to.group.clone(), to.kind.clone(), to.name.clone()));
        for from in &grant.spec.from {
            if let Some(kind) = Kind::find(&from.group, &from.kind) {
                let of = granted.entry((kind, from.namespace.clone())).or_default();
                of.extend(to.clone());
            }
        }
    }

    /// Takes in the grants of a namespace, which have changed.
    pub(crate) fn catch_up(&mut self, namespace: &Text, grants: &ReferenceGrants) {
        self.0.remove(namespace);
        let first = ObjectName::new(namespace, "");
        let here = grants.range(first..);
        for (_, grant) in here.take_while(|(name, _)| name.namespace == *namespace) {
            self.add(namespace, grant);
        }
    }

    /// Whether a referrer (kind, namespace) may refer to an object of this group and kind.
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
