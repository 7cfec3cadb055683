//! Which Envoys report. Unreported sessions are not counted, so clients that end pods must know.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use limpet_core::census::Backend;
use limpet_core::census::report::Report;
use limpet_core::time::Timestamp;
use prost::Message;

use crate::settling::SETTLING;

use super::gaps::CountGaps;
use super::places::BackendPlaces;
use super::strays::StrayBackends;

/// An Envoy is present for this long after its last report: three signs of life.
const PRESENT: Duration = Duration::from_secs(30);
/// The most reporters of a Gateway. Beyond that, those silent for longest do not count.
const REPORTERS: usize = 4096;
/// A report that is sent again after a longer silence counts twice.
const FORGOTTEN: Duration = Duration::from_secs(600);

#[derive(Debug, Default)]
pub(super) struct ReporterAttendance {
    published: Option<Timestamp>,
    /// Connected Envoys by Gateway: hashes of their ids.
    connected: BTreeMap<String, BTreeSet<u64>>,
    /// By Gateway, of this replica.
    reporters: BTreeMap<String, GatewayReporters>,
    /// By replica and Gateway.
    elsewhere: BTreeMap<String, BTreeMap<String, GatewayAttendance>>,
    pub(super) strays: StrayBackends,
    replicas: ReplicaAnswers,
}

#[derive(Debug, Default)]
struct GatewayReporters {
    present: HashMap<u64, ReporterState>,
    /// Until when sessions may live at backends that a reporter, also a silent one, did not tell apart.
    others_until: Option<Timestamp>,
    /// When a reporter with more to report gave way to another.
    more: Option<Timestamp>,
}

/// A process, or a worker of it.
#[derive(Debug, Clone, Copy)]
struct ReporterState {
    last: Timestamp,
    /// Whether the last report had too little room.
    more: bool,
    /// The number of its last report.
    number: u64,
}

#[derive(Debug, Default)]
struct ReplicaAnswers {
    /// Why each did not answer when it was asked last; `None`: unknown. Without a Lease to share, they are not asked.
    answers: Option<BTreeMap<String, Result<(), String>>>,
    expected: bool,
    /// When one that had answered was gone. Its Envoys may not have reported all to others yet.
    lost: Option<Timestamp>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(crate) struct GatewayAttendance {
    /// `node.cluster` of its Envoys.
    #[prost(string, tag = "1")]
    group: String,
    /// Hashes of the ids of connected Envoys.
    #[prost(fixed64, repeated, tag = "2")]
    connected: Vec<u64>,
    /// Those that reported within the last 30 seconds.
    #[prost(fixed64, repeated, tag = "3")]
    reporters: Vec<u64>,
    /// Whether one has more to report.
    #[prost(bool, tag = "4")]
    more: bool,
    /// Whether one has sessions at backends that it does not tell apart.
    #[prost(bool, tag = "5")]
    others: bool,
    /// Whether they may have reported backends that the replica did not know.
    #[prost(bool, tag = "6")]
    strays: bool,
    /// How often the replica requested full reports.
    #[prost(uint64, tag = "7")]
    asked: u64,
}

impl ReporterState {
    fn is_present(&self, now: Timestamp) -> bool {
        now.since(self.last) <= PRESENT
    }
}

impl GatewayReporters {
    fn make_room(&mut self, now: Timestamp) {
        self.present.retain(|_, reporter| reporter.is_present(now));
        if self.present.len() < REPORTERS {
            return;
        }
        let oldest = self.present.iter().min_by_key(|(_, reporter)| reporter.last);
        let Some(oldest) = oldest.map(|(number, _)| *number) else {
            return;
        };
        if self.present.remove(&oldest).is_some_and(|reporter| reporter.more) {
            self.more = Some(now);
        }
    }

    fn present(&self, now: Timestamp) -> impl Iterator<Item = (&u64, &ReporterState)> {
        self.present
            .iter()
            .filter(move |(_, reporter)| reporter.is_present(now))
    }

    fn have_more(&self, now: Timestamp) -> bool {
        self.more.is_some_and(|more| now.since(more) <= PRESENT) || self.present(now).any(|(_, reporter)| reporter.more)
    }

