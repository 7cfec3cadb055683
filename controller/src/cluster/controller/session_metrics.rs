//! The metrics of sessions. They are made of what is known at each request, so nothing is left of pods that are gone.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::context::Context;
use super::gauges;
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
        let sessions = self.book.recent();
        let by_pod = |value: fn(&PodSessions) -> u64| sessions.pods.iter().map(move |pod| (labels(pod), value(pod)));
        let help = "Sessions that had a request within their idle bound, by pod and Service.";
        let living = by_pod(|pod| pod.sessions.try_into().unwrap_or(u64::MAX));
        gauges::write(&mut encoder, "limpet_sessions", help, living)?;
        let help = "Requests in flight, by pod and Service, WebSockets among them.";
        gauges::write(&mut encoder, "limpet_session_streams", help, by_pod(|pod| pod.streams))?;
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

fn labels(pod: &PodSessions) -> [(&'static str, &str); 3] {
    [
        ("namespace", &pod.namespace),
        ("pod", &pod.pod),
        ("service", &pod.service),
    ]
}
