use super::super::order::{CLUSTERS_PATIENCE, FILTERS_INTERVAL, PATIENCE};
use super::*;

const BOTH: [ProtocolVariant; 2] = [ProtocolVariant::Delta, ProtocolVariant::StateOfTheWorld];

fn served(protocol: ProtocolVariant) -> Bed {
    let mut bed = Bed::new(protocol);
    bed.publish(&[
        (Cluster, "a", "1"),
        (ClusterLoadAssignment, "a", "1"),
        (ExtensionConfig, "filter", "1"),
        (Secret, "tls", "1"),
        (Listener, "web", "1"),
        (RouteConfiguration, "web", "a"),
    ]);
    bed.ask(Cluster, &[]);
    assert_eq!(bed.settle(), ["Cluster a=1"]);
    bed.ask(ClusterLoadAssignment, &["a"]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment a=1"]);
    bed.ask(Listener, &[]);
    assert_eq!(bed.settle(), ["Listener web=1"]);
    bed.ask(RouteConfiguration, &["web"]);
    bed.ask(ExtensionConfig, &["filter"]);
    bed.ask(Secret, &["tls"]);
    assert_eq!(bed.responses(), ["ExtensionConfig filter=1", "Secret tls=1"]);
    bed.ack(ExtensionConfig);
    bed.ack(Secret);
    assert_eq!(bed.settle(), ["RouteConfiguration web=a"]);
    assert!(bed.is_settled());
    bed
}

#[test]
fn a_route_waits_for_its_new_cluster_and_its_endpoints() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        bed.publish(&[
            (Cluster, "b", "1"),
            (ClusterLoadAssignment, "b", "1"),
            (RouteConfiguration, "web", "b"),
        ]);
        let whole = if protocol == ProtocolVariant::Delta {
            "Cluster b=1"
        } else {
            "Cluster a=1 b=1"
        };
        assert_eq!(bed.responses(), [whole]);
        bed.ack(Cluster);
        assert!(bed.responses().is_empty(), "the endpoints are not there");
        bed.ask(ClusterLoadAssignment, &["b"]);
        assert_eq!(bed.responses(), ["ClusterLoadAssignment b=1"]);
        bed.ack(ClusterLoadAssignment);
        assert_eq!(bed.settle(), ["RouteConfiguration web=b"]);
    }
}

#[test]
fn a_route_does_not_wait_for_ever() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        bed.publish(&[
            (Cluster, "b", "1"),
            (ClusterLoadAssignment, "b", "1"),
            (RouteConfiguration, "web", "b"),
        ]);
        assert_eq!(bed.responses().len(), 1);
        assert_eq!(bed.stream.deadline(bed.now), Some(bed.now + PATIENCE));
        bed.wait(PATIENCE.mul_f64(0.99));
        assert!(bed.responses().is_empty());
        bed.wait(PATIENCE.mul_f64(0.01));
        assert_eq!(bed.responses(), ["RouteConfiguration web=b"]);
        bed.ack(RouteConfiguration);
        assert!(bed.responses().is_empty());
        assert_eq!(bed.stream.deadline(bed.now), None);
    }
}

#[test]
fn a_route_does_not_wait_for_a_refused_or_empty_cluster() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        bed.publish(&[
            (Cluster, "b", "1"),
            (ClusterLoadAssignment, "b", "1"),
            (RouteConfiguration, "web", "b"),
        ]);
        assert_eq!(bed.responses().len(), 1);
        bed.nack(Cluster, "bad");
        assert_eq!(bed.settle(), ["RouteConfiguration web=b"]);

        bed.publish(&[(Cluster, "static", "1"), (RouteConfiguration, "web", "c")]);
        assert_eq!(bed.responses().len(), 1);
        bed.ack(Cluster);
        assert_eq!(bed.responses(), ["RouteConfiguration web=c"]);
    }
}

#[test]
fn routes_do_not_wait_for_endpoints_that_only_change() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        bed.publish(&[(ClusterLoadAssignment, "a", "2"), (RouteConfiguration, "web", "b")]);
        assert_eq!(
            bed.responses(),
            ["ClusterLoadAssignment a=2", "RouteConfiguration web=b"]
        );
    }
}

#[test]
fn filters_and_secrets_come_before_listeners_and_routes() {
    for protocol in BOTH {
        for first in [(ExtensionConfig, "filter"), (Secret, "tls")] {
            let mut bed = served(protocol);
            bed.publish(&[
                (first.0, first.1, "2"),
                (Listener, "web", "2"),
                (RouteConfiguration, "web", "b"),
            ]);
            assert_eq!(bed.responses(), [format!("{} {}=2", first.0, first.1)]);
            bed.ack(first.0);
            assert_eq!(bed.responses(), ["Listener web=2", "RouteConfiguration web=b"]);
        }
    }
}

