//! A patch makes the same as a full build.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limpet_core::config::schema::{FenceConfig, PolicyConfig};
use proptest::prelude::*;
use serde_json::json;
use zeroize::Zeroizing;

use super::{EnvoyOptions, cluster, gateway, inputs, policy, route, to};
use crate::envoy::{GatewayResources, ReplacedPolicy, served};
use crate::policy_room::MOST_BYTES;
use crate::used::{GatewayReferences, hosts, sessions};
use crate::{FilterInputs, used_policies};
use limpet_api::ObjectName;
use limpet_model::graph::{
    Action, BackendTls, ClusterName, Gateway, Hostname, Listener, Route, RuleName, Session, SessionUse,
    TrustedAuthorities, VirtualHost,
};
use limpet_model::{Certificate, Graph, Map};
use limpet_resources::Resources;

const PORTS: [(u16, &str, bool); 4] = [(80, "a", false), (80, "b", false), (443, "a", true), (443, "b", true)];
const HOSTS: [&str; 5] = ["", "one.", "two.", "three.", "*."];
const CLUSTERS: [&str; 4] = ["v1", "v2", "v3", "v4"];
const POLICIES: [&str; 4] = ["web", "strict", "moving", "other"];

/// A route's object, destinations, and policy of sessions; none: its destinations' own.
type RouteSeed = (usize, Vec<usize>, Option<Option<usize>>);

#[derive(Debug, Clone)]
enum Step {
    Host(usize, usize, Vec<RouteSeed>),
    NoHost(usize, usize),
    Route(usize, usize, usize, RouteSeed),
    Cluster(usize, Option<usize>, bool, bool),
    NoCluster(usize),
    Policy(usize, bool),
    Certificate(bool),
    Retained(bool),
    TlsOf(usize, bool),
    NoGateway,
}

fn step() -> impl Strategy<Value = Step> {
    let route = (
        0..3_usize,
        proptest::collection::vec(0..CLUSTERS.len(), 0..3),
        proptest::option::of(proptest::option::of(0..POLICIES.len())),
    );
    let routes = proptest::collection::vec(route.clone(), 0..4);
    prop_oneof![
        12 => (0..PORTS.len(), 0..HOSTS.len(), routes).prop_map(|(port, host, routes)| Step::Host(port, host, routes)),
        3 => (0..PORTS.len(), 0..HOSTS.len()).prop_map(|(port, host)| Step::NoHost(port, host)),
        8 => (0..PORTS.len(), 0..HOSTS.len(), 0..4_usize, route)
            .prop_map(|(port, host, index, route)| Step::Route(port, host, index, route)),
        4 => (0..CLUSTERS.len(), proptest::option::of(0..POLICIES.len()), any::<bool>(), any::<bool>())
            .prop_map(|(name, policy, never_begins, tls)| Step::Cluster(name, policy, never_begins, tls)),
        1 => (0..CLUSTERS.len()).prop_map(Step::NoCluster),
        2 => (0..POLICIES.len(), any::<bool>()).prop_map(|(name, strict)| Step::Policy(name, strict)),
        1 => any::<bool>().prop_map(Step::Certificate),
        1 => any::<bool>().prop_map(Step::Retained),
        1 => (2..PORTS.len(), any::<bool>()).prop_map(|(listener, has)| Step::TlsOf(listener, has)),
        1 => Just(Step::NoGateway),
    ]
}

fn some_policy(name: usize, strict: bool) -> Arc<PolicyConfig> {
    let mut all = json!({"cookie": {"name": POLICIES[name]}, "strict": strict});
    if POLICIES[name] == "moving" {
        all["move"] = json!({"header": "x-move"});
    }
    Arc::new(policy(all))
}

