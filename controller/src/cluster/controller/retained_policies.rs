//! Retained policies: policies that no route uses any more. See `design/retained-policies.md`.
//!
//! A policy's name is a hash of its content, so a changed policy has another name. Envoy gets the filter's
//! configuration before the routes that name the new policy; without the old policy, its present routes would lose
//! their sessions meanwhile. So the policies of the last published routes are retained until all connected Envoys of
//! the Gateway have the new routes. Envoys that acknowledge nothing make no configuration grow without end: at most
//! [`MOST`] are retained besides the last minute's, and [`MOST_YOUNG`] in all. Each namespace has a fair share of both,
//! and of the bytes of all policies: with the used ones, a Gateway has at most twice as many as there is room for.
//!
//! Namespaces without sessions are retained in the same way, because the former routes need their fences.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use limpet_api::{ObjectName, Text};
use limpet_core::config::schema::PolicyConfig;
use limpet_core::time::{GatewayDuration, Timestamp};
use limpet_model::{Graph, beyond_share};
use limpet_outputs::GatewayReferences;

use super::former_lags::FormerLags;
use crate::time_format;

/// How many policies of earlier changes a Gateway retains, besides the last minute's.
pub(super) const MOST: usize = 64;
/// How many it retains in all.
const MOST_YOUNG: usize = 1000;
/// The age of young policies: longer than responsive Envoys need for new routes, including their wait for the others.
pub(super) const YOUNG: Duration = Duration::from_secs(60);

pub(super) type RetainedByGateway = BTreeMap<ObjectName, RetainedState>;

#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RetainedState {
    /// By name.
    pub(super) policies: BTreeMap<String, RetainedPolicy>,
    pub(super) namespaces: BTreeSet<Text>,
    /// Kept even when all Envoys have the new routes: clients still have old tokens.
    pub(super) former_lags: FormerLags,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct RetainedPolicy {
    pub(super) policy: PolicyConfig,
    /// One of those whose sessions had it.
    pub(super) namespace: Text,
    pub(super) since: Instant,
}

pub(super) type UsedByGateway = BTreeMap<ObjectName, GatewayReferences>;

impl RetainedState {
    pub(super) fn for_filter(&self) -> limpet_outputs::RetainedConfig {
        let policies = self.policies.iter();
        limpet_outputs::RetainedConfig {
            policies: policies
                .map(|(name, retained)| (name.clone(), retained.policy.clone()))
                .collect(),
            namespaces: self.namespaces.clone(),
            former_lags: self.former_lags.for_filter(),
        }
    }

    /// Whether Envoys with earlier routes may need any of it.
    pub(super) fn is_for_earlier_routes(&self) -> bool {
        !self.policies.is_empty() || !self.namespaces.is_empty()
    }

    pub(super) fn drop_earlier_routes(&mut self) {
        self.policies.clear();
        self.namespaces.clear();
    }
}

/// A time, by the monotonic clock and by the clock of tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    pub(super) unix: Timestamp,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self {
            instant: Instant::now(),
            unix: time_format::now(),
        }
    }
}

pub(super) fn for_filters(all: &RetainedByGateway) -> BTreeMap<ObjectName, limpet_outputs::RetainedConfig> {
    let all = all.iter();
    all.map(|(gateway, retained)| (gateway.clone(), retained.for_filter()))
        .collect()
}

/// What the Gateways of a new graph do not use, but published routes, or those in `kept`, need, and how old tokens of
/// their sessions may be. `graphs`: the published and the new one, each with what its Gateways use. `most_bytes`: of
/// the policies of a Gateway.
pub(super) fn retained_policies(
    kept: &RetainedByGateway,
    graphs: [(&Graph, &UsedByGateway); 2],
    (max_idle, most_bytes): (GatewayDuration, usize),
    at: Moment,
) -> RetainedByGateway {
    let mut all = RetainedByGateway::new();
    let [(was, used_before), (is, used_now)] = graphs;
    for (gateway, used) in used_now {
        let Some(before) = used_before.get(gateway) else {
            continue;
        };
        let mut retained = kept.get(gateway).cloned().unwrap_or_default();
        let policies = &mut retained.policies;
        policies.retain(|name, _| !used.has_policy(name));
        drop_oldest(policies, MOST, |retained| {
            at.instant.duration_since(retained.since) >= YOUNG
        });
        let dropped = used.dropped_policies(before);
        let has_dropped = !dropped.is_empty();
        let had = if has_dropped {
            before.kept_policies(was, most_bytes)
        } else {
            BTreeSet::new()
        };
        for (name, namespace) in dropped {
            // Envoys never had policies without room.
            let policy = was.policies.get(&name).filter(|_| had.contains(&name));
            let retain = |policy| RetainedPolicy {
                policy: PolicyConfig::clone(policy),
                namespace,
                since: at.instant,
            };
            policies.extend(policy.map(|policy| (name.to_string(), retain(policy))));
        }
        drop_oldest(policies, MOST_YOUNG, |_| true);
        if has_dropped {
            drop_without_room(policies, used, is, most_bytes);
        }
        retained.namespaces.extend(used.dropped_namespaces(before));
        retained.namespaces.retain(|namespace| !used.has_namespace(namespace));
        let replaced = before.replaced_policies(gateway, was, is);
        retained.former_lags.catch_up(&replaced, (was, is), max_idle, at.unix);
        let (policies, namespaces) = (&retained.policies, &retained.namespaces);
        retained.former_lags.retain(|policy, namespace| {
            (used.has_policy(policy) || policies.contains_key(&**policy))
                && (used.has_namespace(namespace) || namespaces.contains(namespace))
        });
        if retained != RetainedState::default() {
            all.insert(gateway.clone(), retained);
        }
    }
    all
}

