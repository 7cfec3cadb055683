//! Tells the controller of the sessions that this VM has seen. Each worker has a VM, and reports for itself.

use limpet_core::census::Census;
use limpet_core::census::report::{Answer, METHOD, PATIENCE, Report, SERVICE};
use limpet_core::config::schema::ReportSessionsConfig;
use prost::Message as _;
use proxy_wasm::hostcalls;
use proxy_wasm::types::BufferType;

use crate::census::CENSUS;
use crate::host;
use crate::table::Seed;

/// Reports for a configuration.
#[derive(Debug)]
pub(crate) struct Reporter {
    cluster: String,
    node_cluster: String,
    /// The report that waits for its answer, and the number of the call.
    pending: Option<(u32, Report)>,
    /// How many intervals have passed without a report.
    idle: u32,
}

impl Reporter {
    pub(crate) fn new(rules: &ReportSessionsConfig, seed: Seed) -> Self {
        CENSUS.with_borrow_mut(|census| {
            let census = census.get_or_insert_with(|| Census::new(seed, rules.max_backends));
            census.limit(rules.max_backends);
        });
        Self {
            cluster: rules.cluster.clone(),
            node_cluster: rules.node_cluster.clone(),
            pending: None,
            idle: 0,
        }
    }

    /// Sends what has changed, unless the last report has no answer yet.
    pub(crate) fn report(&mut self) {
        if self.pending.is_some() {
            return;
        }
        // Without the time, there is another tick.
        let Ok(now) = host::now() else { return };
        let report = CENSUS.with_borrow(|census| {
            let census = census.as_ref()?;
            census.next_report(&self.node_cluster, &mut self.idle, now)
        });
        let Some(report) = report else { return };
        let message = report.encode_to_vec();
        let call = hostcalls::dispatch_grpc_call(&self.cluster, SERVICE, METHOD, Vec::new(), Some(&message), PATIENCE);
        match call {
            Ok(call) => self.pending = Some((call, report)),
            // The cluster has no connection, or does not exist.
            Err(_) => take_back(report),
        }
    }

    /// A call has ended with this gRPC status, and an answer of so many bytes.
    pub(crate) fn on_answer(&mut self, call: u32, status: u32, size: usize) {
        let Some((_, report)) = self.pending.take_if(|(pending, _)| *pending == call) else {
            return;
        };
        let answer = || {
            let message = hostcalls::get_buffer(BufferType::GrpcReceiveBuffer, 0, size).ok()?;
            Answer::decode(message.unwrap_or_default().as_slice()).ok()
        };
        match (status == 0).then(answer).flatten() {
            Some(answer) => CENSUS.with_borrow(|census| {
                // Without the time, there is another answer.
                if let (Some(census), Ok(now)) = (census, host::now()) {
                    census.arrived(&answer, now);
                }
            }),
            None => take_back(report),
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if let Some((_, report)) = self.pending.take() {
            take_back(report);
        }
    }
}

fn take_back(report: Report) {
    CENSUS.with_borrow(|census| {
        if let Some(census) = census {
            census.merge(report);
        }
    });
}