    fn have_others(&self, now: Timestamp) -> bool {
        self.others_until.is_some_and(|until| now < until)
    }
}

impl ReporterAttendance {
    pub(super) fn publish(&mut self, now: Timestamp) {
        self.published.get_or_insert(now);
    }

    /// The clock was set: what is known begins now.
    pub(super) fn set_clock(&mut self, now: Timestamp) {
        self.published = self.published.map(|_| now);
        self.reporters.clear();
        self.strays.set_clock();
    }

    /// Returns whether it is the same report as before: the answer was lost.
    pub(super) fn receive(&mut self, group: &str, report: &Report, now: Timestamp) -> bool {
        let reporters = match self.reporters.get_mut(group) {
            Some(reporters) => reporters,
            None => self.reporters.entry(group.to_owned()).or_default(),
        };
        let known = reporters.present.get(&report.reporter).copied();
        if known.is_none() {
            reporters.make_room(now);
        }
        let others = report.backends.iter().filter_map(|change| {
            let backend = change.backend().filter(Backend::is_others)?;
            let last_use = Timestamp::from_unix_millis(change.last_use).min(now);
            Some(last_use.after(Duration::from_secs(u64::from(backend.live_for) + 1)))
        });
        reporters.others_until = reporters.others_until.into_iter().chain(others).max();
        let reporter = ReporterState {
            last: now,
            more: report.more,
            number: report.number,
        };
        reporters.present.insert(report.reporter, reporter);
        // A report without a number may be a new one.
        report.number > 0 && known.is_some_and(|known| known.number == report.number)
    }

    /// Forgets Gateways without clusters, and reporters that are silent for long.
    pub(super) fn forget(&mut self, places: &BackendPlaces, now: Timestamp) {
        self.reporters.retain(|group, reporters| {
            let speaks = |reporter: &ReporterState| now.since(reporter.last) <= FORGOTTEN;
            reporters.present.retain(|_, reporter| speaks(reporter));
            places.knows(group)
        });
        self.strays.forget(places, now);
    }

    pub(super) fn connect(&mut self, connected: BTreeMap<String, BTreeSet<u64>>) {
        self.connected = connected;
    }

    /// The other replicas; `None`: unknown.
    pub(super) fn expect<'a>(&mut self, replicas: Option<impl Iterator<Item = &'a String>>, now: Timestamp) {
        self.replicas.expected = true;
        let before = self.replicas.answers.take().unwrap_or_default();
        // Earlier ones may still exist.
        let Some(replicas) = replicas else { return };
        let answers = replicas.map(|name| {
            let unasked = || Err("it was not asked yet".to_owned());
            (name.clone(), before.get(name).cloned().unwrap_or_else(unasked))
        });
        let answers: BTreeMap<_, _> = answers.collect();
        if before.keys().any(|name| !answers.contains_key(name)) {
            self.replicas.lost = Some(now);
        }
        self.elsewhere.retain(|name, _| answers.contains_key(name));
        self.replicas.answers = Some(answers);
    }

    pub(super) fn answered(&mut self, replica: &str, answer: Result<(), String>) {
        if let Some(answers) = &mut self.replicas.answers {
            answers.insert(replica.to_owned(), answer);
        }
    }

    /// How often any replica requested full reports of a Gateway. It counts everywhere: an Envoy may go to another
    /// replica.
    pub(super) fn resync_requests(&self, group: &str) -> u64 {
        let elsewhere = self.elsewhere.values().filter_map(|attendances| attendances.get(group));
        let all = elsewhere
            .map(|gateway| gateway.asked)
            .chain([self.strays.resync_requests(group)]);
        all.fold(0, u64::wrapping_add)
    }

    /// Reporters of a Gateway within the last 30 seconds.
    pub(super) fn reporters_of(&self, group: &str, now: Timestamp) -> usize {
        let reporters = self.reporters.get(group);
        reporters.map_or(0, |reporters| reporters.present(now).count())
    }

    pub(super) fn to_report(&self, now: Timestamp) -> Vec<GatewayAttendance> {
        let groups: BTreeSet<_> = self.connected.keys().chain(self.reporters.keys()).collect();
        groups
            .into_iter()
            .map(|group| self.gateway_attendance(group, now))
            .collect()
    }