fn some_route(index: usize, (object, destinations, session): &RouteSeed) -> Route {
    let mut made = route(destinations.iter().map(|name| to(CLUSTERS[*name], 1)).collect());
    let namespace = if *object == 2 { "other" } else { "shop" };
    made.rule = RuleName(format!("httproute/{namespace}/{object}/{index}").into());
    if let (Action::Forward(forward), Some(session)) = (&mut made.action, session) {
        forward.session = session.map_or(Session::Destinations, |policy| {
            Session::Rule(SessionUse {
                policy: POLICIES[policy].into(),
                scope: made.rule.0.clone(),
            })
        });
    }
    made
}

/// No two listeners of a port have the same one.
fn hostname(port: usize, host: usize) -> Hostname {
    let (_, listener, _) = PORTS[port];
    match (listener, HOSTS[host]) {
        ("a", "") => Hostname::Any,
        (_, begin) => Hostname::parse(Some(&format!("{begin}{listener}.example"))),
    }
}

fn start() -> Graph {
    let listener = |(_, name, is_tls): (u16, &str, bool)| Listener {
        name: name.to_owned(),
        hostname: Hostname::parse((name == "b").then_some("*.b.example")),
        certificates: is_tls.then(|| vec![secret()]),
        tls_minimum: None,
        virtual_hosts: Map::new(),
    };
    let mut gateway = Gateway::default();
    for each in PORTS {
        gateway.ports.entry(each.0).or_default().push(listener(each));
    }
    let policies = (0..POLICIES.len()).map(|name| (POLICIES[name].to_owned(), some_policy(name, false)));
    Graph {
        gateways: Map::unit(super::gateway(), Arc::new(gateway)),
        clusters: CLUSTERS
            .map(|name| (ClusterName(name.into()), cluster(name)))
            .into_iter()
            .collect(),
        policies: policies.collect(),
        ..Graph::default()
    }
}

fn secret() -> ObjectName {
    ObjectName::new("shop", "secret")
}

#[expect(clippy::too_many_lines, reason = "one arm for each kind of change")]
fn change(graph: &mut Graph, inputs: &mut Arc<FilterInputs>, step: &Step) {
    let mut listener = |index: usize, change: &mut dyn FnMut(&mut Listener)| {
        let (port, name, _) = PORTS[index];
        let gateway = graph
            .gateways
            .entry(gateway())
            .or_insert_with(|| Arc::clone(&start().gateways[&gateway()]));
        let listeners = Arc::make_mut(gateway).ports.get_mut(&port).unwrap();
        change(listeners.iter_mut().find(|listener| listener.name == name).unwrap());
    };
    let name = |index: usize| ClusterName(CLUSTERS[index].into());
    match step {
        Step::Host(port, host, routes) => listener(*port, &mut |listener| {
            let hostname = hostname(*port, *host);
            let routes = routes.iter().enumerate().map(|(index, seed)| some_route(index, seed));
            let host = VirtualHost {
                hostname: hostname.clone(),
                routes: routes.collect(),
            };
            listener.virtual_hosts.insert(hostname, Arc::new(host));
        }),
        Step::NoHost(port, host) => listener(*port, &mut |listener| {
            listener.virtual_hosts.remove(&hostname(*port, *host));
        }),
        Step::Route(port, host, index, seed) => listener(*port, &mut |listener| {
            let hostname = hostname(*port, *host);
            if let Some(host) = listener.virtual_hosts.get_mut(&hostname)
                && let Some(route) = Arc::make_mut(host).routes.get_mut(*index)
            {
                *route = some_route(*index, seed);
            }
        }),
        Step::Cluster(index, policy, never_begins, tls) => {
            let mut made = cluster(CLUSTERS[*index]);
            made.session = policy.map(|policy| SessionUse {
                policy: POLICIES[policy].into(),
                scope: format!("xbackend/{}/own", CLUSTERS[*index]).into(),
            });
            made.never_begins = *never_begins;
            made.tls = tls.then(|| BackendTls {
                sni: "own.example".to_owned(),
                subject_alt_names: Vec::new(),
                authorities: TrustedAuthorities::System,
            });
            graph.clusters.insert(name(*index), Arc::new(made));
        }
        Step::NoCluster(index) => drop(graph.clusters.remove(&name(*index))),
        Step::Policy(index, strict) => {
            graph
                .policies
                .insert(POLICIES[*index].into(), some_policy(*index, *strict));
        }
        Step::Certificate(false) => drop(graph.certificates.remove(&secret())),
        Step::Certificate(true) => {
            let certificate = Certificate {
                chain: Arc::from(&b"chain"[..]),
                key: Arc::new(Zeroizing::new(b"key".to_vec())),
            };
            graph.certificates.insert(secret(), Arc::new(certificate));
        }
        Step::Retained(some) => {
            let retained = some.then(|| ("retained".to_owned(), policy(json!({"cookie": {"name": "retained"}}))));
            Arc::make_mut(inputs).retained.policies = retained.into_iter().collect();
        }
        Step::TlsOf(index, has) => listener(*index, &mut |listener| {
            listener.certificates = Some(has.then(secret).into_iter().collect());
        }),
        Step::NoGateway => drop(graph.gateways.remove(&gateway())),
    }
}