#[test]
fn a_cluster_named_a_policy_that_the_filter_did_not_have_yet() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        let change = |bed: &mut Bed, content| {
            bed.wait(FILTERS_INTERVAL);
            bed.publish(&[
                (Cluster, "a", content),
                (ExtensionConfig, "filter", content),
                (RouteConfiguration, "web", content),
            ]);
            assert_eq!(bed.responses(), [format!("ExtensionConfig filter={content}")]);
        };
        change(&mut bed, "2");
        bed.ack(ExtensionConfig);
        assert_eq!(bed.responses(), ["Cluster a=2", "ClusterLoadAssignment a=1"]);
        bed.ack(Cluster);
        assert_eq!(bed.responses(), ["RouteConfiguration web=2"]);
        bed.ack(ClusterLoadAssignment);
        bed.ack(RouteConfiguration);
        assert!(bed.is_settled());

        change(&mut bed, "3");
        bed.nack(ExtensionConfig, "bad");
        assert_eq!(bed.responses()[0], "Cluster a=3");
        bed.ack(Cluster);
        bed.ack(ClusterLoadAssignment);
        bed.settle();
        change(&mut bed, "4");
        assert_eq!(bed.stream.deadline(bed.now), Some(bed.now + CLUSTERS_PATIENCE));
        bed.wait(CLUSTERS_PATIENCE);
        assert_eq!(bed.responses(), ["Cluster a=4", "ClusterLoadAssignment a=1"]);
        bed.ack(Cluster);
        assert_eq!(bed.responses(), [""; 0], "the filter is still unanswered");
        bed.wait(PATIENCE.saturating_sub(CLUSTERS_PATIENCE));
        assert_eq!(bed.responses(), ["RouteConfiguration web=4"]);
    }
}

#[test]
fn policies_that_changed_all_the_time_set_up_filters_all_the_time() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        let change = |bed: &mut Bed, content| {
            bed.publish(&[
                (ExtensionConfig, "filter", content),
                (RouteConfiguration, "web", content),
            ]);
        };
        change(&mut bed, "2");
        assert_eq!(
            bed.settle(),
            ["ExtensionConfig filter=2", "RouteConfiguration web=2"],
            "the first waits for nothing"
        );
        for content in ["3", "4", "5"] {
            change(&mut bed, content);
            assert_eq!(bed.responses(), [""; 0], "the route waits for its policy");
            bed.publish(&[(ClusterLoadAssignment, "a", content)]);
            assert_eq!(bed.responses(), [format!("ClusterLoadAssignment a={content}")]);
            bed.ack(ClusterLoadAssignment);
            bed.wait(FILTERS_INTERVAL / 4);
        }
        assert_eq!(bed.stream.deadline(bed.now), Some(bed.now + FILTERS_INTERVAL / 4));
        bed.wait(FILTERS_INTERVAL / 4);
        assert_eq!(bed.settle(), ["ExtensionConfig filter=5", "RouteConfiguration web=5"]);
        assert_eq!(bed.stream.deadline(bed.now), None);
    }
}

#[test]
fn a_cluster_is_removed_after_its_routes_are_replaced() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        bed.publish(&[
            (Cluster, "a", ""),
            (ClusterLoadAssignment, "a", ""),
            (Cluster, "b", "1"),
            (RouteConfiguration, "web", "b"),
        ]);
        let whole = if protocol == ProtocolVariant::Delta {
            "Cluster b=1"
        } else {
            "Cluster a=1 b=1"
        };
        assert_eq!(bed.responses(), [whole]);
        bed.ack(Cluster);
        assert_eq!(bed.responses(), ["RouteConfiguration web=b"]);
        bed.wait(10 * PATIENCE);
        assert!(bed.responses().is_empty(), "it may still be named");
        bed.ack(RouteConfiguration);
        let whole = if protocol == ProtocolVariant::Delta {
            "Cluster -a"
        } else {
            "Cluster b=1"
        };
        assert_eq!(bed.responses(), [whole]);
        bed.drop_names(ClusterLoadAssignment, &["a"]);
        bed.ack(Cluster);
        assert!(bed.responses().is_empty());
        assert!(bed.is_settled());
    }
}

#[test]
fn a_cluster_stays_while_its_routes_refuse_to_be_replaced() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        bed.publish(&[(Cluster, "a", ""), (RouteConfiguration, "web", "bad")]);
        assert_eq!(bed.responses(), ["RouteConfiguration web=bad"]);
        bed.nack(RouteConfiguration, "bad");
        bed.wait(10 * PATIENCE);
        assert!(bed.responses().is_empty());
        bed.publish(&[(RouteConfiguration, "web", "good")]);
        let whole = if protocol == ProtocolVariant::Delta {
            "Cluster -a"
        } else {
            "Cluster"
        };
        assert_eq!(bed.settle(), ["RouteConfiguration web=good", whole]);
    }
}

