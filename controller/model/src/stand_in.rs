//! Objects whose sessions cannot be followed any more keep those that they had, because a typo in an annotation would
//! otherwise end all sessions at once. An object that asks for no sessions any more has none.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::remembered_sessions::{PREFIX, RememberedSession, RememberedSessions, SessionSettings};
use crate::{Map, Objects, SessionPolicyKind, SessionPolicyName, StandIn};
use limpet_api::{Kind, Meta, Object, ObjectName, ObjectRef, Text};

/// Whether the sessions that an object asks for can be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionVerdict {
    /// They can, or it asks for none.
    Valid(Box<SessionSettings>),
    Wrong(InvalidSessions),
    /// It is a policy without any target that exists. What is remembered stays.
    WithoutTargets,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct InvalidSessions {
    pub(crate) problems: String,
    /// Rules of a route that therefore have no sessions: their paths, like `spec.rules[2]`, and names.
    pub(crate) rules: BTreeMap<String, Text>,
}

pub(crate) type SessionVerdicts = BTreeMap<ObjectRef, SessionVerdict>;

/// `has_sessions`: whether a route has any, of its own or by others.
pub(crate) fn remembered(
    objects: &Objects,
    judged: &SessionVerdicts,
    has_sessions: impl Fn(&ObjectRef) -> bool,
) -> RememberedSessions {
    let one = |(object, meta): (ObjectRef, &Meta)| {
        let remembered = objects.memory.sessions.of(&object, meta);
        let known = || remembered.cloned();
        match judged.get(&object) {
            Some(SessionVerdict::Valid(_)) if objects.stand_ins.contains_key(&object) => Some(RememberedSession {
                counts: true,
                ..known()?
            }),
            Some(SessionVerdict::Valid(settings)) => {
                let counts = !meta.pruned.is_empty();
                // A mistake in the first thing that these say would end sessions of others.
                let has_others = match object.kind {
                    Kind::XBackend | Kind::IngressRoute => true,
                    _ => has_sessions(&object) || remembered.is_some_and(|known| known.settings.is_empty()),
                };
                let session = || RememberedSession {
                    former: remembered.map(|known| known.former(settings)).unwrap_or_default(),
                    ..RememberedSession::new(&object, meta, SessionSettings::clone(settings), counts)
                };
                (has_others || !settings.is_empty()).then(session)
            }
            Some(SessionVerdict::Wrong(_) | SessionVerdict::WithoutTargets) | None => known(),
        }
    };
    with_sessions(objects).filter_map(one).collect()
}

pub(crate) fn invalid_sessions(judged: SessionVerdicts) -> BTreeMap<ObjectRef, InvalidSessions> {
    let wrong = judged.into_iter().filter_map(|(object, judged)| match judged {
        SessionVerdict::Valid(_) | SessionVerdict::WithoutTargets => None,
        SessionVerdict::Wrong(wrong) => Some((object, wrong)),
    });
    wrong.collect()
}

fn with_sessions(objects: &Objects) -> impl Iterator<Item = (ObjectRef, &Meta)> {
    fn of<S>(kind: Kind, all: &Map<ObjectName, Object<S>>) -> impl Iterator<Item = (ObjectRef, &Meta)> {
        all.iter().map(move |(name, object)| {
            let name = name.clone();
            (ObjectRef { kind, name }, &object.meta)
        })
    }
    let policies = objects.session_policies.iter();
    let policies = policies.map(|(name, policy)| (name.object_ref(), &policy.meta));
    of(Kind::HttpRoute, &objects.http_routes)
        .chain(of(Kind::GrpcRoute, &objects.grpc_routes))
        .chain(of(Kind::XBackend, &objects.backends))
        .chain(of(Kind::Service, &objects.services))
        .chain(of(Kind::IngressRoute, &objects.ingress_routes))
        .chain(policies)
}

