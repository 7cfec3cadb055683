//! What is remembered of objects: the names of rules without a name, sessions that could be followed last, and classes
//! that are gone. See `design/memory.md`.
//!
//! The same memory and objects give the same result, also with the memory that results. So replicas agree, and a
//! restart changes nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use limpet_api::{Kind, ObjectRef, Text};
use serde::{Deserialize, Serialize};

use crate::fair_share;
use crate::remembered_class::RememberedClass;
use crate::remembered_sessions::{RememberedSession, RememberedSessions};
use crate::rule_names::{RouteNames, RuleNames};

/// The most bytes of all texts, without their frames: an object in a cluster has room for 1 MiB.
pub(crate) const MOST_BYTES: usize = 800_000;

/// A memory is written in parts, because a change writes its whole part again.
const PARTS: u8 = 16;

const REMEMBERED: [Kind; 7] = [
    Kind::HttpRoute,
    Kind::GrpcRoute,
    Kind::BackendLbPolicy,
    Kind::XBackendTrafficPolicy,
    Kind::XBackend,
    Kind::Service,
    Kind::IngressRoute,
];

/// What is remembered of objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    pub(crate) rule_names: RuleNames,
    pub(crate) sessions: RememberedSessions,
    pub(crate) classes: BTreeMap<String, RememberedClass>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SerializedMemory {
    routes: Vec<RouteNames>,
    sessions: Vec<RememberedSession>,
    classes: Vec<RememberedClass>,
}

impl Memory {
    /// Reads the JSON that [`Memory::text`] writes of one part. Unknown fields are ignored: during an update, the
    /// leader may be of a newer release.
    ///
    /// # Errors
    /// If it is invalid: the place of the first mistake in the text, the route with a wrong name, or what belongs to
    /// another part.
    pub fn parse(part: u8, text: &str) -> Result<Self, String> {
        let written: SerializedMemory = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let routes = written.routes.iter().map(RouteNames::route);
        let sessions = written.sessions.iter().map(|session| &*session.object);
        let classes = written.classes.iter().map(RememberedClass::name);
        if let Some(key) = routes.chain(sessions).chain(classes).find(|key| part_of(key) != part) {
            return Err(format!("{key}: expected it in part {:x}", part_of(key)));
        }
        Ok(Self {
            rule_names: RuleNames::read(written.routes)?,
            sessions: written.sessions.into_iter().collect(),
            classes: by_name(written.classes),
        })
    }

    /// One part as sorted JSON, one object per line; `None` if it is empty.
    #[must_use]
    pub fn text(&self, part: u8) -> Option<String> {
        let routes = self.rule_names.routes();
        let routes: Vec<_> = routes
            .filter(|route| part_of(route.route()) == part)
            .map(line)
            .collect();
        let sessions = self.sessions.iter();
        let sessions = sessions.filter(|session| part_of(&session.object) == part);
        let sessions: Vec<_> = sessions.map(line).collect();
        let classes = self.classes.values();
        let classes: Vec<_> = classes
            .filter(|class| part_of(class.name()) == part)
            .map(line)
            .collect();
        let lists = [("routes", routes), ("sessions", sessions), ("classes", classes)];
        let has_any = lists.iter().any(|(_, lines)| !lines.is_empty());
        let lists = lists.map(|(name, lines)| format!("\"{name}\":[\n{}\n]", lines.join(",\n")));
        has_any.then(|| format!("{{{}}}", lists.join(",")))
    }

    /// All parts, also empty ones.
    pub fn parts() -> impl Iterator<Item = u8> {
        0..PARTS
    }

    /// The parts that differ from `former`.
    #[must_use]
    pub fn changed_parts(&self, former: &Self) -> BTreeSet<u8> {
        let routes = self.rule_names.changed(&former.rule_names);
        let policies = self.sessions.changed(&former.sessions);
        let names = self.classes.keys().chain(former.classes.keys());
        let classes = names.filter(|name| self.classes.get(*name) != former.classes.get(*name));
        routes.chain(policies).chain(classes).map(|key| part_of(key)).collect()
    }

