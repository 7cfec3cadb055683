//! What a replica knows of sessions, for the others: Envoys tell any of them.

use limpet_core::census::report::{BackendReport, Restart};
use prost::Message;

/// What a replica knows, as far as it has changed.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Replica {
    /// Which process this is: another one after a restart.
    #[prost(fixed64, tag = "1")]
    pub(crate) process: u64,
    /// The memory that this is: see [`limpet_core::census::report::Answer`].
    #[prost(fixed64, tag = "2")]
    pub(crate) memory: u64,
    /// Since when: Unix time in milliseconds.
    #[prost(uint64, tag = "3")]
    pub(crate) since: u64,
    /// How many changes there were. Whoever knows these asks for what came after.
    #[prost(uint64, tag = "4")]
    pub(crate) changes: u64,
    /// All that is known of backends that have changed. `requests` are all that Envoys told this replica.
    #[prost(message, repeated, tag = "5")]
    pub(crate) backends: Vec<BackendReport>,
    /// All moves that Envoys told this replica.
    #[prost(message, repeated, tag = "6")]
    pub(crate) moves: Vec<Restart>,
    /// All requests in flight that Envoys tell this replica.
    #[prost(message, repeated, tag = "7")]
    pub(crate) loads: Vec<HostLoad>,
}

/// Requests in flight to a host.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HostLoad {
    /// The host; nothing else of it counts.
    #[prost(message, optional, tag = "1")]
    pub(crate) host: Option<BackendReport>,
    #[prost(uint64, tag = "2")]
    pub(crate) in_flight: u64,
}

/// What to ask a replica for: what came after these changes of this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct After {
    pub(crate) process: u64,
    pub(crate) changes: u64,
}

impl After {
    /// The query of the page.
    pub(crate) fn query(self) -> String {
        format!("process={}&changes={}", self.process, self.changes)
    }

    /// Reads the query. Whatever it lacks is zero, which no process is: so it asks for everything.
    pub(crate) fn of_query(query: &str) -> Self {
        let mut after = Self::default();
        for (name, value) in query.split('&').filter_map(|part| part.split_once('=')) {
            let value = value.parse().unwrap_or_default();
            match name {
                "process" => after.process = value,
                "changes" => after.changes = value,
                _ => {}
            }
        }
        after
    }
}
