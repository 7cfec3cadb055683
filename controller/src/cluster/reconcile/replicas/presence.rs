//! Each replica writes one annotation of a shared Lease when its report changes, and at a slow pace, and reads the
//! others'. A replica whose annotation does not change for some time is gone, by this process's clock. Only time in
//! which the API server answered counts: while no replica can write, none is gone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::report::{KeyringDelivery, OwnReport, ReplicaReport, ReplicaView};
use limpet_model::short_hash::hash;

/// The time between writes of an unchanged report.
pub(super) const BEAT: Duration = Duration::from_secs(30);
/// After this time, a silent replica and its Envoys are gone. If the `phaseTime` of rotations is longer, the keyring
/// waits that long, so that its Envoys have reconnected elsewhere.
const LEASE: Duration = Duration::from_secs(75);
/// The prefix of annotations with reports.
const PREFIX: &str = "replica.limpet.dev/";
/// The most bytes of all reports. An object's annotations may have 256 KiB; a new replica starts in the rest.
const ROOM: usize = 224 * 1024;

/// One replica's view of the Lease.
#[derive(Debug)]
pub(super) struct ReplicaPresence {
    name: String,
    patience: Duration,
    beat: u64,
    text: String,
    /// When the API server answered last.
    answered_at: Option<Instant>,
    others: BTreeMap<String, OtherReplica>,
}

#[derive(Debug)]
struct OtherReplica {
    text: String,
    /// How long its report has not changed.
    silent: Duration,
    /// Whether its pod was gone after this report.
    has_no_pod: bool,
}

impl ReplicaPresence {
    pub(super) fn new(name: &str, phase_time: Duration) -> Self {
        Self {
            name: name.to_owned(),
            patience: phase_time.max(LEASE),
            beat: 0,
            text: String::new(),
            answered_at: None,
            others: BTreeMap::new(),
        }
    }

    /// The annotations to write; `None` removes one. `tidies`: removes reports of gone replicas.
    pub(super) fn annotations(&mut self, own: &OwnReport, tidies: bool) -> BTreeMap<String, Option<String>> {
        self.beat = self.beat.wrapping_add(1);
        self.text = own.text(&self.name, self.beat, self.room());
        let gone = self.others.iter().filter(|(_, other)| tidies && self.is_gone(other));
        let mut annotations: BTreeMap<_, _> = gone.map(|(key, _)| (key.clone(), None)).collect();
        annotations.insert(key(&self.name), Some(self.text.clone()));
        annotations
    }

    /// Whether the report's room has changed, or another replica is gone.
    pub(super) fn is_due(&self, own: &OwnReport, tidies: bool) -> bool {
        let some_gone = || self.others.values().any(|other| self.is_gone(other));
        own.text(&self.name, self.beat, self.room()) != self.text || tidies && some_gone()
    }

    fn room(&self) -> usize {
        match self.answered_at {
            Some(_) => ROOM / (self.others.len() + 1).max(2),
            // With an unknown number of replicas, there may be no room. The first report is as short as possible, and
            // the others make room when they see it.
            None => 0,
        }
    }

    pub(super) fn observe(&mut self, annotations: &BTreeMap<String, String>, now: Instant) -> ReplicaView {
        // Time in which no replica could write does not count as silence.
        let passed = self
            .answered_at
            .map_or(Duration::ZERO, |before| now.duration_since(before));
        let passed = passed.min(BEAT);
        self.answered_at = Some(now);
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
                    let other = OtherReplica {
                        text: text.clone(),
                        silent: Duration::ZERO,
                        has_no_pod: false,
                    };
                    self.others.insert(key.clone(), other);
                }
            }
        }
        self.view()
    }

    pub(super) fn view(&self) -> ReplicaView {
        let present = self.others.iter().filter(|(_, other)| !self.is_gone(other));
        let said = |(key, other): (&String, &OtherReplica)| match ReplicaReport::read(&other.text) {
            // Its Envoys have reconnected elsewhere, or are gone.
            Ok((replica, said)) if other.silent >= LEASE || other.has_no_pod => (
                replica,
                ReplicaReport {
                    keyring: said.keyring,
                    ..ReplicaReport::default()
                },
            ),
            Ok(said) => said,
            // It may be of another release.
            Err(error) => (
                key.clone(),
                ReplicaReport {
                    keyring: Some(KeyringDelivery::WaitsFor(format!("its report cannot be read: {error}"))),
                    ..ReplicaReport::default()
                },
            ),
        };
        present.map(said).collect()
    }

    /// Other replicas with Envoys or pages.
    pub(super) fn serving(&self) -> Vec<String> {
        let serves = |said: &ReplicaReport| said.pages.is_some() || !said.envoys.is_empty();
        let view = self.view().into_iter();
        view.filter(|(_, said)| serves(said)).map(|(name, _)| name).collect()
    }

    /// Forgets Envoys and pages of replicas whose pods are gone. The keyring waits for those Envoys.
    pub(super) fn lose(&mut self, is_lost: impl Fn(&str) -> bool) {
        for other in self.others.values_mut() {
            other.has_no_pod |= ReplicaReport::read(&other.text).is_ok_and(|(name, _)| is_lost(&name));
        }
    }

    fn is_gone(&self, other: &OtherReplica) -> bool {
        other.silent >= self.patience
    }
}