impl Objects {
    /// Puts in these objects' former sessions. `None`: they said nothing else.
    pub(crate) fn with_stand_ins(&self, all_wrong: &BTreeMap<ObjectRef, InvalidSessions>) -> Option<Self> {
        let mut objects = self.clone();
        for (object, wrong) in all_wrong {
            let known = self.memory.sessions.get(&object.key());
            let known = known.filter(|known| objects.substitute(object, &known.uid, &known.settings, wrong));
            if let Some(known) = known {
                let stand_in = StandIn {
                    generation: known.generation,
                    problems: wrong.problems.clone(),
                };
                objects.stand_ins.insert(object.clone(), stand_in);
            }
        }
        (!objects.stand_ins.is_empty()).then_some(objects)
    }

    /// Puts in this object's former sessions. `None`: it said nothing else.
    pub(crate) fn with_former(&self, object: &ObjectRef) -> Option<Self> {
        let known = self.memory.sessions.get(&object.key())?;
        let mut objects = self.clone();
        let is_other = objects.substitute(object, &known.uid, &known.settings, &InvalidSessions::default());
        is_other.then_some(objects)
    }

    /// Puts settings in place of an object's own. Returns whether they differ.
    fn substitute(&mut self, object: &ObjectRef, uid: &str, known: &SessionSettings, wrong: &InvalidSessions) -> bool {
        let name = &object.name;
        let policy = |kind| SessionPolicyName {
            kind,
            name: name.clone(),
        };
        let put_in_policy = |objects: &mut Self, kind| {
            change(&mut objects.session_policies, &policy(kind), uid, known, |policy| {
                policy.malformed = None;
                policy.spec.target_refs.clone_from(&known.target_refs);
                policy.spec.session_persistence.clone_from(&known.session_persistence);
            })
        };
        // A rule that asks for no session any more has none.
        macro_rules! put_in_route {
            ($routes:expr) => {
                change($routes, name, uid, known, |route| {
                    for (index, rule) in route.spec.rules.iter_mut().enumerate() {
                        let former = wrong.rules.get(&format!("spec.rules[{index}]"));
                        if let (Some(former), Some(_)) = (former, &rule.session_persistence) {
                            rule.session_persistence = known.rules.get(former).cloned();
                        }
                    }
                })
            };
        }
        match object.kind {
            Kind::BackendLbPolicy => put_in_policy(self, SessionPolicyKind::BackendLbPolicy),
            Kind::XBackendTrafficPolicy => put_in_policy(self, SessionPolicyKind::XBackendTrafficPolicy),
            Kind::HttpRoute => put_in_route!(&mut self.http_routes),
            Kind::GrpcRoute => put_in_route!(&mut self.grpc_routes),
            Kind::XBackend => change(&mut self.backends, name, uid, known, |backend| {
                backend.spec.session_persistence.clone_from(&known.session_persistence);
            }),
            Kind::Service => change(&mut self.services, name, uid, known, |_| ()),
            Kind::IngressRoute => change(&mut self.ingress_routes, name, uid, known, |_| ()),
            _ => false,
        }
    }
}

/// Changes an object and its annotations. Returns whether it differs.
fn change<K: Ord + Clone, S: Clone + PartialEq>(
    objects: &mut Map<K, Object<S>>,
    name: &K,
    uid: &str,
    known: &SessionSettings,
    change: impl FnOnce(&mut Object<S>),
) -> bool {
    let is_same = |object: &&Arc<Object<S>>| object.meta.uid.is_empty() || object.meta.uid == uid;
    let current = objects.get(name).filter(is_same);
    let Some(current) = current else { return false };
    let mut object = Object::clone(current);
    let annotations = &mut object.meta.annotations;
    annotations.retain(|key, _| !key.starts_with(PREFIX));
    let former = known.annotations.iter();
    annotations.extend(former.map(|(key, value)| (format!("{PREFIX}{key}"), value.clone())));
    change(&mut object);
    let is_other = object != **current;
    if is_other {
        objects.insert(name.clone(), Arc::new(object));
    }
    is_other
}
