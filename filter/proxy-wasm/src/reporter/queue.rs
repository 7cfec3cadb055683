//! The reports that VMs hand over, in a shared queue of Envoy's, which outlives them.

use limpet_core::census::report::Report;
use prost::Message as _;
use proxy_wasm::hostcalls;
use proxy_wasm::types::Status;

const NAME: &str = "limpet.sessions.reports";
/// Reports taken in one tick: more than Envoy has workers.
const MOST: usize = 1024;

#[derive(Debug)]
pub(super) struct ReportQueue(u32);

impl ReportQueue {
    pub(super) fn open() -> Result<Self, Status> {
        hostcalls::register_shared_queue(NAME).map(Self)
    }

    /// Returns whether the report is handed over.
    pub(super) fn push(&self, report: &Report) -> bool {
        hostcalls::enqueue_shared_queue(self.0, Some(&report.encode_to_vec())).is_ok()
    }

    pub(super) fn drain(&self) -> impl Iterator<Item = Report> {
        let next = || hostcalls::dequeue_shared_queue(self.0).ok().flatten();
        // Only VMs of the same kind write into it.
        std::iter::from_fn(next)
            .take(MOST)
            .filter_map(|bytes| Report::decode(bytes.as_slice()).ok())
    }
}
