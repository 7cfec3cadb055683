use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::api::ObjectName;
use crate::model::reports::Condition;
use crate::xds;

/// What is published is on its way for some time, and with every change anew. Only when it takes longer, it is said: or a Gateway whose endpoints
/// change all the time would never be programmed.
const PATIENCE: Duration = Duration::from_secs(5);
/// Envoys of before need some time to come back to a controller that starts. Until then nothing is said, or every restart would be two changes of every
/// Gateway's status.
const ARRIVAL: Duration = Duration::from_secs(10);
/// How many refusals are told.
const TOLD: usize = 3;

/// `Programmed` of Gateways, by what Envoys acknowledge.
#[derive(Debug, Default)]
pub(super) struct Programmed {
    known: BTreeMap<ObjectName, Known>,
    /// When the first look was.
    started: Option<Instant>,
}

#[derive(Debug)]
struct Known {
    condition: Condition,
    /// Since when acknowledgements are waited for.
    unsettled: Option<Instant>,
}

/// What is seen of a Gateway's Envoys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    /// How many are connected, and how many of them have acknowledged everything.
    pub(super) connected: usize,
    pub(super) settled: usize,
    /// Envoys' words, with what they are about.
    pub(super) refusals: Vec<String>,
}

impl Seen {
    /// Of the nodes of this Gateway.
    pub(super) fn of(gateway: &ObjectName, status: &xds::Status) -> Self {
        let group = gateway.to_string();
        let nodes = status.nodes(&group);
        let refusals = status.refusals(&group);
        let told = refusals.iter().take(TOLD).map(|refusal| {
            let xds::Refusal {
                resource_type,
                name,
                node,
                message,
                ..
            } = refusal;
            format!("Envoy {node} refused {resource_type} {name}: {message}")
        });
        Self {
            connected: nodes.len(),
            settled: nodes.iter().filter(|node| node.settled).count(),
            refusals: told.collect(),
        }
    }

    fn condition(&self) -> Condition {
        let Self {
            connected,
            settled,
            refusals,
        } = self;
        if !refusals.is_empty() {
            return Condition::fails("Programmed", "Invalid", refusals.join("; "));
        }
        match (*connected, *settled) {
            (0, _) => Condition::fails("Programmed", "Pending", "No Envoy of this Gateway is connected"),
            (connected, settled) if settled < connected => {
                let message = format!("Of {connected} connected Envoys, {settled} have acknowledged the configuration");
                Condition::fails("Programmed", "Pending", message)
            }
            _ => Condition::holds(
                "Programmed",
                "Programmed",
                "The connected Envoys have acknowledged the configuration",
            ),
        }
    }
}

impl Programmed {
    /// Takes in what is seen now; Gateways that are not seen are forgotten. How long until it is to be looked at again, if at all.
    pub(super) fn take(&mut self, seen: BTreeMap<ObjectName, Seen>, now: Instant) -> Option<Duration> {
        self.known.retain(|gateway, _| seen.contains_key(gateway));
        let mut again: Option<Duration> = None;
        let arrival = ARRIVAL.saturating_sub(now.saturating_duration_since(*self.started.get_or_insert(now)));
        for (gateway, seen) in seen {
            let condition = seen.condition();
            let is_on_its_way = condition.reason == "Pending" && seen.connected > 0;
            match self.known.get_mut(&gateway) {
                Some(known) if is_on_its_way => {
                    let waited = now.saturating_duration_since(*known.unsettled.get_or_insert(now));
                    if waited < PATIENCE {
                        let rest = PATIENCE.saturating_sub(waited);
                        again = Some(again.map_or(rest, |again| again.min(rest)));
                    } else {
                        known.condition = condition;
                    }
                }
                Some(known) => {
                    *known = Known {
                        condition,
                        unsettled: None,
                    };
                }
                None if seen.connected == 0 && !arrival.is_zero() => {
                    again = Some(again.map_or(arrival, |again| again.min(arrival)));
                }
                None => {
                    let unsettled = is_on_its_way.then_some(now);
                    self.known.insert(gateway, Known { condition, unsettled });
                }
            }
        }
        again
    }

    /// What is known of each Gateway.
    pub(super) fn conditions(&self) -> BTreeMap<ObjectName, Condition> {
        let known = self.known.iter();
        known
            .map(|(gateway, known)| (gateway.clone(), known.condition.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(connected: usize, settled: usize, refusals: &[&str]) -> Seen {
        Seen {
            connected,
            settled,
            refusals: refusals.iter().map(|refusal| (*refusal).to_owned()).collect(),
        }
    }

    #[test]
    fn what_is_on_its_way_is_said_only_after_a_while() {
        let gateway = ObjectName::new("web", "shop");
        let mut programmed = Programmed::default();
        let start = Instant::now();
        let mut look = |seconds: u64, seen: Seen| {
            let again = programmed.take([(gateway.clone(), seen)].into(), start + Duration::from_secs(seconds));
            let condition = programmed
                .conditions()
                .remove(&gateway)
                .unwrap_or_else(|| Condition::fails("", "Unknown", ""));
            (condition.is_true(), condition.reason, again)
        };
        assert_eq!(look(0, seen(0, 0, &[])), (false, "Unknown", Some(ARRIVAL)));
        assert_eq!(look(1, seen(2, 2, &[])), (true, "Programmed", None));
        assert_eq!(look(2, seen(2, 1, &[])), (true, "Programmed", Some(PATIENCE)));
        assert_eq!(
            look(4, seen(2, 1, &[])),
            (true, "Programmed", Some(Duration::from_secs(3)))
        );
        assert_eq!(look(7, seen(2, 1, &[])), (false, "Pending", None));
        assert_eq!(look(8, seen(2, 2, &[])), (true, "Programmed", None));
        // What was waited for before does not count any more.
        assert_eq!(look(9, seen(2, 0, &[])), (true, "Programmed", Some(PATIENCE)));
        assert_eq!(look(10, seen(2, 1, &["no"])), (false, "Invalid", None));
        assert_eq!(look(11, seen(0, 0, &[])), (false, "Pending", None));
    }
}