    fn gateway_attendance(&self, group: &str, now: Timestamp) -> GatewayAttendance {
        let reporters = self.reporters.get(group);
        let present = reporters.into_iter().flat_map(|reporters| reporters.present(now));
        GatewayAttendance {
            group: group.to_owned(),
            connected: self.connected.get(group).into_iter().flatten().copied().collect(),
            reporters: present.map(|(reporter, _)| *reporter).collect(),
            more: reporters.is_some_and(|reporters| reporters.have_more(now)),
            others: reporters.is_some_and(|reporters| reporters.have_others(now)),
            strays: !self.strays.gaps(group, now).is_complete(),
            asked: self.strays.resync_requests(group),
        }
    }

    pub(super) fn receive_replica(&mut self, name: &str, attendances: Vec<GatewayAttendance>) {
        let attendances = attendances.into_iter().map(|gateway| (gateway.group.clone(), gateway));
        self.elsewhere.insert(name.to_owned(), attendances.collect());
    }

    /// Gaps that concern all sessions.
    pub(super) fn gaps(&self, now: Timestamp) -> CountGaps {
        let mut gaps = CountGaps::default();
        match self.published {
            None => gaps.push("the controller has published nothing yet"),
            Some(published) if now.since(published) < SETTLING => gaps.push(format!(
                "the controller has just started: Envoys tell it what they know within {} s",
                SETTLING.as_secs()
            )),
            Some(_) => {}
        }
        let ReplicaAnswers {
            answers,
            expected,
            lost,
        } = &self.replicas;
        if answers.is_none() && *expected {
            gaps.push("the controller does not know its other replicas: it cannot read their Lease");
        }
        for (name, answer) in answers.iter().flatten() {
            if let Err(why) = answer {
                gaps.push(format!("the replica {name} of the controller does not answer: {why}"));
            }
        }
        if lost.is_some_and(|lost| now.since(lost) < SETTLING) {
            gaps.push("a replica of the controller has just ended: its Envoys tell the others what they know");
        }
        gaps
    }