    /// The number of objects that are remembered.
    #[must_use]
    pub fn count(&self) -> usize {
        self.rule_names.routes().count() + self.sessions.iter().count() + self.classes.len()
    }

    /// Objects that `other` remembers in another way, but not as `built` does: what a build remembers leads to the same
    /// as what it was built with.
    pub(crate) fn changed(&self, other: &Self, built: &Self) -> BTreeSet<ObjectRef> {
        let routes = self.rule_names.changed(&other.rule_names);
        let routes = routes.filter(|route| other.rule_names.route(route) != built.rule_names.route(route));
        let sessions = self.sessions.changed(&other.sessions);
        let sessions = sessions.filter(|object| other.sessions.get(object) != built.sessions.get(object));
        routes
            .chain(sessions)
            .filter_map(|key| ObjectRef::from_key(key, &REMEMBERED))
            .collect()
    }

    pub(crate) fn forget(&mut self, object: &ObjectRef) {
        self.forget_key(&object.key());
    }

    fn forget_key(&mut self, key: &str) {
        self.rule_names.forget(key);
        self.sessions.forget(key);
    }

    /// The rank by which an object is forgotten ([`of_route`], [`of_session`]), and its size.
    pub(crate) fn entry(&self, object: &ObjectRef) -> Option<(u8, usize)> {
        let key = object.key();
        let route = self.rule_names.route(&key).map(of_route);
        let session = self.sessions.get(&key).map(of_session);
        let entries = route.into_iter().chain(session);
        entries.reduce(|(rank, bytes), (other, more)| (rank.max(other), bytes + more))
    }

    pub(crate) fn copy(&mut self, other: &Self, object: &ObjectRef) {
        let key = object.key();
        self.rule_names.copy(&other.rule_names, &key);
        self.sessions.copy(&other.sessions, &key);
    }

    pub(crate) fn objects(&self) -> BTreeSet<ObjectRef> {
        let none = Self::default();
        none.changed(self, &none)
    }

    pub(crate) fn only(&self, kind: Kind) -> Self {
        let mut only = Self::default();
        for object in self.objects().iter().filter(|object| object.kind == kind) {
            only.copy(self, object);
        }
        only
    }

    /// Adds what is remembered of other objects.
    pub fn add(&mut self, other: Self) {
        self.rule_names.add(other.rule_names);
        self.sessions.add(other.sessions);
        self.classes.extend(other.classes);
    }

    pub(crate) fn bytes(&self) -> usize {
        let routes = self.rule_names.routes().map(size);
        routes.chain(self.sessions.iter().map(size)).sum()
    }

    /// Forgets what has no room, and returns whether that is anything. Each namespace has a fair share of `most_bytes`.
    /// Beyond it, the objects with the lowest [`rank`](Self::entry) go first, and of these the last by name. Ranks 1
    /// and 2 move no session now: the objects themselves still say the same.
    pub(crate) fn fit(&mut self, most_bytes: usize) -> bool {
        let mut all: Vec<(u8, ObjectRef, usize)> = Vec::new();
        let mut sizes: BTreeMap<Text, usize> = BTreeMap::new();
        for object in self.objects() {
            if let Some((rank, bytes)) = self.entry(&object) {
                *sizes.entry(object.name.namespace.clone()).or_default() += bytes;
                all.push((rank, object, bytes));
            }
        }
        let share = fair_share(sizes.values().copied(), most_bytes);
        all.sort_by_cached_key(|(rank, object, _)| (*rank, Reverse(object.key())));
        let mut forgot = false;
        for (_, object, bytes) in all {
            if let Some(size) = sizes.get_mut(&object.name.namespace).filter(|size| **size > share) {
                *size -= bytes;
                self.forget(&object);
                forgot = true;
            }
        }
        forgot
    }
}

