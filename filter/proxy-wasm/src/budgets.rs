//! The controller's budget for this process: how many sessions may restart, in Envoy's shared data. Workers take one by
//! one, so together they never take more.

use std::collections::HashMap;
use std::net::SocketAddr;

use limpet_core::census::Backend;
use limpet_core::census::report::{Report, ShedBudget};
use limpet_core::time::Timestamp;
use prost::Message;
use proxy_wasm::hostcalls;
use proxy_wasm::types::Status;

const NAME: &str = "limpet.sessions.budgets";
/// How often a change is retried after another worker's.
const ATTEMPTS: usize = 16;

/// The hash of a cluster's name, and its host.
type BudgetHost = (u32, SocketAddr);

#[derive(Clone, PartialEq, Message)]
struct SharedBudgets {
    /// Unix time in milliseconds.
    #[prost(uint64, tag = "1")]
    since: u64,
    #[prost(message, repeated, tag = "2")]
    given: Vec<ShedBudget>,
    /// What is left, in the same order.
    #[prost(message, repeated, tag = "3")]
    left: Vec<ShedBudget>,
}

impl SharedBudgets {
    fn taken(&self) -> HashMap<BudgetHost, u32> {
        let mut taken = HashMap::new();
        for (given, left) in std::iter::zip(&self.given, &self.left) {
            for (before, after) in std::iter::zip(&given.hosts, &left.hosts) {
                let sessions = before.sessions.saturating_sub(after.sessions);
                if let Some(host) = before.host().filter(|_| sessions > 0) {
                    taken.insert((given.destination, host), sessions);
                }
            }
        }
        taken
    }
}

/// Sessions let go and not yet reported, for which the controller would give the same budget again.
#[derive(Debug, Default)]
pub(crate) struct UnreportedRestarts {
    /// Let go before the last report, which would contain them.
    former: HashMap<BudgetHost, u32>,
    /// Let go since.
    latest: HashMap<BudgetHost, u32>,
}

impl UnreportedRestarts {
    /// Takes back what is left, because a report is about to be sent.
    pub(crate) fn settle(&mut self) {
        self.rotate(change(|budgets| {
            let taken = budgets.taken();
            (std::mem::take(budgets) != SharedBudgets::default()).then_some(taken)
        }));
    }

    fn rotate(&mut self, taken: Option<HashMap<BudgetHost, u32>>) {
        self.former = std::mem::replace(&mut self.latest, taken.unwrap_or_default());
    }

    pub(crate) fn on_report(&mut self, report: &Report) {
        for change in &report.backends {
            let Some(backend) = change.backend() else { continue };
            let host = (change.destination, backend.host);
            let mut told: u64 = change.rebalanced.iter().map(|window| window.sessions).sum();
            for untold in [&mut self.former, &mut self.latest] {
                if let Some(sessions) = untold.get_mut(&host) {
                    let less = u32::try_from(told).unwrap_or(u32::MAX).min(*sessions);
                    *sessions -= less;
                    told -= u64::from(less);
                }
            }
        }
    }

    /// What workers may take of the controller's budget. A session let go before the last report and missing in it has
    /// stayed: load balancing chose the same backend. What others lack is the controller's figure, which already holds
    /// back what this process had.
    pub(crate) fn withhold(&self, mut sheds: Vec<ShedBudget>) -> Vec<ShedBudget> {
        for shed in &mut sheds {
            let all = self.latest.iter().filter(|((of, _), _)| *of == shed.destination);
            let all: u32 = all.map(|(_, sessions)| sessions).sum();
            shed.sessions = shed.sessions.saturating_sub(all);
            for host in &mut shed.hosts {
                let place = host.host().map(|host| (shed.destination, host));
                let untold = place.and_then(|place| self.latest.get(&place));
                host.sessions = host.sessions.saturating_sub(untold.copied().unwrap_or_default());
            }
        }
        sheds
    }
}

fn change<T>(change: impl Fn(&mut SharedBudgets) -> Option<T>) -> Option<T> {
    for _ in 0..ATTEMPTS {
        let (bytes, version) = hostcalls::get_shared_data(NAME).ok()?;
        let mut budgets = SharedBudgets::decode(bytes?.as_slice()).ok()?;
        let result = change(&mut budgets)?;
        match hostcalls::set_shared_data(NAME, Some(&budgets.encode_to_vec()), version) {
            Ok(()) => return Some(result),
            Err(Status::CasMismatch) => {}
            Err(_) => return None,
        }
    }
    None
}

pub(crate) fn publish(sheds: &[ShedBudget], now: Timestamp) {
    if sheds.is_empty() {
        return;
    }
    let budgets = SharedBudgets {
        since: now.unix_millis(),
        given: sheds.to_vec(),
        left: sheds.to_vec(),
    };
    // Without shared data, every session stays.
    let _: Result<(), Status> = hostcalls::set_shared_data(NAME, Some(&budgets.encode_to_vec()), None);
}

pub(crate) fn remaining() -> (Vec<ShedBudget>, Timestamp) {
    let kept = hostcalls::get_shared_data(NAME).ok().and_then(|(bytes, _)| bytes);
    let budgets = kept.and_then(|bytes| SharedBudgets::decode(bytes.as_slice()).ok());
    let SharedBudgets { left, since, .. } = budgets.unwrap_or_default();
    (left, Timestamp::from_unix_millis(since))
}

/// Takes one session of this backend that may move. Returns its new host.
pub(crate) fn consume(backend: &Backend, is_there: impl Fn(SocketAddr) -> bool) -> Option<SocketAddr> {
    change(|budgets| ShedBudget::consume(&mut budgets.left, backend, &is_there))
}

#[cfg(test)]
mod tests;
