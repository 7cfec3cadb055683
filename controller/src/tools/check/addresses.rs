//! Sessions that clients' addresses hold: whose the address is, and what Envoys hash so that they agree.

use super::chain::Chain;
use super::report::CheckReport;
use super::route_entry::RouteEntry;
use super::session::CheckedSession;
use crate::envoy_config::discovery::DiscoverySources;
use crate::envoy_config::node::ConfigNode;
use limpet_core::config::schema::FilterConfig;
use limpet_core::envoy::{HASH_STATE, HASHING_POLICIES};

/// Checks that clients of a connection manager cannot choose their addresses.
pub(super) fn check_manager(report: &mut CheckReport, chain: &Chain<'_>, config: Option<&FilterConfig>) {
    let mut policies = config.iter().flat_map(|config| &config.policies);
    let manager = &chain.manager;
    let is_safe = manager.flag("use_remote_address") || !manager.list("original_ip_detection_extensions").is_empty();
    if let Some((name, _)) = policies.find(|(_, policy)| policy.source.is_some())
        && !is_safe
    {
        let message = format!(
            "expected use_remote_address: true, or original_ip_detection_extensions: without them, any client of the \
             policy {name} chooses its address by X-Forwarded-For"
        );
        report.warning(manager, message);
    }
}

/// Checks that several Envoys choose alike for a client that is in no table. `clusters`: those that it may be sent to.
pub(super) fn check<'a>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    sources: &DiscoverySources<'a>,
    session: &CheckedSession<'_>,
    entry: &RouteEntry<'_, 'a>,
    clusters: &[&str],
) {
    if session.config.source.is_none() {
        return;
    }
    let name = session.name();
    let hashed = entry.route.get("route").map(|action| action.list("hash_policy"));
    let hashed = hashed.unwrap_or_default();
    let of_state = |policy: &ConfigNode<'_>| {
        policy
            .at(&["filter_state", "key"])
            .is_some_and(|key| key.value == HASH_STATE)
    };
    let of_address = |policy: &ConfigNode<'_>| {
        policy
            .get("connection_properties")
            .is_some_and(|policy| policy.flag("source_ip"))
    };
    let agrees = match hashed.as_slice() {
        [state, address, ..] => of_state(state) && state.flag("terminal") && of_address(address),
        _ => false,
    };
    if !agrees {
        let message = format!(
            "expected a hash_policy that begins with filter_state {HASH_STATE}, terminal, and connection_properties \
             source_ip: without them, each Envoy chooses a backend of its own for a new client of {name}"
        );
        report.warning(entry.route, message);
    }
    for cluster in clusters {
        let Some(cluster) = sources.cluster(chain.manager.file, cluster) else {
            continue;
        };
        if !hashes(cluster) {
            let message = format!(
                "lb_policy: expected {}, which choose by a hash: without it, each Envoy chooses a backend of its own \
                 for a new client of {name}",
                HASHING_POLICIES.join(" or ")
            );
            report.warning(cluster, message);
        }
    }
}

/// Whether a cluster balances load by a hash.
fn hashes(cluster: &ConfigNode<'_>) -> bool {
    if let Some(policy) = cluster.get("load_balancing_policy") {
        let policies = policy.list("policies");
        let configured = policies
            .first()
            .and_then(|policy| policy.at(&["typed_extension_config", "typed_config"]));
        let kind = configured.as_ref().and_then(ConfigNode::kind).unwrap_or_default();
        return kind.ends_with(".Maglev") || kind.ends_with(".RingHash");
    }
    let policy = cluster.text("lb_policy");
    policy.is_some_and(|policy| HASHING_POLICIES.contains(&policy))
}
