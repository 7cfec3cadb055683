//! Reports the sessions of this process's VMs to the controller: one VM for all, because each would need its own
//! connection.
//!
//! The others hand their changes to it as if it were the controller: if it changes, they start again.

mod lease;
mod queue;

use std::sync::Arc;
use std::time::Duration;

use limpet_core::census::Census;
use limpet_core::census::report::{METHOD, PATIENCE, Report, ReportResponse, SERVICE};
use limpet_core::config::schema::ReportSessionsConfig;
use limpet_core::time::Timestamp;
use prost::Message as _;
use proxy_wasm::hostcalls;
use proxy_wasm::types::{BufferType, Status};

use crate::budgets::{self, UnreportedRestarts};
use crate::census::CENSUS;
use crate::host;
use crate::table::HashSeed;
use crate::tick::TICK;
pub(crate) use lease::mark_serving;
use lease::{Lease, LeaseRole};
use queue::ReportQueue;

/// Turns in an interval, so that a report has recent data.
const TURNS: u32 = 2;

#[derive(Debug)]
pub(crate) struct WasmReporter {
    cluster: String,
    node_cluster: String,
    lease: Lease,
    queue: ReportQueue,
    untold: UnreportedRestarts,
    /// The report that waits for its answer, with the number of its call.
    pending: Option<(u32, Arc<Report>)>,
    /// How many ticks a turn has, and how many have passed.
    ticks: (u32, u32),
    turns: u32,
    /// Intervals without a report.
    idle: u32,
}

impl WasmReporter {
    pub(crate) fn start(rules: &ReportSessionsConfig, seed: HashSeed) -> Result<Self, Status> {
        let queue = ReportQueue::open()?;
        CENSUS.with_borrow_mut(|census| {
            let census = census.get_or_insert_with(|| Census::new(seed, rules.max_backends));
            census.limit(rules.max_backends);
        });
        Ok(Self {
            cluster: rules.cluster.clone(),
            node_cluster: rules.node_cluster.clone(),
            lease: Lease::default(),
            queue,
            untold: UnreportedRestarts::default(),
            pending: None,
            ticks: (ticks_of_turn(rules.interval.get() / TURNS), 0),
            turns: 0,
            idle: 0,
        })
    }

    pub(crate) fn tick(&mut self) {
        let (of_turn, passed) = &mut self.ticks;
        *passed += 1;
        if *passed >= *of_turn {
            *passed = 0;
            self.turn();
        }
    }

    fn turn(&mut self) {
        CENSUS.with_borrow(|census| {
            // Without the time, the next turn does it.
            let (Some(census), Ok(now)) = (census, host::now()) else {
                return;
            };
            self.turns = (self.turns + 1) % TURNS;
            let reports = self.turns == 0;
            match self.lease.turn(census.reporter()) {
                LeaseRole::Reports => {
                    self.queue.drain().for_each(|report| census.merge(report));
                    if reports {
                        self.report(census, now);
                    }
                }
                LeaseRole::HandsOver(to) => {
                    self.hand_over(census, to, now);
                    // What this VM sent itself counts once by its number, and would count again in another's report.
                    if reports && let Some(report) = census.pending_report() {
                        self.send(census, report);
                    }
                }
                LeaseRole::Waits => {}
            }
        });
    }

    fn report(&mut self, census: &Census, now: Timestamp) {
        let again = census.pending_report();
        let is_new = again.is_none();
        let next = || census.next_report(&self.node_cluster, &mut self.idle, now);
        let Some(report) = again.or_else(next) else {
            return;
        };
        if is_new {
            self.untold.settle();
        }
        self.send(census, report);
    }

    fn send(&mut self, census: &Census, report: Arc<Report>) {
        let message = report.encode_to_vec();
        let call = hostcalls::dispatch_grpc_call(&self.cluster, SERVICE, METHOD, Vec::new(), Some(&message), PATIENCE);
        match call {
            Ok(call) => self.pending = Some((call, report)),
            // The cluster has no connection, or does not exist.
            Err(_) => census.report_unsent(),
        }
    }

    fn hand_over(&self, census: &Census, to: u64, now: Timestamp) {
        if let Some(report) = census.report(now)
            && !self.queue.push(&report)
        {
            census.merge(report);
        }
        let (sheds, since) = budgets::remaining();
        let answer = ReportResponse {
            memory: to,
            process: to,
            sheds,
        };
        census.apply(&answer, since);
    }

    pub(crate) fn on_answer(&mut self, call: u32, status: u32, size: usize) {
        let Some((_, report)) = self.pending.take_if(|(pending, _)| *pending == call) else {
            return;
        };
        let answer = || {
            let message = hostcalls::get_buffer(BufferType::GrpcReceiveBuffer, 0, size).ok()?;
            ReportResponse::decode(message.unwrap_or_default().as_slice()).ok()
        };
        let answer = (status == 0).then(answer).flatten();
        CENSUS.with_borrow(|census| {
            let Some(census) = census else { return };
            match (answer, host::now()) {
                (Some(mut answer), Ok(now)) => {
                    self.untold.on_report(&report);
                    // Another reporter has its own budget.
                    let given = if self.lease.is_held() {
                        std::mem::take(&mut answer.sheds)
                    } else {
                        Vec::new()
                    };
                    let sheds = self.untold.withhold(given);
                    budgets::publish(&sheds, now);
                    census.receive(&ReportResponse { sheds, ..answer }, now);
                }
                // Without the time, the next answer counts.
                (_, Err(_)) | (None, _) => census.report_failed(),
            }
        });
    }
}

fn ticks_of_turn(turn: Duration) -> u32 {
    u32::try_from(turn.as_millis() / TICK.as_millis()).map_or(u32::MAX, |ticks| ticks.max(1))
}

impl Drop for WasmReporter {
    fn drop(&mut self) {
        if self.pending.is_some() {
            CENSUS.with_borrow(|census| census.iter().for_each(Census::report_failed));
        }
    }
}