fn text(resources: &Resources) -> Vec<String> {
    let units = resources.units().map(|unit| format!("unit {unit:?}"));
    resources
        .iter()
        .map(|resource| format!("{resource:?}"))
        .chain(units)
        .collect()
}

#[test]
fn a_unit_follows_a_cluster_beside_a_route_that_changes() {
    let (mut graph, options) = (start(), Arc::new(EnvoyOptions::default()));
    let mut inputs = Arc::new(inputs());
    let (changing, other) = ((0, vec![0], None), (1, vec![1], Some(Some(0))));
    change(&mut graph, &mut inputs, &Step::Host(0, 1, vec![changing, other]));
    let mut used = GatewayReferences::by(&graph, &gateway());
    let mut kept = GatewayResources::new(&graph, &gateway(), used.clone(), &options, &inputs);
    let before = graph.clone();
    change(&mut graph, &mut inputs, &Step::Route(0, 1, 0, (0, vec![2], None)));
    change(&mut graph, &mut inputs, &Step::Cluster(1, None, true, false));
    used.catch_up(&gateway(), &before, &graph);
    kept.catch_up(&graph, used, &options, &inputs);
    assert_eq!(
        text(kept.resources()),
        text(&served(&graph, &gateway(), &options, &inputs))
    );
}

/// Policies that scopes of the whole Gateway had only before, with those that they have only now.
fn all_replaced(before: &Graph, after: &Graph) -> BTreeSet<ReplacedPolicy> {
    let uses = |graph: &Graph| -> BTreeSet<SessionUse> {
        let gateway = graph.gateways.get(&gateway());
        let hosts = gateway.into_iter().flat_map(|gateway| hosts(gateway));
        hosts.flat_map(|(_, host)| sessions(graph, host).cloned()).collect()
    };
    let (was, is) = (uses(before), uses(after));
    let gone = was.difference(&is);
    let pairs = gone.flat_map(|gone| is.difference(&was).map(move |new| (gone, new)));
    pairs
        .filter(|(gone, new)| gone.scope == new.scope)
        .map(|(gone, new)| ReplacedPolicy {
            namespace: new.namespace(),
            before: gone.policy.clone(),
            after: new.policy.clone(),
        })
        .collect()
}