/// Drops the oldest policies of the namespaces that have more than their share of `most`.
fn drop_oldest(policies: &mut BTreeMap<String, RetainedPolicy>, most: usize, is_one: impl Fn(&RetainedPolicy) -> bool) {
    let mut by_namespace: BTreeMap<&Text, Vec<(Instant, &String)>> = BTreeMap::new();
    for (name, retained) in policies.iter().filter(|(_, retained)| is_one(retained)) {
        let of_namespace = by_namespace.entry(&retained.namespace).or_default();
        of_namespace.push((retained.since, name));
    }
    let oldest = beyond_share(by_namespace, most).into_iter();
    for name in oldest.map(|(_, name)| name.clone()).collect::<Vec<_>>() {
        policies.remove(&name);
    }
}

/// Drops the oldest policies of the namespaces with more bytes, used and retained, than their share.
fn drop_without_room(
    policies: &mut BTreeMap<String, RetainedPolicy>,
    used: &GatewayReferences,
    graph: &Graph,
    most_bytes: usize,
) {
    let mut youngest_first: Vec<_> = policies.iter().collect();
    youngest_first.sort_by_key(|(_, retained)| Reverse(retained.since));
    let all = youngest_first
        .into_iter()
        .map(|(name, retained)| (&retained.namespace, &**name, &retained.policy));
    let kept = used.retained_within(graph, all, most_bytes);
    let kept: BTreeSet<String> = kept.into_iter().map(str::to_owned).collect();
    policies.retain(|name, _| kept.contains(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn retained(namespace: &str, since: Instant) -> RetainedPolicy {
        RetainedPolicy {
            policy: serde_json::from_value(serde_json::json!({"cookie": {"name": "c"}})).unwrap(),
            namespace: namespace.into(),
            since,
        }
    }

    #[test]
    fn changes_within_a_minute_left_policies_without_end() {
        let start = Instant::now();
        let retained = |number| retained("shop", start + Duration::from_secs(number));
        // The names are in another order than the times.
        let name = |number: u64| format!("{}", 9 - number);
        let mut policies: BTreeMap<_, _> = (0..5).map(|number| (name(number), retained(number))).collect();
        drop_oldest(&mut policies, 5, |_| true);
        assert_eq!(policies.len(), 5);
        drop_oldest(&mut policies, 2, |_| true);
        assert_eq!(policies.keys().collect::<Vec<_>>(), [&name(4), &name(3)]);
    }

    #[test]
    fn policies_that_changed_all_the_time_took_the_places_of_those_that_others_retained() {
        let start = Instant::now();
        let at = |number| start + Duration::from_secs(number);
        let own = |number: u64| (format!("own-{number}"), retained("shop", at(number)));
        let churned = |number: u64| (format!("churned-{number}"), retained("busy", at(100 + number)));
        let mut policies: BTreeMap<_, _> = (0..3).map(own).chain((0..50).map(churned)).collect();
        drop_oldest(&mut policies, 10, |_| true);
        let of_shop = policies
            .values()
            .filter(|retained| &*retained.namespace == "shop")
            .count();
        assert_eq!((of_shop, policies.len()), (3, 10));
        assert!(policies.contains_key("churned-49") && !policies.contains_key("churned-42"));
    }

    #[test]
    fn what_is_older_than_a_minute_went_with_what_is_young() {
        let start = Instant::now();
        let old = |number: u64| (format!("old-{number}"), retained("shop", start));
        let young = |number: u64| (format!("young-{number}"), retained("busy", start + YOUNG));
        let mut policies: BTreeMap<_, _> = (0..4).map(old).chain((0..80).map(young)).collect();
        drop_oldest(&mut policies, MOST, |retained| retained.since == start);
        assert_eq!(policies.len(), 84);
    }
}
