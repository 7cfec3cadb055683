//! A run's results as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::judge::Counts;
use super::{Protocol, Role, Sample, Verdict, memory_between};

/// The compared parts of the run: once everything has begun, and at the end.
const EARLY: (f64, f64) = (0.15, 0.4);
const LATE: (f64, f64) = (0.75, 1.0);

/// The largest factor by which processes' memory may grow; a leak would have far more.
pub const MOST_GROWTH: f64 = 2.0;

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    /// Versions, machine, date and build of the filter.
    pub about: Value,
    /// The number of each event.
    pub events: Vec<(&'static str, usize)>,
    /// Requests and sessions.
    pub verdict: Verdict,
    /// The filter's counters, summed over Envoys.
    pub counters: BTreeMap<String, u64>,
    /// Resource usage.
    pub samples: Vec<Sample>,
}

impl Report {
    /// The run as JSON.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "bytes of memory")]
    pub fn json(&self) -> Value {
        let verdict = &self.verdict;
        let rows = verdict.rows.iter().map(|((role, cause), row)| {
            json!({
                "what": format!("{}: {}", role.name(), cause.name()),
                "ended": row.ends,
                "moved": by_protocol(&row.moved),
                "lost": by_protocol(&row.lost),
                "refused": by_protocol(&row.refused),
                "streams": by_protocol(&row.streams),
            })
        });
        let memory = [Role::Envoy, Role::Controller].into_iter().filter_map(|role| {
            let (early, late) = self.memory(role)?;
            let ratio = (late as f64 / early as f64 * 100.0).round() / 100.0;
            Some(json!({"of": role.name(), "early": early, "late": late, "ratio": ratio}))
        });
        let events = self
            .events
            .iter()
            .map(|(name, times)| json!({"what": name, "times": times}));
        json!({
            "about": self.about,
            "picture": format!("chaos/{}.svg", self.about["filter"].as_str().unwrap_or_default()),
            "events": events.collect::<Vec<_>>(),
            "requests": by_protocol(&verdict.answered),
            "renewed": by_protocol(&verdict.renewed),
            "rows": rows.collect::<Vec<_>>(),
            "failed": verdict.failed.len(),
            "moved": verdict.moved.len(),
            "movedAgain": verdict.moved_again.len(),
            "tokensRefused": self.refused(),
            "counters": self.counters,
            "memory": memory.collect::<Vec<_>>(),
        })
    }

    /// The problems, in words.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "bytes of memory")]
    pub fn faults(&self) -> Vec<String> {
        let verdict = &self.verdict;
        let mut faults = Vec::new();
        let lists = [
            ("a request failed without a reason", &verdict.failed),
            ("a session moved although its pod lived", &verdict.moved),
            ("a session moved again for the same end of a pod", &verdict.moved_again),
        ];
        for (what, list) in lists {
            faults.extend(list.iter().map(|fault| format!("{what}: {fault}")));
        }
        if self.refused() > 0 {
            faults.push(format!("tokens were refused: {:?}", self.counters));
        }
        for role in [Role::Envoy, Role::Controller] {
            match self.memory(role) {
                Some((early, late)) if late as f64 > early as f64 * MOST_GROWTH => {
                    faults.push(format!(
                        "{}: the memory of a process grew from {early} to {late} bytes",
                        role.name()
                    ));
                }
                _ => {}
            }
        }
        for ((role, cause), row) in &verdict.rows {
            if *cause == super::Cause::Unplanned {
                faults.push(format!("{}: {} processes ended of themselves", role.name(), row.ends));
            }
        }
        faults
    }

    fn refused(&self) -> u64 {
        let refused = self.counters.iter().filter(|(name, _)| name.starts_with("refused."));
        refused.map(|(_, count)| count).sum()
    }

    fn memory(&self, role: Role) -> Option<(u64, u64)> {
        let between = |(from, to)| memory_between(&self.samples, role, from, to);
        between(EARLY).zip(between(LATE))
    }
}

fn by_protocol(counts: &Counts) -> Value {
    let count = |protocol: &Protocol| counts.get(protocol).copied().unwrap_or_default();
    Protocol::ALL
        .iter()
        .map(|protocol| json!([protocol.name(), count(protocol)]))
        .collect()
}
