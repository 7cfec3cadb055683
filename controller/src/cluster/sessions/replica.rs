//! Messages between replicas: what each knows of sessions, because Envoys report to any of them.

use std::time::Duration;

use limpet_core::census::report::{BackendReport, RestartReport};
use limpet_core::time::Timestamp;
use prost::Message;
use tokio::sync::watch;

use super::attendance::GatewayAttendance;
use super::places::ClusterId;
use crate::cluster::reconcile::keyring::PublishedKeys;
use crate::time_format;

/// What has changed of a replica's knowledge.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReplicaKnowledge {
    /// Another number after a restart.
    #[prost(fixed64, tag = "1")]
    pub(crate) process: u64,
    /// See [`limpet_core::census::report::Answer`].
    #[prost(fixed64, tag = "2")]
    pub(crate) memory: u64,
    /// Since when sessions are counted: Unix time in milliseconds; 0: not published yet.
    #[prost(uint64, tag = "3")]
    pub(crate) since: u64,
    /// The number of the last change. Another replica asks for later ones.
    #[prost(uint64, tag = "4")]
    pub(crate) changes: u64,
    /// Backends that have changed, earliest changes first.
    #[prost(message, repeated, tag = "5")]
    pub(crate) accounts: Vec<HostAccount>,
    /// All moves that Envoys reported to this replica.
    #[prost(message, repeated, tag = "6")]
    pub(crate) moves: Vec<RestartReport>,
    /// All requests in flight that Envoys report to this replica.
    #[prost(message, repeated, tag = "7")]
    pub(crate) loads: Vec<HostLoad>,
    /// Hosts with uncounted sessions.
    #[prost(message, repeated, tag = "8")]
    pub(crate) incomplete: Vec<IncompleteHost>,
    /// Whether there are more changes.
    #[prost(bool, tag = "9")]
    pub(crate) more: bool,
    #[prost(message, repeated, tag = "10")]
    pub(crate) envoys: Vec<GatewayAttendance>,
}

impl ReplicaKnowledge {
    /// Fails if no replica can know it.
    pub(super) fn check(&self, now: Timestamp) -> Result<(), String> {
        let since = Timestamp::from_unix_millis(self.since);
        if since > now.after(AHEAD) {
            return Err(format!("it counts sessions since {}", time_format::exact(since)));
        }
        // A random number of 64 bits, from which hardly anything was taken.
        if self.memory < LEAST_MEMORY || self.process == 0 {
            return Err(format!("it is the memory {} of process {}", self.memory, self.process));
        }
        Ok(())
    }
}

/// How far another replica's clock may be ahead.
const AHEAD: Duration = Duration::from_secs(60);
/// Lower numbers are refused: a memory has one with a chance of one in four thousand million.
const LEAST_MEMORY: u64 = 1 << 32;

/// The sessions of a host, as one group of Envoys reports them.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HostAccount {
    /// The 16 bytes of the cluster's id.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) cluster: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) group: String,
    /// Without its destination. `requests` are all that Envoys reported to this replica.
    #[prost(message, optional, tag = "3")]
    pub(crate) report: Option<BackendReport>,
}

impl HostAccount {
    /// `None` if a part is missing.
    pub(super) fn read(self) -> Option<(ClusterId, String, BackendReport)> {
        let cluster = self.cluster.try_into().ok()?;
        Some((ClusterId(cluster), self.group, self.report?))
    }
}

/// A host with uncounted sessions.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct IncompleteHost {
    /// The 16 bytes of the cluster's id.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) cluster: Vec<u8>,
    /// Only its host counts.
    #[prost(message, optional, tag = "2")]
    pub(crate) host: Option<BackendReport>,
    /// Until when uncounted sessions may live: Unix time in milliseconds.
    #[prost(uint64, tag = "3")]
    pub(crate) until: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HostLoad {
    /// The 16 bytes of the cluster's id.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) cluster: Vec<u8>,
    /// Only its host counts.
    #[prost(message, optional, tag = "2")]
    pub(crate) host: Option<BackendReport>,
    #[prost(uint64, tag = "3")]
    pub(crate) in_flight: u64,
}

#[derive(Clone, PartialEq, Message)]
struct SealedAnswer {
    /// A [`ReplicaKnowledge`].
    #[prost(bytes = "vec", tag = "1")]
    told: Vec<u8>,
    /// See [`AnswerSealing`].
    #[prost(bytes = "vec", tag = "2")]
    seal: Vec<u8>,
}

/// Seals answers between replicas. A seal holds for the question and the name of the replica that was asked, so no
/// replica can repeat another one's answer.
#[derive(Debug, Clone)]
pub(crate) struct AnswerSealing {
    replica: String,
    keys: watch::Receiver<PublishedKeys>,
}

impl AnswerSealing {
    /// `replica`: the own name.
    pub(crate) fn new(replica: String, keys: watch::Receiver<PublishedKeys>) -> Self {
        Self { replica, keys }
    }

    /// `None` without a keyring.
    pub(super) fn seal(&self, question: u64, told: &ReplicaKnowledge) -> Option<Vec<u8>> {
        let told = told.encode_to_vec();
        let seals = self.keys.borrow().seals.clone()?;
        let seal = seals.seal(&head(&self.replica, question), &told)?.to_vec();
        Some(SealedAnswer { told, seal }.encode_to_vec())
    }

    /// Fails if it answers another question, or is another replica's.
    pub(super) fn open(&self, replica: &str, question: u64, answer: &[u8]) -> Result<ReplicaKnowledge, String> {
        let sealed = SealedAnswer::decode(answer).map_err(|error| error.to_string())?;
        let seals = self.keys.borrow().seals.clone();
        let seals = seals.ok_or("there is no keyring yet")?;
        if !seals.verifies(&head(replica, question), &sealed.told, &sealed.seal) {
            return Err("the answer is not of a replica with the same keyring".to_owned());
        }
        ReplicaKnowledge::decode(&*sealed.told).map_err(|error| error.to_string())
    }
}

fn head(replica: &str, question: u64) -> Vec<u8> {
    let len = u32::try_from(replica.len()).unwrap_or(u32::MAX);
    [&question.to_be_bytes()[..], &len.to_be_bytes(), replica.as_bytes()].concat()
}

/// Which changes a replica is asked for: those after these, of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChangesAfter {
    pub(crate) process: u64,
    pub(crate) changes: u64,
}

impl ChangesAfter {
    /// The question's number is in the answer's seal.
    pub(crate) fn query(self, question: u64) -> String {
        format!("process={}&changes={}&question={question}", self.process, self.changes)
    }

    /// Missing numbers are zero, which no process has: so it asks for everything.
    pub(crate) fn of_query(query: &str) -> (Self, u64) {
        let (mut after, mut question) = (Self::default(), 0);
        for (name, value) in query.split('&').filter_map(|part| part.split_once('=')) {
            let value = value.parse().unwrap_or_default();
            match name {
                "process" => after.process = value,
                "changes" => after.changes = value,
                "question" => question = value,
                _ => {}
            }
        }
        (after, question)
    }
}
