//! Whether Envoy can lead a session to an endpoint of a cluster. docs/reference/envoy-configuration.md has the table.

use super::chain::Chain;
use super::report::{CheckReport, Severity};
use super::session::CheckedSession;
use crate::envoy_config::discovery::DiscoverySources;
use crate::envoy_config::node::ConfigNode;

/// The types of clusters that were tried, of those that are extensions.
const TRIED: [&str; 4] = ["dns", "aggregate", "composite", "dynamic_forward_proxy"];

/// What Envoy says of an endpoint that is in use and healthy: without a health in its assignment, and with one.
const IN_USE: [&str; 2] = ["UNKNOWN", "HEALTHY"];

/// Checks the clusters that a session is led to.
pub(super) fn check<'a>(
    report: &mut CheckReport,
    chain: &Chain<'a>,
    sources: &DiscoverySources<'a>,
    session: &CheckedSession<'_>,
    clusters: &[&str],
) {
    for cluster in clusters {
        let Some(cluster) = sources.cluster(chain.manager.file, cluster) else {
            continue;
        };
        // A strict session that Envoy cannot steer is refused.
        let (severity, effect) = if session.config.strict {
            (Severity::Error, "each request of a session is refused")
        } else {
            (
                Severity::Warning,
                "each request of a session may reach another endpoint",
            )
        };
        let name = session.name();
        if let Some(problem) = problem(cluster) {
            let effect = problem.effect.unwrap_or(effect);
            let message = format!("{}, so {effect} ({name}): {}", problem.cause, problem.instead);
            report.add(severity, cluster, message);
        }
        report_untried(report, &name, cluster);
        check_statuses(report, severity, effect, &name, cluster);
        if severity == Severity::Warning {
            report_panic(report, &name, cluster);
        }
    }
}

struct ClusterTypeProblem {
    cause: &'static str,
    /// If it is another one than that nothing is steered.
    effect: Option<&'static str>,
    instead: &'static str,
}

fn problem(cluster: &ConfigNode<'_>) -> Option<ClusterTypeProblem> {
    let typed = cluster.at(&["cluster_type", "typed_config"]);
    let typed = typed.as_ref().and_then(ConfigNode::typed);
    let (kind, content) = match &typed {
        Some((kind, content)) => (*kind, Some(content)),
        None => ("", None),
    };
    let is = |extension: &str| kind.contains(&format!(".clusters.{extension}.v3."));
    if is("aggregate") || is("composite") {
        return Some(ClusterTypeProblem {
            cause: "Envoy finds no endpoint of a cluster that is made of others",
            effect: None,
            instead: "expected one cluster, with priorities for its endpoints, or a route to each of the clusters",
        });
    }
    if is("dynamic_forward_proxy") {
        let has_own = content.is_some_and(|content| content.get("sub_clusters_config").is_some());
        return Some(ClusterTypeProblem {
            cause: if has_own {
                "each host is a cluster of its own"
            } else {
                "the cluster has endpoints of all hosts"
            },
            effect: (!has_own).then_some("a session leads to its endpoint, whatever host a request names"),
            instead: "expected no session on routes to a forward proxy",
        });
    }
    if cluster.text("type") == Some("ORIGINAL_DST") {
        return Some(ClusterTypeProblem {
            cause: "the cluster has endpoints of all addresses that clients asked for",
            effect: Some("a session leads to its endpoint, whatever address a request is for"),
            instead: "expected no session on routes to original destinations",
        });
    }
    if cluster.text("type") == Some("LOGICAL_DNS")
        || (is("dns") && content.is_some_and(|content| content.flag("all_addresses_in_single_endpoint")))
    {
        return Some(ClusterTypeProblem {
            cause: "the cluster has one endpoint, whose address is the first that DNS answers",
            effect: None,
            instead: "expected STRICT_DNS, which has an endpoint for each address, unless the name has one address \
                      for ever",
        });
    }
    has_other_addresses(cluster).then_some(ClusterTypeProblem {
        cause: "an endpoint is no IP address and port, and tokens name nothing else",
        effect: Some("no session begins there"),
        instead: "expected socket_address",
    })
}

/// Says of any other extension that it is not known here.
fn report_untried(report: &mut CheckReport, name: &str, cluster: &ConfigNode<'_>) {
    let typed = cluster.at(&["cluster_type", "typed_config"]);
    let Some((kind, _)) = typed.as_ref().and_then(ConfigNode::typed) else {
        return;
    };
    let is_tried = |extension: &&str| kind.contains(&format!(".clusters.{extension}.v3."));
    if !TRIED.iter().any(is_tried) {
        let message = format!("not checked: whether a session {name} holds in a cluster of the type {kind}");
        report.add_note(cluster, message);
    }
}

fn has_other_addresses(cluster: &ConfigNode<'_>) -> bool {
    let localities = cluster
        .get("load_assignment")
        .map(|assignment| assignment.list("endpoints"));
    let endpoints = localities
        .into_iter()
        .flatten()
        .flat_map(|locality| locality.list("lb_endpoints"));
    let mut addresses = endpoints.filter_map(|endpoint| endpoint.at(&["endpoint", "address"]));
    addresses.any(|address| address.get("pipe").is_some() || address.get("envoy_internal_address").is_some())
}

/// Envoy leads sessions only to endpoints in these states.
fn check_statuses(report: &mut CheckReport, severity: Severity, effect: &str, name: &str, cluster: &ConfigNode<'_>) {
    let Some(statuses) = cluster.at(&["common_lb_config", "override_host_status"]) else {
        return;
    };
    let listed = statuses.list("statuses");
    let lacks = |status: &&str| !listed.iter().any(|listed| listed.value.as_str() == Some(status));
    let lacking: Vec<&str> = IN_USE.into_iter().filter(|status| lacks(status)).collect();
    if !lacking.is_empty() {
        let message = format!(
            "statuses: expected {} as well, which endpoints in use have: without, {effect} ({name})",
            lacking.join(" and ")
        );
        report.add(severity, &statuses, message);
    }
}

/// While Envoy is in panic, load balancing takes endpoints that sessions may not have.
fn report_panic(report: &mut CheckReport, name: &str, cluster: &ConfigNode<'_>) {
    let common = cluster.get("common_lb_config");
    let common = common.as_ref();
    let finds_out = cluster.get("health_checks").is_some() || cluster.get("outlier_detection").is_some();
    let threshold = common.and_then(|common| common.at(&["healthy_panic_threshold", "value"]));
    let never = threshold.is_some_and(|threshold| threshold.value.as_f64() == Some(0.0));
    let statuses = common.and_then(|common| common.get("override_host_status"));
    let statuses = statuses.map(|statuses| statuses.list("statuses")).unwrap_or_default();
    let stays = statuses.iter().any(|status| status.value == "UNHEALTHY");
    if finds_out && !never && !stays {
        let message = format!(
            "while less than half of the endpoints are healthy (healthy_panic_threshold), Envoy sends requests to \
             unhealthy ones as well, and a session {name} there moves with each response; with 0, they are answered \
             with status 503"
        );
        report.add_note(cluster, message);
    }
}
