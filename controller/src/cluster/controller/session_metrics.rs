//! The metrics of sessions. They are made of what is known at each request, so nothing is left of pods that are gone.

use std::collections::BTreeMap;
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
        let by_pod = |value: fn(&PodSessions) -> u64| by_name(&sessions.pods, value);
        let help = "Sessions that had a request within their idle bound, by pod and Service.";
        let living = by_pod(|pod| pod.sessions.try_into().unwrap_or(u64::MAX));
        gauges::write(&mut encoder, "limpet_sessions", help, living)?;
        let help = "Requests in flight, by pod and Service, WebSockets among them.";
        gauges::write(&mut encoder, "limpet_session_streams", help, by_pod(|pod| pod.streams))?;
        let help = "Above 0 if there may be sessions that nobody told of, by pod and Service.";
        let doubtful = by_pod(|pod| u64::from(!pod.gaps.is_complete()));
        gauges::write(&mut encoder, "limpet_sessions_incomplete", help, doubtful)?;
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

/// The sums of a value. A pod that is made anew under its name is another row, and the same metric.
fn by_name(
    pods: &[PodSessions],
    value: impl Fn(&PodSessions) -> u64,
) -> impl Iterator<Item = ([(&'static str, &str); 3], u64)> {
    let mut sums: BTreeMap<[&str; 3], u64> = BTreeMap::new();
    for pod in pods {
        let sum = sums.entry([&pod.namespace, &pod.pod, &pod.service]).or_default();
        *sum = sum.saturating_add(value(pod));
    }
    sums.into_iter().map(|([namespace, pod, service], sum)| {
        let labels = [("namespace", namespace), ("pod", pod), ("service", service)];
        (labels, sum)
    })
}
