//! What replicas tell each other: whether all Envoys that are connected to each have the keyring that is published now.
//!
//! Each replica writes one annotation of a Lease that they share, again and again, and reads those of the others in the answer. One that says nothing
//! new any more is gone, by this process's clock. Only time in which the API server answered counts for that: while nobody can write, nobody is gone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::model::short_hash::hash;

/// How often a replica says that it is there.
pub(super) const BEAT: Duration = Duration::from_secs(2);
/// A replica that has said nothing for so long is gone: as long as the leader's Lease holds. With a longer `phaseTime`, for that long, so that its
/// Envoys have come back elsewhere before it is forgotten.
const LEASE: Duration = Duration::from_secs(15);
/// Annotations with this prefix are reports.
const PREFIX: &str = "replica.limpet.dev/";

/// Which keyring a text is; it tells nothing else of it.
pub(super) fn digest(text: &str) -> String {
    hash(text.as_bytes(), 16)
}

/// How far a replica's Envoys are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Standing {
    /// All that are connected have this keyring, and have had the time to come back: its [`digest`].
    Keyring(String),
    /// Why that can not be said.
    WaitsFor(String),
}

/// What a replica says of itself, as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Report {
    replica: String,
    #[serde(flatten)]
    standing: Standing,
    /// Another number each time.
    beat: u64,
}

/// How far the other replicas are, by their names.
pub(crate) type View = BTreeMap<String, Standing>;

/// The first replica whose Envoys do not all have this keyring, and why.
pub(super) fn behind<'a>(view: &'a View, keyring: &str) -> Option<(&'a str, &'a str)> {
    view.iter().find_map(|(replica, standing)| match standing {
        Standing::Keyring(known) if known == keyring => None,
        Standing::Keyring(_) => Some((&**replica, "its Envoys had another keyring when it said something last")),
        Standing::WaitsFor(reason) => Some((&**replica, &**reason)),
    })
}

/// One replica's side of it.
#[derive(Debug)]
pub(super) struct Replicas {
    name: String,
    /// Who says nothing for so long is gone.
    patience: Duration,
    beat: u64,
    /// When the API server answered last.
    answered: Option<Instant>,
    others: BTreeMap<String, Other>,
}

#[derive(Debug)]
struct Other {
    text: String,
    /// For how long it has said the same.
    silent: Duration,
}

impl Replicas {
    /// Of the replica with this name.
    pub(super) fn new(name: &str, phase_time: Duration) -> Self {
        Self {
            name: name.to_owned(),
            patience: phase_time.max(LEASE),
            beat: 0,
            answered: None,
            others: BTreeMap::new(),
        }
    }

    /// The annotations that are to be written; `None`: one that is to go. `tidies`: those of replicas that are gone are taken away.
    pub(super) fn annotations(&mut self, standing: Standing, tidies: bool) -> BTreeMap<String, Option<String>> {
        self.beat = self.beat.wrapping_add(1);
        let report = Report {
            replica: self.name.clone(),
            standing,
            beat: self.beat,
        };
        // Texts and a number: this can not fail.
        let text = serde_json::to_string(&report).unwrap_or_default();
        let gone = self.others.iter().filter(|(_, other)| tidies && self.is_gone(other));
        let mut annotations: BTreeMap<_, _> = gone.map(|(key, _)| (key.clone(), None)).collect();
        annotations.insert(key(&self.name), Some(text));
        annotations
    }

    /// How far the others are, by the annotations that were there when ours was written.
    pub(super) fn see(&mut self, annotations: &BTreeMap<String, String>, now: Instant) -> View {
        // Time in which nobody could say anything is no silence.
        let passed = self
            .answered
            .map_or(Duration::ZERO, |before| now.duration_since(before));
        let passed = passed.min(BEAT * 2);
        self.answered = Some(now);
        let own = key(&self.name);
        let of_others = || {
            let reports = annotations.iter().filter(|(key, _)| key.starts_with(PREFIX));
            reports.filter(|(key, _)| **key != own)
        };
        self.others.retain(|key, _| annotations.contains_key(key));
        for (key, text) in of_others() {
            match self.others.get_mut(key) {
                Some(other) if other.text == *text => other.silent += passed,
                _ => {
                    let other = Other {
                        text: text.clone(),
                        silent: Duration::ZERO,
                    };
                    self.others.insert(key.clone(), other);
                }
            }
        }
        let present = self.others.iter().filter(|(_, other)| !self.is_gone(other));
        let standing = |(key, other): (&String, &Other)| match serde_json::from_str(&other.text) {
            Ok(Report { replica, standing, .. }) => (replica, standing),
            // Of another release, perhaps.
            Err(error) => (
                key.clone(),
                Standing::WaitsFor(format!("its report can not be read: {error}")),
            ),
        };
        present.map(standing).collect()
    }

    fn is_gone(&self, other: &Other) -> bool {
        other.silent >= self.patience
    }
}