    /// Gaps of the sessions that the Envoys of a Gateway see.
    pub(super) fn gaps_of(&self, group: &str, now: Timestamp) -> CountGaps {
        let (mut gaps, own) = (self.strays.gaps(group, now), self.gateway_attendance(group, now));
        let all: Vec<&GatewayAttendance> = self
            .elsewhere
            .values()
            .filter_map(|attendances| attendances.get(group))
            .chain([&own])
            .collect();
        // An Envoy may be connected to two replicas for a moment, and report to either.
        let connected: HashSet<u64> = all.iter().flat_map(|gateway| &gateway.connected).copied().collect();
        let reporters: HashSet<u64> = all.iter().flat_map(|gateway| &gateway.reporters).copied().collect();
        if gaps.is_complete() && all.iter().any(|gateway| gateway.strays) {
            gaps.push(format!(
                "Envoys of the Gateway {group} told another replica of the controller of a pod before it knew it"
            ));
        }
        if reporters.len() < connected.len() {
            gaps.push(format!(
                "{} Envoys of the Gateway {group} are connected, and {} tell of sessions",
                connected.len(),
                reporters.len()
            ));
        }
        if all.iter().any(|gateway| gateway.more) {
            gaps.push(format!("an Envoy of the Gateway {group} has more to tell"));
        }
        if all.iter().any(|gateway| gateway.others) {
            gaps.push(format!(
                "an Envoy of the Gateway {group} has sessions at more backends than it tells apart"
            ));
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use limpet_api::ObjectName;
    use limpet_core::census::report::BackendReport;
    use limpet_model::graph::ClusterName;

    use super::*;
    use crate::cluster::sessions::PublishedCluster;

    const GROUP: &str = "shop/web";

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_unix_seconds(1_000_000 + seconds)
    }

    /// Settled at the time 0.
    fn settled() -> ReporterAttendance {
        let mut attendance = ReporterAttendance::default();
        attendance.publish(Timestamp::UNIX_EPOCH);
        attendance
    }

    fn report(reporter: u64) -> Report {
        Report {
            reporter,
            ..Report::default()
        }
    }

    fn connect(attendance: &mut ReporterAttendance, nodes: &[u64]) {
        attendance.connect([(GROUP.to_owned(), nodes.iter().copied().collect())].into());
    }

    fn ask(one: &mut ReporterAttendance, other: &ReporterAttendance, now: Timestamp) {
        let name = "other".to_owned();
        one.expect(Some([&name].into_iter()), now);
        one.receive_replica(&name, other.to_report(now));
        one.answered(&name, Ok(()));
    }

    #[test]
    fn a_controller_that_has_just_published_does_not_know_all() {
        let mut attendance = ReporterAttendance::default();
        assert_eq!(
            attendance.gaps(at(100)).words(),
            ["the controller has published nothing yet"]
        );
        attendance.publish(at(100));
        attendance.publish(at(110));
        let gaps = attendance.gaps(at(114));
        assert!(gaps.words()[0].contains("has just started"), "{gaps:?}");
        assert!(attendance.gaps(at(115)).is_complete());
    }

    #[test]
    fn an_envoy_that_is_connected_and_tells_nothing_is_missed() {
        let mut attendance = settled();
        connect(&mut attendance, &[1, 2]);
        attendance.receive(GROUP, &report(7), at(0));
        let expected = "2 Envoys of the Gateway shop/web are connected, and 1 tell of sessions";
        assert_eq!(attendance.gaps_of(GROUP, at(0)).words(), [expected]);
        assert!(attendance.gaps_of("shop/other", at(0)).is_complete());
        // Workers of the first Envoy.
        attendance.receive(GROUP, &report(8), at(0));
        attendance.receive(GROUP, &report(9), at(0));
        assert!(attendance.gaps_of(GROUP, at(30)).is_complete());
        let expected = "2 Envoys of the Gateway shop/web are connected, and 0 tell of sessions";
        assert_eq!(attendance.gaps_of(GROUP, at(31)).words(), [expected]);
    }

    #[test]
    fn an_envoy_counts_once_at_whatever_replica_it_is() {
        let (mut one, mut other) = (settled(), settled());
        connect(&mut one, &[1, 2]);
        connect(&mut other, &[2, 3]);
        one.receive(GROUP, &report(1), at(0));
        other.receive(GROUP, &report(1), at(0));
        other.receive(GROUP, &report(2), at(0));
        ask(&mut one, &other, at(0));
        let expected = "3 Envoys of the Gateway shop/web are connected, and 2 tell of sessions";
        assert_eq!(one.gaps_of(GROUP, at(0)).words(), [expected]);
        other.receive(GROUP, &report(3), at(1));
        ask(&mut one, &other, at(1));
        assert!(one.gaps_of(GROUP, at(1)).is_complete());
    }

    #[test]
    fn backends_that_are_not_told_apart_are_a_gap_while_they_live() {
        let others = Backend {
            live_for: 60,
            ..Backend::OTHERS
        };
        let told = BackendReport {
            last_use: at(0).unix_millis(),
            ..BackendReport::new(others)
        };
        let (mut one, mut other) = (settled(), settled());
        let of_others = Report {
            backends: vec![told],
            ..report(7)
        };
        other.receive(GROUP, &of_others, at(0));
        other.receive(GROUP, &report(7), at(10));
        for now in [at(10), at(60)] {
            ask(&mut one, &other, now);
            for attendance in [&one, &other] {
                let gaps = attendance.gaps_of(GROUP, now);
                assert!(
                    gaps.words()[0].contains("at more backends than it tells apart"),
                    "{gaps:?}"
                );
            }
        }
        ask(&mut one, &other, at(62));
        assert!(one.gaps_of(GROUP, at(62)).is_complete());
        assert!(other.gaps_of(GROUP, at(62)).is_complete());
    }

    #[test]
    fn invented_reporters_took_the_places_of_those_that_there_are() {
        let mut attendance = settled();
        let others = BackendReport {
            last_use: at(0).unix_millis(),
            ..BackendReport::new(Backend {
                live_for: 60,
                ..Backend::OTHERS
            })
        };
        let invented = |reporter: u64| Report {
            more: true,
            backends: vec![others.clone()],
            ..report(reporter)
        };
        for reporter in 1..=REPORTERS as u64 {
            attendance.receive(GROUP, &invented(reporter), at(0));
        }
        connect(&mut attendance, &[1]);
        attendance.receive(GROUP, &report(0), at(1));
        let own = attendance.gateway_attendance(GROUP, at(1));
        assert_eq!((own.reporters.len(), own.reporters.contains(&0)), (REPORTERS, true));
        // Silent reporters leave only a time behind.
        attendance.receive(GROUP, &report(0), at(40));
        attendance.receive(GROUP, &report(9999), at(40));
        assert_eq!(attendance.reporters[GROUP].present.len(), 2);
        let gaps = attendance.gaps_of(GROUP, at(40));
        assert!(gaps.words()[0].contains("at more backends"), "{gaps:?}");
        assert!(attendance.gaps_of(GROUP, at(62)).is_complete());
    }

    #[test]
    fn reporters_that_were_silent_for_long_stayed() {
        let (cluster, service) = (ClusterName("cluster".into()), ObjectName::new("shop", "api"));
        let gateway = ObjectName::new("shop", "web");
        let published = PublishedCluster {
            cluster: &cluster,
            service: &service,
            gateways: vec![(&gateway, BTreeSet::new())],
        };
        let mut places = BackendPlaces::default();
        places.publish([published].into_iter(), at(0));
        let mut attendance = settled();
        for reporter in 0..100 {
            attendance.receive(GROUP, &report(reporter), at(reporter / 10));
        }
        attendance.forget(&places, at(605));
        assert_eq!(attendance.reporters[GROUP].present.len(), 50);
    }

    #[test]
    fn one_that_has_more_to_tell_and_gives_way_is_a_gap() {
        let mut attendance = settled();
        let more = Report {
            more: true,
            ..report(0)
        };
        attendance.receive(GROUP, &more, at(0));
        for reporter in 1..=REPORTERS as u64 {
            attendance.receive(GROUP, &report(reporter), at(1));
        }
        let expected = "an Envoy of the Gateway shop/web has more to tell";
        assert_eq!(attendance.gaps_of(GROUP, at(1)).words(), [expected]);
    }

    #[test]
    fn a_report_that_has_more_to_follow_is_a_gap() {
        let (mut one, mut other) = (settled(), settled());
        let more = Report {
            more: true,
            ..report(7)
        };
        other.receive(GROUP, &more, at(0));
        ask(&mut one, &other, at(0));
        for attendance in [&one, &other] {
            let expected = "an Envoy of the Gateway shop/web has more to tell";
            assert_eq!(attendance.gaps_of(GROUP, at(0)).words(), [expected]);
        }
        other.receive(GROUP, &report(7), at(2));
        ask(&mut one, &other, at(2));
        assert!(one.gaps_of(GROUP, at(2)).is_complete());
    }

    #[test]
    fn a_replica_that_does_not_answer_is_a_gap() {
        let (mut one, other) = (settled(), settled());
        assert!(one.gaps(at(0)).is_complete(), "nobody shares a Lease");
        one.expect(None::<std::iter::Empty<_>>, at(0));
        assert!(one.gaps(at(0)).words()[0].contains("does not know its other replicas"));
        let name = "other".to_owned();
        one.expect(Some([&name].into_iter()), at(1));
        let unasked = "the replica other of the controller does not answer: it was not asked yet";
        assert_eq!(one.gaps(at(1)).words(), [unasked]);
        ask(&mut one, &other, at(2));
        assert!(one.gaps(at(2)).is_complete());
        one.answered("other", Err("no answer in time".to_owned()));
        one.expect(Some([&name].into_iter()), at(3));
        let silent = "the replica other of the controller does not answer: no answer in time";
        assert_eq!(one.gaps(at(3)).words(), [silent]);
        // It ends, and its Envoys go to others.
        one.expect(Some(std::iter::empty()), at(4));
        assert!(one.gaps(at(18)).words()[0].contains("has just ended"));
        assert!(one.gaps(at(19)).is_complete());
    }
}
