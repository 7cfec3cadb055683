use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::refusals::refusal_message;
use crate::cluster::reconcile::replicas::{EnvoyCounts, ReplicaView};
use limpet_api::ObjectName;
use limpet_model::reports::Condition;

/// How long an Envoy may take to acknowledge a change, or to reconnect to any replica. Otherwise, a Gateway whose
/// endpoints change all the time would never be programmed.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long Envoys may take to reconnect to a new controller: until then, conditions stay. Otherwise every restart
/// would change the status of every Gateway twice.
const ARRIVAL: Duration = Duration::from_secs(10);
/// The most refusals in a condition.
const TOLD: usize = 3;

#[derive(Debug, Default)]
pub(super) struct ProgrammedConditions {
    /// With the Envoys of this replica.
    own: SteadyGateways,
    /// With the Envoys of all replicas.
    all: SteadyGateways,
}

/// The state of Envoys without brief changes.
#[derive(Debug, Default)]
struct SteadyGateways {
    gateways: BTreeMap<ObjectName, SettledEnvoys>,
    observed_since: Option<Instant>,
}

#[derive(Debug, Default)]
struct SettledEnvoys {
    /// `None`: they may still connect.
    envoys: Option<EnvoyCounts>,
    /// Since when acknowledgements are missing.
    unsettled_since: Option<Instant>,
}

/// The counts of a Gateway's Envoys at this replica. `variables`: those that the filter needs.
pub(super) fn current_counts(
    gateway: &ObjectName,
    status: &limpet_xds::AckStatus,
    variables: &[String],
) -> EnvoyCounts {
    let group = gateway.to_string();
    let nodes = status.nodes(&group);
    let refusals = status.refusals(&group, TOLD);
    let told = refusals.iter().map(|refusal| refusal_message(refusal, variables));
    EnvoyCounts {
        connected: nodes.len(),
        settled: nodes.iter().filter(|node| node.settled).count(),
        refusals: told.collect(),
    }
}

/// Adds a Gateway's Envoys at other replicas.
fn together(name: &str, own: &EnvoyCounts, others: &ReplicaView) -> EnvoyCounts {
    let of_others = others.values().filter_map(|said| said.envoys.get(name));
    let all: Vec<&EnvoyCounts> = of_others.chain([own]).collect();
    // Sorted, so that all replicas make the same message.
    let refusals: BTreeSet<&String> = all.iter().flat_map(|envoys| &envoys.refusals).collect();
    EnvoyCounts {
        connected: all.iter().map(|envoys| envoys.connected).sum(),
        settled: all.iter().map(|envoys| envoys.settled).sum(),
        refusals: refusals.into_iter().take(TOLD).cloned().collect(),
    }
}

