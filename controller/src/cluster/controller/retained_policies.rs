//! Retained policies: policies that no route uses any more.
//!
//! A policy's name is a hash of its content, so a policy that changes gets another name. Envoy gets the filter's
//! configuration before the routes that name the new policy. Without the old policy, the routes that it still has would
//! lose their sessions for that moment. So the policies of the last published routes are retained until all connected
//! Envoys of the Gateway have the new routes. One that acknowledges nothing makes no configuration grow without end:
//! beyond [`MOST`], only what the changes of the last minute have left is retained.
//!
//! The same holds for namespaces that no route has sessions of any more: their fences are for the former routes, too.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use limpet_api::{ObjectName, Text};
use limpet_core::config::schema::PolicyConfig;
use limpet_outputs::Used;

use super::former_idle::{Bounds, FormerIdles};

/// How many policies of earlier changes a Gateway retains, besides those of the last minute.
pub(super) const MOST: usize = 64;
/// Longer than Envoys that answer need for new routes, and than these wait for the answers of others.
pub(super) const YOUNG: Duration = Duration::from_secs(60);

pub(super) type RetainedByGateway = BTreeMap<ObjectName, Retained>;

/// What no published route of a Gateway needs any more.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Retained {
    /// By name.
    pub(super) policies: BTreeMap<String, RetainedPolicy>,
    pub(super) namespaces: BTreeSet<Text>,
    /// It does not depend on what Envoys have: clients bring tokens from before for longer.
    pub(super) former_idle: FormerIdles,
}

/// A policy that no published route names any more.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RetainedPolicy {
    pub(super) policy: PolicyConfig,
    pub(super) since: Instant,
}

/// What Gateways use.
pub(super) type UsedByGateway = BTreeMap<ObjectName, Used>;

impl Retained {
    pub(super) fn for_filter(&self) -> limpet_outputs::Retained {
        let policies = self.policies.iter();
        limpet_outputs::Retained {
            policies: policies
                .map(|(name, retained)| (name.clone(), retained.policy.clone()))
                .collect(),
            namespaces: self.namespaces.clone(),
            former_idle_timeouts: self.former_idle.for_filter(),
        }
    }

    /// Whether Envoys with earlier routes may need any of it.
    pub(super) fn is_for_earlier_routes(&self) -> bool {
        !self.policies.is_empty() || !self.namespaces.is_empty()
    }

    /// Drops what Envoys with earlier routes need.
    pub(super) fn drop_earlier_routes(&mut self) {
        self.policies.clear();
        self.namespaces.clear();
    }
}

/// What Gateways of a graph use, and the bounds of their sessions.
pub(super) struct Uses<'g> {
    pub(super) bounds: Bounds<'g>,
    pub(super) used: &'g UsedByGateway,
}

/// A time, on the clock that is never set and on the one of tokens.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) instant: Instant,
    pub(super) unix: Duration,
}

impl Moment {
    pub(super) fn now() -> Self {
        Self {
            instant: Instant::now(),
            unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }
}

pub(super) fn for_filters(all: &RetainedByGateway) -> BTreeMap<ObjectName, limpet_outputs::Retained> {
    let all = all.iter();
    all.map(|(gateway, retained)| (gateway.clone(), retained.for_filter()))
        .collect()
}

/// What the routes of `published`, and of what it retains in `kept`, need and the Gateways of a graph do not use, and
/// what their sessions had. `at`: the time.
pub(super) fn retained_policies(
    kept: &RetainedByGateway,
    published: &Uses<'_>,
    now: &Uses<'_>,
    at: Moment,
) -> RetainedByGateway {
    let mut all = RetainedByGateway::new();
    let (was, is) = (&published.bounds, &now.bounds);
    for (gateway, used) in now.used {
        let Some(before) = published.used.get(gateway) else {
            continue;
        };
        let mut retained = kept.get(gateway).cloned().unwrap_or_default();
        let policies = &mut retained.policies;
        policies.retain(|name, _| !used.has_policy(name));
        if policies.len() > MOST {
            policies.retain(|_, retained| at.instant.duration_since(retained.since) < YOUNG);
        }
        for name in used.dropped_policies(before) {
            let policy = was.graph.policies.get(&name);
            let retain = |policy| RetainedPolicy {
                policy: PolicyConfig::clone(policy),
                since: at.instant,
            };
            policies.extend(policy.map(|policy| (name.to_string(), retain(policy))));
        }
        retained.namespaces.extend(used.dropped_namespaces(before));
        retained.namespaces.retain(|namespace| !used.has_namespace(namespace));
        let replaced = before.replaced_policies(gateway, was.graph, is.graph);
        retained.former_idle.catch_up(&replaced, was, is, at.unix);
        let (policies, namespaces) = (&retained.policies, &retained.namespaces);
        retained.former_idle.retain(|policy, namespace| {
            (used.has_policy(policy) || policies.contains_key(&**policy))
                && (used.has_namespace(namespace) || namespaces.contains(namespace))
        });
        if retained != Retained::default() {
            all.insert(gateway.clone(), retained);
        }
    }
    all
}
