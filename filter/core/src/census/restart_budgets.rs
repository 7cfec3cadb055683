use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use super::Backend;
use super::report::ShedBudget;
use crate::time::Timestamp;
use crate::token::DestinationId;

/// How long budgets last without another answer: longer than an Envoy without requests is silent
/// ([`super::report::SILENCE`]).
pub const LIFE: Duration = Duration::from_secs(15);
/// How long a host that did not answer gets no session.
const AWAY: Duration = Duration::from_secs(300);
/// The most hosts in [`UnansweredHosts`]: each cost a session, and answers name few.
const MAX_MISSED: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct RestartBudgets {
    since: Timestamp,
    left: Vec<ShedBudget>,
    pub(super) missed: UnansweredHosts,
}

/// Hosts that did not answer a session sent there, and when. The controller does not know their health, and would lose
/// another.
#[derive(Debug, Default)]
pub(super) struct UnansweredHosts(HashMap<(DestinationId, SocketAddr), Timestamp>);

impl RestartBudgets {
    pub(super) fn replace(&mut self, sheds: &[ShedBudget], now: Timestamp) {
        self.since = now;
        sheds.clone_into(&mut self.left);
    }

    pub(super) fn consume(&mut self, backend: &Backend, now: Timestamp) -> Option<SocketAddr> {
        if now.since(self.since) > LIFE {
            return None;
        }
        let Self { left, missed, .. } = self;
        ShedBudget::consume(left, backend, |host| !missed.has(backend.destination, host, now))
    }
}

impl UnansweredHosts {
    pub(super) fn add(&mut self, destination: DestinationId, host: SocketAddr, at: Timestamp) {
        self.0.retain(|_, missed| at.since(*missed) < AWAY);
        if self.0.len() < MAX_MISSED {
            self.0.insert((destination, host), at);
        }
    }

    pub(super) fn has(&self, destination: DestinationId, host: SocketAddr, now: Timestamp) -> bool {
        let missed = self.0.get(&(destination, host));
        missed.is_some_and(|missed| now.since(*missed) < AWAY)
    }
}