fn by_name(classes: Vec<RememberedClass>) -> BTreeMap<String, RememberedClass> {
    let named = classes.into_iter().map(|class| (class.name().to_owned(), class));
    named.collect()
}

/// Rank and size of a route's names: 1 if all come from matches, 3 if some are former ones.
fn of_route(route: &RouteNames) -> (u8, usize) {
    (if route.has_former_names() { 3 } else { 1 }, size(route))
}

/// Rank and size of sessions: 1 if there are none, 2 if the object still says them, 4 if any counts that it does not
/// say.
fn of_session(session: &RememberedSession) -> (u8, usize) {
    let rank = match session {
        session if session.counts || !session.former.is_empty() => 4,
        session if session.settings.is_empty() => 1,
        _ => 2,
    };
    (rank, size(session))
}

fn size(entry: &impl Serialize) -> usize {
    line(entry).len() + 2
}

/// The part of a route or a policy, by its key. All releases must agree about it.
fn part_of(key: &str) -> u8 {
    // FNV-1a.
    let hash = key.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    let [.., last] = (hash ^ (hash >> 16)).to_be_bytes();
    last % PARTS
}

fn line(entry: &impl Serialize) -> String {
    // Its fields are texts.
    serde_json::to_string(entry).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use limpet_api::{GatewayClassSpec, Meta, ObjectName, ParametersRef, SessionPersistence};

    use super::*;
    use crate::remembered_sessions::SessionSettings;
    use crate::rule_names::{RememberedName, RuleIdentity, assign};
    use crate::short_hash::short_hash;

    fn remembered(former: &[RememberedName], matches: &str) -> Vec<RememberedName> {
        let rule = RuleIdentity {
            own_name: None,
            matches: short_hash(matches.as_bytes()),
        };
        assign(former, &[rule]).1
    }

    fn policy(name: &str, uid: &str, counts: bool) -> RememberedSession {
        let (namespace, name) = name.split_once('/').unwrap();
        let object = ObjectRef {
            kind: Kind::XBackendTrafficPolicy,
            name: ObjectName::new(namespace, name),
        };
        let meta = Meta {
            uid: uid.to_owned(),
            generation: 2,
            ..Meta::default()
        };
        let settings = SessionSettings {
            annotations: BTreeMap::from([("strict".into(), "true".to_owned())]),
            session_persistence: Some(SessionPersistence {
                session_name: Some("session".to_owned()),
                ..SessionPersistence::default()
            }),
            ..SessionSettings::default()
        };
        RememberedSession::new(&object, &meta, settings, counts)
    }

    fn read_again(memory: &Memory) -> Memory {
        let mut read = Memory::default();
        for part in Memory::parts() {
            let text = memory.text(part);
            read.add(text.map_or_else(Memory::default, |text| Memory::parse(part, &text).unwrap()));
        }
        read
    }

    fn size_of_all(memory: &Memory) -> usize {
        Memory::parts()
            .filter_map(|part| memory.text(part))
            .map(|text| text.len())
            .sum()
    }

    #[test]
    fn an_object_moves_to_no_other_part() {
        // A newer release reads what this one has written.
        let parts = [
            "httproute/shop/web",
            "grpcroute/shop/web",
            "backendlbpolicy/shop/web",
            "",
        ]
        .map(part_of);
        assert_eq!(parts, [0, 4, 5, 9]);
        let mut counts = [0_u32; PARTS as usize];
        for number in 0..1600 {
            counts[usize::from(part_of(&format!("httproute/shop/route-{number:05}")))] += 1;
        }
        assert!(counts.iter().all(|count| (50..200).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_class_is_read_as_it_was_written() {
        let parameters = ParametersRef {
            group: "limpet.dev".to_owned(),
            kind: "EnvoyDeployment".to_owned(),
            name: "all".to_owned(),
            namespace: Some("limpet-system".to_owned()),
        };
        for parameters_ref in [None, Some(parameters)] {
            let spec = GatewayClassSpec {
                controller_name: "limpet.dev/controller".to_owned(),
                parameters_ref,
            };
            let mut memory = Memory::default();
            let class = RememberedClass::new("limpet", &spec);
            assert_eq!(class.object().spec, spec);
            memory.classes.insert("limpet".to_owned(), class);
            assert_eq!(read_again(&memory), memory);
            let part = BTreeSet::from([part_of("limpet")]);
            assert_eq!(memory.changed_parts(&Memory::default()), part);
            assert_eq!(Memory::default().changed_parts(&memory), part);
        }
    }

    #[test]
    fn a_change_is_in_its_part_alone() {
        let mut memory = Memory::default();
        for number in 0..100 {
            let rules = remembered(&[], "a");
            memory.rule_names.set(format!("httproute/shop/{number}"), "1", rules);
        }
        let mut other = memory.clone();
        let rules = remembered(&remembered(&[], "a"), "b");
        other.rule_names.set("httproute/shop/7".to_owned(), "1", rules);
        let changed = BTreeSet::from([part_of("httproute/shop/7")]);
        assert_eq!(other.changed_parts(&memory), changed);
        let texts = Memory::parts().filter(|part| memory.text(*part) != other.text(*part));
        assert_eq!(texts.collect::<BTreeSet<_>>(), changed);
        assert_eq!(other.changed_parts(&other.clone()), BTreeSet::new());
        assert_eq!(read_again(&other), other);
    }

    #[test]
    fn what_is_in_a_wrong_part_is_named() {
        let text = r#"{"sessions": [{"object": "service/shop/web", "uid": ""}]}"#;
        let own = part_of("service/shop/web");
        assert!(Memory::parse(own, text).is_ok());
        let error = Memory::parse((own + 1) % PARTS, text).unwrap_err();
        assert_eq!(error, format!("service/shop/web: expected it in part {own:x}"));
    }

    #[test]
    fn what_a_build_remembers_is_no_change_when_it_comes_back() {
        let before = Memory::default();
        let mut built = Memory::default();
        let rules = remembered(&[], "a");
        built.rule_names.set("httproute/shop/web".to_owned(), "1", rules);
        built.sessions = [policy("shop/web", "3", false)].into_iter().collect();
        assert_eq!(before.changed(&built, &built), BTreeSet::new());
        let mut other = built.clone();
        let rules = remembered(&[], "b");
        other.rule_names.set("httproute/shop/web".to_owned(), "1", rules);
        let route = ObjectRef {
            kind: Kind::HttpRoute,
            name: ObjectName::new("shop", "web"),
        };
        assert_eq!(before.changed(&other, &built), BTreeSet::from([route.clone()]));
        assert!(built.changed(&before, &built).contains(&route));
    }

    #[test]
    fn what_is_remembered_is_read_again_for_the_same_route_alone() {
        let rules = remembered(&[], "a");
        let mut memory = Memory::default();
        assert_eq!(read_again(&memory), memory);
        memory
            .rule_names
            .set("httproute/shop/web".to_owned(), "1", rules.clone());
        memory
            .rule_names
            .set("grpcroute/shop/web".to_owned(), "2", rules.clone());
        memory.sessions = [policy("shop/web", "3", true)].into_iter().collect();
        let read = read_again(&memory);
        assert_eq!(read, memory);
        assert_eq!(read.count(), 3);
        let names = &read.rule_names;
        assert_eq!(names.of("httproute/shop/web", "1"), rules);
        assert_eq!(names.of("httproute/shop/web", ""), rules);
        assert_eq!(names.of("httproute/shop/web", "2"), []);
        assert_eq!(names.of("httproute/shop/other", "1"), []);
        for wrong in [
            "",
            r#"{"routes": [{"route": "r", "uid": "", "rules": [["0123abcd", "../shop"]]}]}"#,
            r#"{"routes": {}}"#,
            r#"{"sessions": [{"object": 1, "uid": ""}]}"#,
        ] {
            assert!(Memory::parse(part_of("r"), wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_newer_release_remembers_besides_is_ignored() {
        let route = r#"{
            "routes": [{"route": "r", "uid": "", "rules": [["0123abcd", "0123abcd"]], "since": 1}],
            "others": []
        }"#;
        assert_eq!(Memory::parse(part_of("r"), route).unwrap().count(), 1);
        let policy = r#"{"sessions": [{"object": "service/shop/web", "uid": "", "annotations": {}, "since": 1}]}"#;
        assert_eq!(Memory::parse(part_of("service/shop/web"), policy).unwrap().count(), 1);
    }

    #[test]
    fn routes_with_former_names_are_the_last_to_be_forgotten() {
        let own = remembered(&[], "a");
        let former = remembered(&own, "x");
        let mut memory = Memory::default();
        for number in 0..20_000 {
            memory
                .rule_names
                .set(format!("httproute/shop/{number:05}"), "1", own.clone());
        }
        memory
            .rule_names
            .set("httproute/shop/z".to_owned(), "1", former.clone());
        memory.fit(MOST_BYTES);
        assert!((5000..20_000).contains(&memory.count()), "{}", memory.count());
        assert!(size_of_all(&memory) <= MOST_BYTES + 1000);
        assert_eq!(memory.rule_names.of("httproute/shop/z", "1"), former);
        let before = memory.clone();
        memory.fit(MOST_BYTES);
        assert_eq!(memory, before);
    }

    #[test]
    fn sessions_that_objects_do_not_tell_are_the_last_to_be_forgotten() {
        let own = remembered(&[], "a");
        let former = remembered(&own, "x");
        let mut memory = Memory::default();
        memory.rule_names.set("httproute/shop/own".to_owned(), "1", own.clone());
        memory
            .rule_names
            .set("httproute/shop/web".to_owned(), "1", former.clone());
        let session = |number: usize, counts| policy(&format!("shop/{number:05}"), "1", counts);
        memory.sessions = (0..20_000).map(|number| session(number, number == 19_999)).collect();
        let mut all_count = memory.clone();
        all_count.sessions = (0..20_000).map(|number| session(number, true)).collect();

        memory.fit(MOST_BYTES);
        assert!(size_of_all(&memory) <= MOST_BYTES + 1000);
        assert!((3000..20_000).contains(&memory.count()), "{}", memory.count());
        assert!(memory.sessions.iter().any(|session| session.counts));
        assert_eq!(memory.rule_names.of("httproute/shop/web", "1"), former);
        assert_eq!(memory.rule_names.of("httproute/shop/own", "1"), []);
        let before = memory.clone();
        memory.fit(MOST_BYTES);
        assert_eq!(memory, before);

        all_count.fit(MOST_BYTES);
        assert!(size_of_all(&all_count) <= MOST_BYTES + 1000);
        assert_eq!(all_count.rule_names.routes().count(), 0);
    }

    #[test]
    fn a_namespace_with_many_routes_forgets_its_own() {
        let former = remembered(&remembered(&[], "a"), "x");
        let mut memory = Memory::default();
        for number in 0..20_000 {
            memory
                .rule_names
                .set(format!("httproute/many/{number:05}"), "1", former.clone());
        }
        memory
            .rule_names
            .set("httproute/victim/z".to_owned(), "1", former.clone());
        memory.sessions = [policy("victim/web", "3", false)].into_iter().collect();
        assert!(memory.fit(MOST_BYTES));
        assert!(size_of_all(&memory) <= MOST_BYTES + 1000);
        assert_eq!(memory.rule_names.of("httproute/victim/z", "1"), former);
        assert_eq!(memory.sessions.iter().count(), 1);
        assert!(!memory.fit(MOST_BYTES));
    }
}
