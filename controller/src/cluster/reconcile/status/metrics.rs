use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

/// Clones share their values.
#[derive(Debug, Clone, Default)]
pub(crate) struct StatusMetrics {
    pub(crate) leads: Gauge,
    pub(crate) writes: Family<WriteLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct WriteLabels {
    result: &'static str,
}

impl StatusMetrics {
    /// `result`: `written`, `unchanged`, `gone`, `conflict` or `failed`.
    pub(super) fn wrote(&self, result: &'static str) {
        self.writes.get_or_create(&WriteLabels { result }).inc();
    }
}
