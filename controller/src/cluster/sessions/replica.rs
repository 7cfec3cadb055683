//! What a replica knows of sessions, for the others: Envoys tell any of them.

use std::time::Duration;

use limpet_core::census::report::{BackendReport, Restart};
use limpet_core::time::Timestamp;
use prost::Message;
use tokio::sync::watch;

use super::attendance::GatewayAttendance;
use super::places::ClusterId;
use crate::cluster::reconcile::keyring::PublishedKeys;
use crate::time_format;

/// What a replica knows, as far as it has changed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ReplicaKnowledge {
    /// Which process this is: another one after a restart.
    #[prost(fixed64, tag = "1")]
    pub(crate) process: u64,
    /// The memory that this is: see [`limpet_core::census::report::Answer`].
    #[prost(fixed64, tag = "2")]
    pub(crate) memory: u64,
    /// Since when: Unix time in milliseconds; 0 if it has not published yet.
    #[prost(uint64, tag = "3")]
    pub(crate) since: u64,
    /// How many changes there were. Another replica asks for later ones.
    #[prost(uint64, tag = "4")]
    pub(crate) changes: u64,
    /// All that is known of backends that have changed, the first of these changes first.
    #[prost(message, repeated, tag = "5")]
    pub(crate) accounts: Vec<HostAccount>,
    /// All moves that Envoys told this replica.
    #[prost(message, repeated, tag = "6")]
    pub(crate) moves: Vec<Restart>,
    /// All requests in flight that Envoys tell this replica.
    #[prost(message, repeated, tag = "7")]
    pub(crate) loads: Vec<HostLoad>,
    /// The hosts of which it does not know all that Envoys told.
    #[prost(message, repeated, tag = "8")]
    pub(crate) incomplete: Vec<IncompleteHost>,
    /// Whether there are more changes than one answer tells.
    #[prost(bool, tag = "9")]
    pub(crate) more: bool,
    /// Its Envoys, by Gateway.
    #[prost(message, repeated, tag = "10")]
    pub(crate) envoys: Vec<GatewayAttendance>,
}

impl ReplicaKnowledge {
    /// Whether a replica may say so.
    ///
    /// # Errors
    /// What no replica says.
    pub(super) fn check(&self, now: Timestamp) -> Result<(), String> {
        let since = Timestamp::from_unix_millis(self.since);
        // Clocks differ by little.
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
/// No memory has a lower number: hardly ever one of four thousand million.
const LEAST_MEMORY: u64 = 1 << 32;

/// The sessions of a host, as one group of Envoys tells of them.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HostAccount {
    /// The 16 bytes of the cluster's id.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) cluster: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) group: String,
    /// Its destination does not count. `requests` are all that Envoys told this replica.
    #[prost(message, optional, tag = "3")]
    pub(crate) report: Option<BackendReport>,
}

impl HostAccount {
    /// The cluster, the group and the rest; `None` if it lacks something.
    pub(super) fn read(self) -> Option<(ClusterId, String, BackendReport)> {
        let cluster = self.cluster.try_into().ok()?;
        Some((ClusterId(cluster), self.group, self.report?))
    }
}

/// A host of which not all is known.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct IncompleteHost {
    /// The 16 bytes of the cluster's id.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) cluster: Vec<u8>,
    /// The host; nothing else of it counts.
    #[prost(message, optional, tag = "2")]
    pub(crate) host: Option<BackendReport>,
    /// Until when sessions may live that are not counted: Unix time in milliseconds.
    #[prost(uint64, tag = "3")]
    pub(crate) until: u64,
}

/// Requests in flight to a host.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HostLoad {
    /// The 16 bytes of the cluster's id.
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) cluster: Vec<u8>,
    /// The host; nothing else of it counts.
    #[prost(message, optional, tag = "2")]
    pub(crate) host: Option<BackendReport>,
    #[prost(uint64, tag = "3")]
    pub(crate) in_flight: u64,
}

/// What a replica answers.
#[derive(Clone, PartialEq, Message)]
struct SealedAnswer {
    /// A [`ReplicaKnowledge`].
    #[prost(bytes = "vec", tag = "1")]
    told: Vec<u8>,
    /// By the keyring: see [`AnswerSealing`].
    #[prost(bytes = "vec", tag = "2")]
    seal: Vec<u8>,
}

/// What replicas know each other's answers by. A seal is good for the question that was asked and for the name of the
/// replica that was asked, so no replica can repeat another one's answer.
#[derive(Debug, Clone)]
pub(crate) struct AnswerSealing {
    replica: String,
    keys: watch::Receiver<PublishedKeys>,
}

impl AnswerSealing {
    /// `replica` is the own name.
    pub(crate) fn new(replica: String, keys: watch::Receiver<PublishedKeys>) -> Self {
        Self { replica, keys }
    }

    /// The answer to a question with this number; `None` if there is no keyring.
    pub(super) fn seal(&self, question: u64, told: &ReplicaKnowledge) -> Option<Vec<u8>> {
        let told = told.encode_to_vec();
        let seals = self.keys.borrow().seals.clone()?;
        let seal = seals.seal(&head(&self.replica, question), &told)?.to_vec();
        Some(SealedAnswer { told, seal }.encode_to_vec())
    }

    /// What the replica of this name answers to a question.
    ///
    /// # Errors
    /// If it is no answer to it, or another replica's.
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

/// What to ask a replica for: what came after these changes of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChangesAfter {
    pub(crate) process: u64,
    pub(crate) changes: u64,
}

impl ChangesAfter {
    /// The query of the page. The answer has the question's number in its seal.
    pub(crate) fn query(self, question: u64) -> String {
        format!("process={}&changes={}&question={question}", self.process, self.changes)
    }

    /// Reads the query. Whatever it lacks is zero, which no process is: so it asks for everything.
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
