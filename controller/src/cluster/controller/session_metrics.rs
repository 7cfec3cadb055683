//! The metrics of sessions, made at each request. Of pods that are gone, they have only the requests in flight, so that
//! the sum of a Service counts living sessions.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::context::ControllerContext;
use super::gauges;
use crate::cluster::sessions::{PodSessions, SessionRegistry};

/// Only the leader has them: other replicas would count everything twice.
#[derive(Debug)]
pub(super) struct SessionMetrics {
    leads: watch::Receiver<bool>,
    session_registry: SessionRegistry,
}

impl SessionMetrics {
    pub(super) fn register(registry: &mut Registry, context: &ControllerContext, session_registry: &SessionRegistry) {
        registry.register_collector(Box::new(Self {
            leads: context.leads.clone(),
            session_registry: session_registry.clone(),
        }));
    }
}

impl Collector for SessionMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        if !*self.leads.borrow() {
            return Ok(());
        }
        let sessions = self.session_registry.recent();
        let there = || there(&sessions.pods);
        let help = "Sessions that had a request within their idle bound, by pod and Service.";
        let living = by_name(there(), |pod| pod.sessions.try_into().unwrap_or(u64::MAX));
        gauges::write(&mut encoder, "limpet_sessions", help, living)?;
        let help = "Requests in flight, by pod and Service, WebSockets among them.";
        let in_flight = by_name(&sessions.pods, |pod| pod.streams);
        gauges::write(&mut encoder, "limpet_session_streams", help, in_flight)?;
        let help = "Above 0 if there may be sessions that no Envoy reported, by pod and Service.";
        let doubtful = by_name(there(), |pod| u64::from(!pod.gaps.is_complete()));
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

fn there(pods: &[PodSessions]) -> impl Iterator<Item = &PodSessions> {
    pods.iter().filter(|pod| pod.state.is_backend())
}

/// Sums by name, because a recreated pod is another row, and the same metric.
fn by_name<'a>(
    pods: impl IntoIterator<Item = &'a PodSessions>,
    value: impl Fn(&PodSessions) -> u64,
) -> impl Iterator<Item = ([(&'static str, &'a str); 3], u64)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::sessions::{CountGaps, PodState};

    #[test]
    fn a_pod_that_is_gone_is_in_no_sum_of_sessions() {
        let of = |uid: &str, state, sessions| PodSessions {
            namespace: "shop".to_owned(),
            service: "cart".to_owned(),
            pod: "cart-0".to_owned(),
            uid: Some(uid.into()),
            address: ([10, 0, 0, 1], 8080).into(),
            state,
            sessions,
            streams: 0,
            requests: 0,
            last_use: None,
            oldest: None,
            gaps: CountGaps::default(),
        };
        // A StatefulSet gives a new pod the same name.
        let pods = [of("a", PodState::Gone, 48), of("b", PodState::Draining, 41)];
        let sums: Vec<u64> = by_name(there(&pods), |pod| pod.sessions as u64)
            .map(|(_, sum)| sum)
            .collect();
        assert_eq!(sums, [41]);
    }
}