/// The annotation of a replica: names may be longer than an annotation's.
fn key(replica: &str) -> String {
    format!("{PREFIX}{}", hash(replica.as_bytes(), 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A Lease, as the API server keeps it.
    #[derive(Default)]
    struct Lease(BTreeMap<String, String>);

    impl Lease {
        /// A replica writes what it has to say, and reads the answer.
        fn beat(&mut self, replica: &mut Replicas, standing: Standing, tidies: bool, now: Instant) -> View {
            for (key, text) in replica.annotations(standing, tidies) {
                match text {
                    Some(text) => drop(self.0.insert(key, text)),
                    None => drop(self.0.remove(&key)),
                }
            }
            replica.see(&self.0, now)
        }
    }

    fn has(keyring: &str) -> Standing {
        Standing::Keyring(digest(keyring))
    }

    fn lacks() -> Standing {
        Standing::WaitsFor("1 Envoy".to_owned())
    }

    fn pair() -> (Replicas, Replicas) {
        let new = |name| Replicas::new(name, Duration::from_secs(1));
        (new("leader"), new("follower"))
    }

    #[test]
    fn a_replica_is_behind_until_all_its_envoys_have_the_keyring() {
        let (mut leader, mut follower) = pair();
        let (mut lease, now) = (Lease::default(), Instant::now());
        let alone = lease.beat(&mut leader, has("a"), true, now);
        assert_eq!((alone.len(), behind(&alone, &digest("a"))), (0, None));
        for (standing, reason) in [
            (lacks(), Some(("follower", "1 Envoy"))),
            (has("a"), None),
            (
                has("before"),
                Some(("follower", "its Envoys had another keyring when it said something last")),
            ),
        ] {
            lease.beat(&mut follower, standing, false, now);
            let view = lease.beat(&mut leader, has("a"), true, now);
            assert_eq!(behind(&view, &digest("a")), reason);
        }
    }

    #[test]
    fn a_replica_that_says_nothing_is_gone_after_a_while_and_forgotten_by_the_leader() {
        let (mut leader, mut follower) = pair();
        let (mut lease, mut now) = (Lease::default(), Instant::now());
        lease.beat(&mut follower, lacks(), false, now);
        let mut beats = 0;
        while behind(&lease.beat(&mut leader, has("a"), true, now), &digest("a")).is_some() {
            now += BEAT;
            beats += 1;
        }
        assert_eq!(beats, 8, "more than fifteen seconds");
        assert_eq!(lease.0.len(), 2);
        lease.beat(&mut leader, has("a"), false, now);
        assert_eq!(lease.0.len(), 2, "for the leader to do");
        lease.beat(&mut leader, has("a"), true, now);
        assert_eq!(lease.0.len(), 1);
        // It was only slow.
        lease.beat(&mut follower, lacks(), false, now);
        assert!(behind(&lease.beat(&mut leader, has("a"), true, now), &digest("a")).is_some());
    }

    #[test]
    fn a_phase_that_is_longer_is_waited_for() {
        let mut leader = Replicas::new("leader", Duration::from_secs(60));
        let (_, mut follower) = pair();
        let (mut lease, mut now) = (Lease::default(), Instant::now());
        lease.beat(&mut follower, lacks(), false, now);
        lease.beat(&mut leader, has("a"), true, now);
        for _ in 1..30 {
            now += BEAT;
            assert_eq!(lease.beat(&mut leader, has("a"), true, now).len(), 1);
        }
        now += BEAT;
        assert_eq!(lease.beat(&mut leader, has("a"), true, now).len(), 0);
    }

    #[test]
    fn nobody_is_gone_because_the_api_server_was() {
        let (mut leader, mut follower) = pair();
        let (mut lease, now) = (Lease::default(), Instant::now());
        lease.beat(&mut follower, lacks(), false, now);
        lease.beat(&mut leader, has("a"), true, now);
        let later = now + Duration::from_secs(600);
        assert_eq!(lease.beat(&mut leader, has("a"), true, later).len(), 1);
    }

    #[test]
    fn what_can_not_be_read_is_waited_for_and_others_annotations_are_none_of_ours() {
        let (mut leader, _) = pair();
        let mut lease = Lease::default();
        lease.0.insert("example.com/note".to_owned(), "{}".to_owned());
        lease.0.insert(key("later"), "{\"release\": 2}".to_owned());
        let view = lease.beat(&mut leader, has("a"), true, Instant::now());
        assert_eq!(view.len(), 1);
        let (_, reason) = behind(&view, &digest("a")).unwrap();
        assert!(reason.starts_with("its report can not be read: "), "{reason}");
    }

    #[test]
    fn a_report_is_short_json() {
        let (mut leader, _) = pair();
        let annotations = leader.annotations(has("a"), false);
        let (key, text) = annotations.first_key_value().unwrap();
        assert_eq!(key.len(), PREFIX.len() + 16);
        let expected = format!(r#"{{"replica":"leader","keyring":"{}","beat":1}}"#, digest("a"));
        assert_eq!(text.as_deref(), Some(&*expected));
        let annotations = leader.annotations(lacks(), false);
        let text = annotations.first_key_value().unwrap().1.as_deref();
        assert_eq!(text, Some(r#"{"replica":"leader","waitsFor":"1 Envoy","beat":2}"#));
    }
}
