//! What VMs hand over to the one that reports: a shared queue of Envoy's. It outlives any of them.

use limpet_core::census::report::Report;
use prost::Message as _;
use proxy_wasm::hostcalls;
use proxy_wasm::types::Status;

const NAME: &str = "limpet.sessions.reports";
/// How many reports are taken in one tick: more than an Envoy has workers.
const MOST: usize = 1024;

#[derive(Debug)]
pub(super) struct Queue(u32);

impl Queue {
    /// The queue of the process. The first VM makes it.
    pub(super) fn open() -> Result<Self, Status> {
        hostcalls::register_shared_queue(NAME).map(Self)
    }

    /// Returns whether the report is handed over.
    pub(super) fn put(&self, report: &Report) -> bool {
        hostcalls::enqueue_shared_queue(self.0, Some(&report.encode_to_vec())).is_ok()
    }

    /// Takes what was handed over.
    pub(super) fn take(&self) -> impl Iterator<Item = Report> {
        let next = || hostcalls::dequeue_shared_queue(self.0).ok().flatten();
        // Only VMs of the same kind write into it.
        std::iter::from_fn(next)
            .take(MOST)
            .filter_map(|bytes| Report::decode(bytes.as_slice()).ok())
    }
}
