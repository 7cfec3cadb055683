//! Reports this process's sessions to the controller.
//!
//! A thread of ours waits; Envoy's main thread calls. All configurations share one census, so one reports for all. The
//! thread ends with the last configuration, because Envoy may unload the library then.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use limpet_core::census::report::{PATH, PATIENCE, ReportResponse};
use limpet_core::config::schema::ReportSessionsConfig;

use crate::abi::{self, EnvoyFilterConfig, LogLevel, Scheduler};
use crate::census::CENSUS;
use crate::host;

static STATE: Mutex<ReportSchedule> = Mutex::new(ReportSchedule {
    members: Vec::new(),
    thread: None,
    sender: None,
    next: 0,
    idle: 0,
});
static LEAVE: Condvar = Condvar::new();

struct ReportSchedule {
    members: Vec<ReportingFilter>,
    thread: Option<JoinHandle<()>>,
    sender: Option<u64>,
    next: u64,
    /// Intervals without a report.
    idle: u32,
}

struct ReportingFilter {
    id: u64,
    scheduler: Scheduler,
    interval: Duration,
}

#[derive(Debug)]
pub(crate) struct ModuleReporter {
    id: u64,
    cluster: String,
    node_cluster: String,
}

fn state() -> MutexGuard<'static, ReportSchedule> {
    // A panic cannot leave it half-changed.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ModuleReporter {
    /// Reports from now on, in turn with other configurations. `None` if this Envoy cannot.
    pub(crate) fn register(rules: &ReportSessionsConfig, configuring: &EnvoyFilterConfig<'_>) -> Option<Self> {
        let Some(scheduler) = configuring.scheduler() else {
            crate::plugin::warn_once("reportSessions: this Envoy has no calls for dynamic modules".to_owned());
            return None;
        };
        CENSUS.limit(rules.max_backends);
        let mut state = state();
        let id = state.next;
        state.next += 1;
        state.members.push(ReportingFilter {
            id,
            scheduler,
            interval: rules.interval.get(),
        });
        if state.thread.is_none() {
            match std::thread::Builder::new().name("limpet".to_owned()).spawn(wait) {
                Ok(thread) => state.thread = Some(thread),
                Err(error) => abi::log(LogLevel::Warn, &format!("limpet: sessions are not reported: {error}")),
            }
        }
        Some(Self {
            id,
            cluster: rules.cluster.clone(),
            node_cluster: rules.node_cluster.clone(),
        })
    }

    pub(crate) fn unregister(&self) {
        let mut state = state();
        state.members.retain(|member| member.id != self.id);
        if state.sender.take_if(|sender| *sender == self.id).is_some() {
            CENSUS.report_failed();
        }
        if state.members.is_empty()
            && let Some(thread) = state.thread.take()
        {
            LEAVE.notify_all();
            drop(state);
            // It ends at once, and its panic no longer matters.
            let _ = thread.join();
        }
    }

    /// Sends changes, unless a report is under way.
    pub(crate) fn report(&self, configured: &EnvoyFilterConfig<'_>) {
        let mut state = state();
        let Some(report) = CENSUS.next_report(&self.node_cluster, &mut state.idle, host::now()) else {
            return;
        };
        let fields = [
            (":method", "POST"),
            (":path", PATH),
            (":authority", self.cluster.as_str()),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        match configured.call(&self.cluster, &fields, &report.grpc_body(), PATIENCE) {
            Ok(()) => state.sender = Some(self.id),
            // The cluster has no connection, or does not exist.
            Err(_) => CENSUS.report_unsent(),
        }
    }

    pub(crate) fn on_answer<'a>(
        &self,
        is_answer: bool,
        mut fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        body: &[u8],
    ) {
        // A gRPC error without a message is in the header fields.
        let is_taken = is_answer
            && fields.all(|field| match field {
                (b":status", status) => status == b"200",
                (b"grpc-status", status) => status == b"0",
                _ => true,
            });
        if state().sender.take_if(|sender| *sender == self.id).is_none() {
            return;
        }
        match ReportResponse::of_grpc_body(body).filter(|_| is_taken) {
            Some(answer) => CENSUS.receive(&answer, host::now()),
            None => CENSUS.report_failed(),
        }
    }
}

fn wait() {
    let mut state = state();
    while let Some(member) = state.members.first() {
        let interval = member.interval;
        let (changed, waited) = LEAVE
            .wait_timeout(state, interval)
            .unwrap_or_else(PoisonError::into_inner);
        state = changed;
        if waited.timed_out()
            && let Some(member) = state.members.first()
        {
            member.scheduler.commit();
        }
    }
}