#[test]
fn another_policy_of_one_rule_among_others_that_have_both_was_not_seen() {
    let (mut graph, mut inputs) = (start(), Arc::new(inputs()));
    let route = |index, policy| (index, vec![0], Some(Some(policy)));
    change(
        &mut graph,
        &mut inputs,
        &Step::Host(0, 1, vec![route(0, 0), route(0, 1), route(0, 0)]),
    );
    let (before, used) = (graph.clone(), GatewayReferences::by(&graph, &gateway()));
    change(&mut graph, &mut inputs, &Step::Route(0, 1, 2, route(0, 1)));
    let mut caught_up = used.clone();
    caught_up.catch_up(&gateway(), &before, &graph);
    assert_eq!(caught_up, used, "the host refers to the same policies");
    let replaced = used.replaced_policies(&gateway(), &before, &graph);
    let [namespace, web, strict] = ["shop", "web", "strict"].map(Into::into);
    let expected = ReplacedPolicy {
        namespace,
        before: web,
        after: strict,
    };
    assert_eq!(replaced, [expected.clone()].into());
    assert_eq!(used.replaced_policies(&gateway(), &before, &before), BTreeSet::new());

    let rules = vec![route(0, 1), route(0, 1), route(0, 1)];
    change(&mut graph, &mut inputs, &Step::Host(0, 1, rules));
    let replaced = used.replaced_policies(&gateway(), &before, &graph);
    assert_eq!(replaced, [expected].into());
}

#[test]
fn another_policy_of_a_clusters_own_sessions_replaces_theirs() {
    let (mut graph, mut inputs) = (start(), Arc::new(inputs()));
    change(
        &mut graph,
        &mut inputs,
        &Step::Host(0, 1, vec![(0, vec![0], Some(None))]),
    );
    change(&mut graph, &mut inputs, &Step::Cluster(0, Some(0), false, false));
    let (before, used) = (graph.clone(), GatewayReferences::by(&graph, &gateway()));
    change(&mut graph, &mut inputs, &Step::Cluster(0, Some(1), false, false));
    let [namespace, web, strict] = [CLUSTERS[0], "web", "strict"].map(Into::into);
    let expected = ReplacedPolicy {
        namespace,
        before: web,
        after: strict,
    };
    assert_eq!(used.replaced_policies(&gateway(), &before, &graph), [expected].into());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Takes seconds: all resources of a Gateway are made after each of thousands of changes.
    #[test]
    fn what_is_patched_is_what_would_be_made_anew(turns in proptest::collection::vec(proptest::collection::vec(step(), 1..4), 1..30)) {
        let (mut graph, options) = (start(), Arc::new(EnvoyOptions::default()));
        let mut inputs = inputs();
        let fence = |namespace: &str| FenceConfig {
            address: "10.0.0.7".to_owned(),
            namespace: Some(namespace.to_owned()),
            not_before: 1_790_000_000,
        };
        inputs.fences = ["other", "shop", CLUSTERS[0]].map(fence).to_vec();
        let mut inputs = Arc::new(inputs);
        let mut used = GatewayReferences::by(&graph, &gateway());
        let mut kept = GatewayResources::new(&graph, &gateway(), used.clone(), &options, &inputs);
        for steps in turns {
            let before = graph.clone();
            for step in &steps {
                change(&mut graph, &mut inputs, step);
            }
            let replaced = used.replaced_policies(&gateway(), &before, &graph);
            for missed in all_replaced(&before, &graph).difference(&replaced) {
                prop_assert!(false, "{missed:?} is not among {replaced:?}");
            }
            used.catch_up(&gateway(), &before, &graph);
            kept.catch_up(&graph, used.clone(), &options, &inputs);
            let references = GatewayReferences::by(&graph, &gateway());
            let fresh = GatewayResources::new(&graph, &gateway(), references, &options, &inputs);
            prop_assert_eq!(text(kept.resources()), text(&served(&graph, &gateway(), &options, &inputs)));
            prop_assert_eq!(kept.used(), fresh.used());
            prop_assert_eq!(used.policies_within(&graph, MOST_BYTES), used_policies(&graph, &gateway()));
            let moving = |served: &GatewayResources| served.moving().map(|filter| filter.with(&BTreeMap::default()));
            prop_assert_eq!(moving(&kept), moving(&fresh));
        }
    }
}
