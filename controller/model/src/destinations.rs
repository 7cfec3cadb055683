//! What tokens and reports name clusters by: four bytes of a hash of their names. Whoever may name Services finds one
//! whose hash is that of another's in two minutes, and then Envoys take the sessions of the one for those of the other.
//! So only the older one is served.

use std::collections::{BTreeSet, HashMap};

use imbl::OrdMap;
use limpet_api::{ObjectName, ObjectRef, Text};
use limpet_core::token::Destination;

use crate::Objects;
use crate::graph::ClusterName;
use crate::objects::Confused;

/// Who has which hash.
#[derive(Debug, Default)]
pub struct Destinations(HashMap<Destination, Vec<Claim>>);

/// The cluster of a port, or of an XBackend. The oldest object comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    created: String,
    base: Text,
    object: ObjectRef,
}

/// The clusters of one object.
#[derive(Debug, PartialEq, Eq)]
pub struct Claims {
    created: String,
    bases: BTreeSet<Text>,
}

impl Claims {
    /// Those of a Service; none if it does not exist.
    #[must_use]
    pub fn of_service(objects: &Objects, name: &ObjectName) -> Option<Self> {
        let service = objects.services.get(name)?;
        let ports = service.spec.ports.iter();
        Some(Self {
            created: service.meta.creation_timestamp.clone(),
            bases: ports.map(|port| ClusterName::of_service(name, port.port)).collect(),
        })
    }

    /// Those of an XBackend; none if it does not exist.
    #[must_use]
    pub fn of_x_backend(objects: &Objects, name: &ObjectName) -> Option<Self> {
        let backend = objects.backends.get(name)?;
        Some(Self {
            created: backend.meta.creation_timestamp.clone(),
            bases: BTreeSet::from([ClusterName::of_x_backend(name)]),
        })
    }
}

impl Destinations {
    /// An object had these clusters, and has those now. Changes which ones are confused with an older one.
    pub fn replace(
        &mut self,
        object: &ObjectRef,
        before: Option<&Claims>,
        now: Option<&Claims>,
        confused: &mut OrdMap<Text, Confused>,
    ) {
        let mut touched = BTreeSet::new();
        for base in before.iter().flat_map(|claims| &claims.bases) {
            let destination = Destination::of_cluster(base.as_bytes());
            if let Some(claims) = self.0.get_mut(&destination) {
                claims.retain(|claim| claim.base != *base);
            }
            confused.remove(base);
            touched.insert(destination.0);
        }
        for (created, base) in now
            .iter()
            .flat_map(|now| now.bases.iter().map(|base| (&now.created, base)))
        {
            let destination = Destination::of_cluster(base.as_bytes());
            self.0.entry(destination).or_default().push(Claim {
                created: created.clone(),
                base: base.clone(),
                object: object.clone(),
            });
            touched.insert(destination.0);
        }
        for destination in touched.into_iter().map(Destination) {
            let Some(claims) = self.0.get_mut(&destination) else {
                continue;
            };
            claims.sort_unstable();
            let Some((first, others)) = claims.split_first() else {
                self.0.remove(&destination);
                continue;
            };
            confused.remove(&first.base);
            for other in others {
                let with = first.base.clone();
                let object = other.object.clone();
                confused.insert(other.base.clone(), Confused { object, with });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use limpet_api::Kind;

    use super::*;

    /// Two names of one hash.
    fn twins() -> [Text; 2] {
        let twins: [Text; 2] = ["service/shop/s54211/80".into(), "service/shop/s144659/80".into()];
        let [one, other] = twins.each_ref().map(|base| Destination::of_cluster(base.as_bytes()));
        assert_eq!(one, other);
        twins
    }

    fn object(name: &str) -> ObjectRef {
        ObjectRef {
            kind: Kind::Service,
            name: ObjectName::new("shop", name),
        }
    }

    fn claims(created: &str, base: &Text) -> Claims {
        Claims {
            created: created.to_owned(),
            bases: BTreeSet::from([base.clone()]),
        }
    }

    #[test]
    fn of_two_clusters_with_one_hash_the_older_one_counts() {
        let [a, b] = twins();
        let (mut all, mut confused) = (Destinations::default(), OrdMap::new());
        let (of_a, of_b) = (claims("2026-02", &a), claims("2026-01", &b));
        all.replace(&object("a"), None, Some(&of_a), &mut confused);
        assert!(confused.is_empty());
        all.replace(&object("b"), None, Some(&of_b), &mut confused);
        let expected = Confused {
            object: object("a"),
            with: b.clone(),
        };
        assert_eq!(confused, OrdMap::from(vec![(a.clone(), expected)]));
        // The older one goes, and comes again as the younger one.
        all.replace(&object("b"), Some(&of_b), None, &mut confused);
        assert!(confused.is_empty());
        let later = claims("2026-03", &b);
        all.replace(&object("b"), None, Some(&later), &mut confused);
        assert!(confused.keys().eq([&b]));
        all.replace(&object("a"), Some(&of_a), None, &mut confused);
        all.replace(&object("b"), Some(&later), None, &mut confused);
        assert!(confused.is_empty() && all.0.is_empty());
    }
}
