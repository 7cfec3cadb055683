//! The metrics of sessions. They are made of what is known at each request, so nothing is left of pods that are gone.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::context::Context;
use crate::cluster::sessions::{Book, PodSessions};

/// The metrics of the leader. Other replicas know the same, and would count everything twice.
#[derive(Debug)]
pub(super) struct SessionMetrics {
    leads: watch::Receiver<bool>,
    book: Book,
}

impl SessionMetrics {
    pub(super) fn register(registry: &mut Registry, context: &Context, book: &Book) {
        registry.register_collector(Box::new(Self {
            leads: context.leads.clone(),
            book: book.clone(),
        }));
    }
}

impl Collector for SessionMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        if !*self.leads.borrow() {
            return Ok(());
        }
        let sessions = self.book.sessions();
        let pods = &sessions.pods;
        let help = "Sessions that had a request within their idle bound, by pod and Service.";
        gauges(&mut encoder, "limpet_sessions", help, pods, |pod| {
            pod.sessions.try_into().unwrap_or(u64::MAX)
        })?;
        let help = "Requests in flight, by pod and Service, WebSockets among them.";
        gauges(&mut encoder, "limpet_session_streams", help, pods, |pod| pod.streams)?;
        if !sessions.moves.is_empty() {
            let help = "Sessions that did not go on where they were, by reason.";
            let mut metric = encoder.encode_descriptor("limpet_session_moves", help, None, MetricType::Counter)?;
            for (reason, count) in &sessions.moves {
                let labels = [("reason", reason.as_str())];
                ConstCounter::new(*count).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn gauges(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    pods: &[PodSessions],
    value: impl Fn(&PodSessions) -> u64,
) -> fmt::Result {
    if pods.is_empty() {
        return Ok(());
    }
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for pod in pods {
        let labels = [
            ("namespace", pod.namespace.as_str()),
            ("pod", &pod.pod),
            ("service", pod.service.as_str()),
        ];
        let gauge = ConstGauge::new(i64::try_from(value(pod)).unwrap_or(i64::MAX));
        gauge.encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
