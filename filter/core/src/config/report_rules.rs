use std::time::Duration;

use super::Problem;
use super::schema::ReportSessionsConfig;

/// A backend takes up to 15 KB.
const MAX_BACKENDS: usize = 100_000;

pub(super) fn problems(config: &ReportSessionsConfig) -> impl Iterator<Item = Problem> {
    let interval = config.interval.get();
    let rules = [
        ("cluster", config.cluster.is_empty(), "expected the name of a cluster"),
        (
            "nodeCluster",
            config.node_cluster.is_empty(),
            "expected node.cluster of this Envoy",
        ),
        (
            "interval",
            interval < Duration::from_millis(100) || interval > Duration::from_secs(3600),
            "expected a duration from 100ms to 1h",
        ),
        (
            "maxBackends",
            config.max_backends > MAX_BACKENDS,
            "expected at most 100000 backends",
        ),
    ];
    let broken = rules.into_iter().filter(|(_, is_broken, _)| *is_broken);
    broken.map(|(field, _, message)| Problem {
        field: format!("reportSessions.{field}"),
        message: message.to_owned(),
    })
}