/// `all_told`: no report left out Gateways.
fn condition(envoys: &EnvoyCounts, all_told: bool) -> Condition {
    let EnvoyCounts {
        connected,
        settled,
        refusals,
    } = envoys;
    if !refusals.is_empty() {
        return Condition::fails("Programmed", "Invalid", refusals.join("; "));
    }
    match (*connected, *settled) {
        (0, _) if all_told => Condition::fails("Programmed", "Pending", "No Envoy of this Gateway is connected"),
        (0, _) => {
            let message = "No Envoy of this Gateway is known to be connected; \
                           the replicas have too many Gateways to report all of them to each other";
            Condition::fails("Programmed", "Pending", message)
        }
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

impl ProgrammedConditions {
    /// Forgets Gateways that are missing in `seen`. Returns how long until the next call, if any.
    pub(super) fn observe(
        &mut self,
        seen: BTreeMap<ObjectName, EnvoyCounts>,
        others: &ReplicaView,
        now: Instant,
    ) -> Option<Duration> {
        let all = seen.iter().map(|(gateway, own)| {
            let all = together(&gateway.to_string(), own, others);
            (gateway.clone(), all)
        });
        let all = self.all.observe(all.collect(), now);
        let own = self.own.observe(seen, now);
        own.into_iter().chain(all).min()
    }

    /// The Gateways with Envoys, by name.
    pub(super) fn local_counts(&self) -> BTreeMap<String, EnvoyCounts> {
        let known = self.own.gateways.iter();
        let told = known.filter_map(|(gateway, known)| {
            let envoys = known.envoys.as_ref().filter(|envoys| envoys.connected > 0)?;
            Some((gateway.to_string(), envoys.clone()))
        });
        told.collect()
    }

    pub(super) fn conditions(&self, others: &ReplicaView) -> BTreeMap<ObjectName, Condition> {
        let all_told = others.values().all(|said| said.untold == 0);
        let known = self.all.gateways.iter();
        let conditions = known.filter_map(|(gateway, known)| {
            let condition = condition(known.envoys.as_ref()?, all_told);
            Some((gateway.clone(), condition))
        });
        conditions.collect()
    }
}

impl SteadyGateways {
    fn observe(&mut self, seen: BTreeMap<ObjectName, EnvoyCounts>, now: Instant) -> Option<Duration> {
        self.gateways.retain(|gateway, _| seen.contains_key(gateway));
        let mut again: Option<Duration> = None;
        let mut look_after = |rest: Duration| again = Some(again.map_or(rest, |again| again.min(rest)));
        let arrival = ARRIVAL.saturating_sub(now.saturating_duration_since(*self.observed_since.get_or_insert(now)));
        for (gateway, seen) in seen {
            let known = self.gateways.entry(gateway).or_default();
            let had_any = known.envoys.as_ref().map(|envoys| envoys.connected > 0);
            if seen.connected == 0 && had_any.is_none() && !arrival.is_zero() {
                look_after(arrival);
                continue;
            }
            let is_gone = seen.connected == 0 && had_any == Some(true);
            let is_on_its_way = seen.refusals.is_empty() && (seen.settled < seen.connected || is_gone);
            if is_on_its_way {
                let waited = now.saturating_duration_since(*known.unsettled_since.get_or_insert(now));
                if had_any.is_some() && waited < PATIENCE {
                    look_after(PATIENCE.saturating_sub(waited));
                    continue;
                }
            } else {
                known.unsettled_since = None;
            }
            known.envoys = Some(seen);
        }
        again
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::cluster::reconcile::replicas::ReplicaReport;

    fn seen(connected: usize, settled: usize, refusals: &[&str]) -> EnvoyCounts {
        EnvoyCounts {
            connected,
            settled,
            refusals: refusals.iter().map(|refusal| (*refusal).to_owned()).collect(),
        }
    }

    #[test]
    fn what_is_on_its_way_is_said_only_after_a_while() {
        let gateway = ObjectName::new("web", "shop");
        let mut programmed = ProgrammedConditions::default();
        let start = Instant::now();
        let mut look = |seconds: u64, seen: EnvoyCounts| {
            let now = start + Duration::from_secs(seconds);
            let again = programmed.observe([(gateway.clone(), seen)].into(), &ReplicaView::new(), now);
            let condition = programmed
                .conditions(&ReplicaView::new())
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
        // An earlier wait does not count.
        assert_eq!(look(9, seen(2, 0, &[])), (true, "Programmed", Some(PATIENCE)));
        assert_eq!(look(10, seen(2, 1, &["no"])), (false, "Invalid", None));
        // A gone Envoy may come back, too.
        assert_eq!(look(11, seen(2, 2, &[])), (true, "Programmed", None));
        assert_eq!(look(12, seen(0, 0, &[])), (true, "Programmed", Some(PATIENCE)));
        assert_eq!(look(13, seen(1, 1, &[])), (true, "Programmed", None));
        assert_eq!(look(14, seen(0, 0, &[])), (true, "Programmed", Some(PATIENCE)));
        assert_eq!(look(19, seen(0, 0, &[])), (false, "Pending", None));
        assert_eq!(look(20, seen(0, 0, &[])), (false, "Pending", None));
    }

    #[test]
    fn the_envoys_of_other_replicas_count_and_their_words_are_told() {
        let gateway = ObjectName::new("web", "shop");
        let mut programmed = ProgrammedConditions::default();
        let start = Instant::now();
        let said = |envoys: Option<EnvoyCounts>| ReplicaReport {
            envoys: envoys.map(|envoys| (gateway.to_string(), envoys)).into_iter().collect(),
            ..ReplicaReport::default()
        };
        let mut look = |seconds: u64, own: EnvoyCounts, others: [Option<EnvoyCounts>; 2]| {
            let now = start + Duration::from_secs(seconds);
            let others = ["a", "b"]
                .map(str::to_owned)
                .into_iter()
                .zip(others.map(&said))
                .collect();
            programmed.observe([(gateway.clone(), own)].into(), &others, now);
            let condition = programmed.conditions(&others).remove(&gateway);
            let said = condition.map(|condition| (condition.reason.to_owned(), condition.message));
            (said, programmed.local_counts().len())
        };
        let is = |reason: &str, message: &str| Some((reason.to_owned(), message.to_owned()));
        let good = is("Programmed", "The connected Envoys have acknowledged the configuration");
        let gone = is("Pending", "No Envoy of this Gateway is connected");
        let (none, all) = (seen(0, 0, &[]), seen(2, 2, &[]));
        assert_eq!(look(0, none.clone(), [None, None]), (None, 0), "they may still come");
        assert_eq!(look(1, none.clone(), [Some(all.clone()), None]), (good.clone(), 0));
        // From one replica to the other.
        assert_eq!(look(2, none.clone(), [None, None]), (good.clone(), 0));
        assert_eq!(look(6, none.clone(), [None, Some(all.clone())]), (good.clone(), 0));
        assert_eq!(look(10, none.clone(), [None, None]), (good.clone(), 0));
        assert_eq!(look(15, none.clone(), [None, None]), (gone, 0));
        assert_eq!(look(16, all.clone(), [None, None]), (good.clone(), 1));
        let others = [Some(seen(3, 1, &[])), Some(all.clone())];
        assert_eq!(look(17, all.clone(), others.clone()), (good, 1));
        let pending = is(
            "Pending",
            "Of 7 connected Envoys, 5 have acknowledged the configuration",
        );
        assert_eq!(look(22, all.clone(), others), (pending, 1));
        let others = [Some(seen(1, 0, &["d", "a"])), Some(seen(1, 0, &["c"]))];
        assert_eq!(look(23, seen(1, 0, &["b", "a"]), others), (is("Invalid", "a; b; c"), 1));
    }

    #[test]
    fn others_are_not_told_what_passes() {
        let gateway = ObjectName::new("web", "shop");
        let mut programmed = ProgrammedConditions::default();
        let start = Instant::now();
        let mut told = |seconds: u64, seen: EnvoyCounts| {
            let now = start + Duration::from_secs(seconds);
            programmed.observe([(gateway.clone(), seen)].into(), &ReplicaView::new(), now);
            programmed.local_counts().remove("web/shop")
        };
        let all = Some(seen(2, 2, &[]));
        assert_eq!(told(0, seen(2, 2, &[])), all);
        assert_eq!(told(1, seen(2, 1, &[])), all);
        assert_eq!(told(2, seen(0, 0, &[])), all);
        assert_eq!(told(3, seen(2, 2, &[])), all);
        assert_eq!(told(4, seen(2, 1, &[])), all);
        assert_eq!(told(9, seen(2, 1, &[])), Some(seen(2, 1, &[])));
        assert_eq!(told(10, seen(2, 1, &["no"])), Some(seen(2, 1, &["no"])));
        assert_eq!(told(11, seen(0, 0, &[])), Some(seen(2, 1, &["no"])));
        assert_eq!(told(16, seen(0, 0, &[])), None);
    }

    #[test]
    fn where_others_had_no_room_to_tell_nothing_is_claimed() {
        let gateway = ObjectName::new("web", "shop");
        let mut programmed = ProgrammedConditions::default();
        let start = Instant::now();
        let said = ReplicaReport {
            untold: 1,
            ..ReplicaReport::default()
        };
        let others = [("a".to_owned(), said)].into();
        for seconds in [0, 10] {
            let now = start + Duration::from_secs(seconds);
            programmed.observe([(gateway.clone(), seen(0, 0, &[]))].into(), &others, now);
        }
        let condition = &programmed.conditions(&others)[&gateway];
        assert!(condition.message.contains("is known to be connected"), "{condition:?}");
    }
}