/// A hash, since names of replicas may be too long.
fn key(replica: &str) -> String {
    format!("{PREFIX}{}", hash(replica.as_bytes(), 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::reconcile::replicas::report::{EnvoyCounts, behind, digest};

    #[derive(Default)]
    struct Lease(BTreeMap<String, String>);

    impl Lease {
        fn beat(&mut self, replica: &mut ReplicaPresence, own: &OwnReport, tidies: bool, now: Instant) -> ReplicaView {
            self.offer(replica, own, tidies, now).unwrap()
        }

        /// `None`: refused as too large.
        fn offer(
            &mut self,
            replica: &mut ReplicaPresence,
            own: &OwnReport,
            tidies: bool,
            now: Instant,
        ) -> Option<ReplicaView> {
            let mut annotations = self.0.clone();
            for (key, text) in replica.annotations(own, tidies) {
                match text {
                    Some(text) => drop(annotations.insert(key, text)),
                    None => drop(annotations.remove(&key)),
                }
            }
            let sizes = annotations.iter().map(|(key, text)| key.len() + text.len());
            if sizes.sum::<usize>() > 256 * 1024 {
                return None;
            }
            self.0 = annotations;
            Some(replica.observe(&self.0, now))
        }
    }

    fn has(keyring: &str) -> OwnReport {
        OwnReport {
            keyring: Some(KeyringDelivery::Has(digest(keyring))),
            ..OwnReport::default()
        }
    }

    fn lacks() -> OwnReport {
        OwnReport {
            keyring: Some(KeyringDelivery::WaitsFor("1 Envoy".to_owned())),
            ..OwnReport::default()
        }
    }

    /// One Envoy of each of so many Gateways.
    fn serves(gateways: usize) -> OwnReport {
        let envoys = EnvoyCounts {
            connected: 1,
            settled: 1,
            refusals: Vec::new(),
        };
        OwnReport {
            envoys: (0..gateways)
                .map(|number| (format!("shop-{number:04}/web"), envoys.clone()))
                .collect(),
            ..OwnReport::default()
        }
    }

    fn pair() -> (ReplicaPresence, ReplicaPresence) {
        let new = |name| ReplicaPresence::new(name, Duration::from_secs(1));
        (new("leader"), new("follower"))
    }

    #[test]
    fn a_replica_is_behind_until_all_its_envoys_have_the_keyring() {
        let (mut leader, mut follower) = pair();
        let (mut lease, now) = (Lease::default(), Instant::now());
        let alone = lease.beat(&mut leader, &has("a"), true, now);
        assert_eq!((alone.len(), behind(&alone, &digest("a"))), (0, None));
        for (own, reason) in [
            (lacks(), Some(("follower", "1 Envoy"))),
            (has("a"), None),
            (
                has("before"),
                Some(("follower", "its Envoys had another keyring when it reported last")),
            ),
        ] {
            lease.beat(&mut follower, &own, false, now);
            let view = lease.beat(&mut leader, &has("a"), true, now);
            assert_eq!(behind(&view, &digest("a")), reason);
        }
    }

    #[test]
    fn a_silent_replica_is_gone_and_the_leader_removes_it() {
        let (mut leader, mut follower) = pair();
        let (mut lease, mut now) = (Lease::default(), Instant::now());
        lease.beat(&mut follower, &lacks(), false, now);
        let mut beats = 0;
        while behind(&lease.beat(&mut leader, &has("a"), true, now), &digest("a")).is_some() {
            now += BEAT;
            beats += 1;
        }
        assert_eq!(beats, 3, "75 seconds");
        assert_eq!(lease.0.len(), 2);
        lease.beat(&mut leader, &has("a"), false, now);
        assert_eq!(lease.0.len(), 2, "for the leader to do");
        lease.beat(&mut leader, &has("a"), true, now);
        assert_eq!(lease.0.len(), 1);
        // It was only slow.
        lease.beat(&mut follower, &lacks(), false, now);
        assert!(behind(&lease.beat(&mut leader, &has("a"), true, now), &digest("a")).is_some());
    }

    #[test]
    fn a_new_report_of_a_replica_without_a_pod_counts() {
        let (mut leader, mut follower) = pair();
        let (mut lease, now) = (Lease::default(), Instant::now());
        lease.beat(&mut follower, &serves(1), false, now);
        lease.beat(&mut leader, &has("a"), true, now);
        lease.beat(&mut follower, &serves(1), false, now);
        lease.beat(&mut leader, &has("a"), true, now);
        assert_eq!(leader.serving(), ["follower"]);
        leader.lose(|name| name == "follower");
        assert_eq!(leader.serving(), Vec::<String>::new());
        let view = lease.beat(&mut leader, &has("a"), true, now);
        assert!(view["follower"].envoys.is_empty());
        // A StatefulSet gives a new pod the same name.
        lease.beat(&mut follower, &serves(1), false, now);
        let view = lease.beat(&mut leader, &has("a"), true, now);
        assert_eq!(view["follower"].envoys.len(), 1);
    }

    #[test]
    fn a_phase_that_is_longer_is_waited_for() {
        let mut leader = ReplicaPresence::new("leader", Duration::from_secs(300));
        let (_, mut follower) = pair();
        let (mut lease, mut now) = (Lease::default(), Instant::now());
        lease.beat(&mut follower, &lacks(), false, now);
        lease.beat(&mut leader, &has("a"), true, now);
        for _ in 1..10 {
            now += BEAT;
            assert_eq!(lease.beat(&mut leader, &has("a"), true, now).len(), 1);
        }
        now += BEAT;
        assert_eq!(lease.beat(&mut leader, &has("a"), true, now).len(), 0);
    }

    #[test]
    fn nobody_is_gone_because_the_api_server_was() {
        let (mut leader, mut follower) = pair();
        let (mut lease, now) = (Lease::default(), Instant::now());
        lease.beat(&mut follower, &lacks(), false, now);
        lease.beat(&mut leader, &has("a"), true, now);
        let later = now + Duration::from_secs(600);
        assert_eq!(lease.beat(&mut leader, &has("a"), true, later).len(), 1);
    }

    #[test]
    fn an_unreadable_report_is_waited_for_and_no_other_annotation() {
        let (mut leader, _) = pair();
        let mut lease = Lease::default();
        lease.0.insert("example.com/note".to_owned(), "{}".to_owned());
        lease.0.insert(key("later"), "{\"release\": 2}".to_owned());
        let view = lease.beat(&mut leader, &has("a"), true, Instant::now());
        assert_eq!(view.len(), 1);
        let (_, reason) = behind(&view, &digest("a")).unwrap();
        assert!(reason.starts_with("its report cannot be read: "), "{reason}");
    }

    #[test]
    fn envoys_of_a_silent_replica_go_before_the_keyring_forgets_it() {
        let mut leader = ReplicaPresence::new("leader", Duration::from_secs(300));
        let (_, mut follower) = pair();
        let (mut lease, mut now) = (Lease::default(), Instant::now());
        lease.beat(&mut follower, &serves(1), false, now);
        lease.beat(&mut follower, &serves(1), false, now);
        let mut beats = 0;
        while !lease.beat(&mut leader, &has("a"), true, now)["follower"]
            .envoys
            .is_empty()
        {
            now += BEAT;
            beats += 1;
        }
        assert_eq!(beats, 3, "75 seconds");
    }

    #[test]
    fn many_gateways_of_several_replicas_have_room_in_one_object() {
        let (mut lease, now, many) = (Lease::default(), Instant::now(), serves(6_000));
        let mut replicas = Vec::new();
        for count in 1..=5 {
            let mut new = ReplicaPresence::new(&format!("replica-{count}"), Duration::ZERO);
            let first = lease.offer(&mut new, &many, false, now);
            assert!(first.is_some(), "{count}: it has not much to say yet");
            replicas.insert(0, new);
            // It may have to wait until the others have made room.
            let told: Vec<Vec<bool>> = (0..3)
                .map(|_| {
                    let beat = |replica| lease.offer(replica, &many, false, now).is_some();
                    replicas.iter_mut().map(beat).collect()
                })
                .collect();
            assert!(told.iter().all(|told| told[1..].iter().all(|told| *told)), "{told:?}");
            assert!(told[2][0], "{told:?}");
        }
        let view = lease.beat(&mut replicas[0], &many, true, now);
        assert_eq!(view.len(), 4);
        for said in view.values() {
            assert!(said.envoys.len() > 1_500, "{}", said.envoys.len());
            assert_eq!(said.envoys.len() + said.untold, 6_000);
        }
    }
}