#[test]
fn a_cluster_stays_until_the_node_has_the_routes_it_asks_for() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        bed.publish(&[
            (Cluster, "a", ""),
            (Listener, "web", "2"),
            (RouteConfiguration, "new", "b"),
        ]);
        assert_eq!(bed.responses(), ["Listener web=2"]);
        bed.ack(Listener);
        assert!(bed.responses().is_empty(), "the listener is waiting for its routes");
        bed.ask(RouteConfiguration, &["new"]);
        assert_eq!(bed.responses(), ["RouteConfiguration new=b"]);
        bed.ack(RouteConfiguration);
        assert_eq!(bed.responses().len(), 1);
        bed.ack(Cluster);
        assert!(bed.is_settled());

        let mut bed = served(protocol);
        bed.publish(&[(Cluster, "a", ""), (RouteConfiguration, "of nobody", "b")]);
        assert!(bed.responses().is_empty());
        assert_eq!(bed.stream.deadline(bed.now), Some(bed.now + PATIENCE));
        bed.wait(PATIENCE);
        assert_eq!(bed.responses().len(), 1);
        bed.ack(Cluster);
        bed.responses();
        assert_eq!(bed.stream.deadline(bed.now), None);
    }
}

#[test]
fn a_listener_is_removed_together_with_what_replaces_it() {
    let mut bed = served(ProtocolVariant::Delta);
    bed.publish(&[(Cluster, "b", "1"), (Listener, "web", ""), (Listener, "web2", "1")]);
    assert_eq!(bed.responses(), ["Cluster b=1"]);
    bed.ack(Cluster);
    assert_eq!(bed.responses(), ["Listener web2=1 -web"]);
}

#[test]
fn what_a_listener_names_is_removed_after_it() {
    let mut bed = served(ProtocolVariant::Delta);
    bed.publish(&[
        (Listener, "web", ""),
        (RouteConfiguration, "web", ""),
        (ExtensionConfig, "filter", ""),
        (Secret, "tls", ""),
    ]);
    assert_eq!(bed.responses(), ["Listener -web"]);
    bed.ack(Listener);
    assert_eq!(bed.responses(), ["RouteConfiguration -web"]);
    bed.ack(RouteConfiguration);
    assert_eq!(bed.responses(), ["Secret -tls"]);
}

/// Connections of a replaced listener drain. Without their filter, Envoy would refuse their requests.
#[test]
fn a_filter_stays_with_the_nodes_that_ask_for_it() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        bed.publish(&[
            (ExtensionConfig, "filter", ""),
            (ExtensionConfig, "other", "1"),
            (Listener, "web", "2"),
        ]);
        assert_eq!(bed.responses(), ["Listener web=2"]);
        bed.ack(Listener);
        bed.ask(ExtensionConfig, &["other"]);
        assert_eq!(bed.responses(), ["ExtensionConfig other=1"]);
        bed.ack(ExtensionConfig);
        assert!(bed.responses().is_empty() && bed.is_settled());
        bed.drop_names(ExtensionConfig, &["filter"]);
        assert!(bed.responses().is_empty() && bed.is_settled());
    }
    // A node that comes back still has it. A new one learns that it does not exist, and does not wait for it.
    let mut bed = served(ProtocolVariant::Delta);
    bed.publish(&[(ExtensionConfig, "filter", "")]);
    bed.reconnect();
    bed.come_with(ExtensionConfig, &["filter"], &[("filter", "1")]);
    assert!(bed.responses().is_empty());
    bed.reconnect();
    bed.come_with(ExtensionConfig, &["filter"], &[]);
    assert_eq!(bed.responses(), ["ExtensionConfig -filter"]);
}

#[test]
fn a_changed_cluster_gets_its_endpoints_again() {
    for protocol in BOTH {
        let mut bed = served(protocol);
        bed.publish(&[(Cluster, "a", "2")]);
        assert_eq!(bed.responses(), ["Cluster a=2", "ClusterLoadAssignment a=1"]);
        bed.ack(Cluster);
        bed.ack(ClusterLoadAssignment);
        assert!(bed.responses().is_empty() && bed.is_settled());
    }
    for clusters_first in [true, false] {
        let mut bed = served(ProtocolVariant::Delta);
        bed.publish(&[(Cluster, "a", "2")]);
        bed.reconnect();
        let mut sent = Vec::new();
        for clusters in [clusters_first, !clusters_first] {
            if clusters {
                bed.come_with(Cluster, &[], &[("a", "1")]);
            } else {
                bed.come_with(ClusterLoadAssignment, &["a"], &[("a", "1")]);
            }
            sent.extend(bed.responses());
        }
        assert_eq!(sent, ["Cluster a=2", "ClusterLoadAssignment a=1"]);
    }
}
