use super::*;

fn bed() -> Bed {
    Bed::new(ProtocolVariant::StateOfTheWorld)
}

impl Bed {
    fn come_with_version(&mut self, resource_type: ResourceType, names: &[&str], version: ResourceVersion) {
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        self.names.insert(resource_type, names.clone());
        let request = DiscoveryRequest {
            version_info: version.to_string(),
            resource_names: names,
            ..DiscoveryRequest::default()
        };
        self.stream.request(resource_type, request, &self.group);
    }

    fn version(&self, resource_type: ResourceType) -> ResourceVersion {
        self.sent[&resource_type].version.unwrap()
    }
}

#[test]
fn clusters_and_listeners_are_sent_whole() {
    for each in [Cluster, Listener] {
        let mut bed = bed();
        bed.publish(&[(each, "a", "1"), (each, "b", "1"), (each, "c", "1")]);
        bed.ask(each, &[]);
        assert_eq!(bed.settle(), [format!("{each} a=1 b=1 c=1")]);
        bed.publish(&[(each, "b", "2"), (each, "c", ""), (each, "d", "1")]);
        assert_eq!(bed.settle(), [format!("{each} a=1 b=2 d=1")]);
        assert!(bed.responses().is_empty() && bed.is_settled());
        bed.publish(&[(each, "a", ""), (each, "b", ""), (each, "d", "")]);
        assert_eq!(bed.settle(), [each.to_string()]);
    }
}

#[test]
fn a_group_without_listeners_is_answered() {
    let mut bed = bed();
    bed.publish(&[]);
    bed.ask(Listener, &[]);
    assert_eq!(bed.settle(), ["Listener"]);
    assert!(bed.responses().is_empty());
}

#[test]
fn of_other_types_what_changed_is_sent() {
    let mut bed = bed();
    bed.publish(&[
        (ClusterLoadAssignment, "a", "1"),
        (ClusterLoadAssignment, "b", "1"),
        (ClusterLoadAssignment, "c", "1"),
    ]);
    bed.ask(ClusterLoadAssignment, &["a", "b", "x"]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment a=1 b=1"]);
    bed.publish(&[(ClusterLoadAssignment, "b", "2"), (ClusterLoadAssignment, "c", "2")]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment b=2"]);
    bed.ask(ClusterLoadAssignment, &["c"]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment c=2"]);
    bed.publish(&[(ClusterLoadAssignment, "a", ""), (ClusterLoadAssignment, "x", "1")]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment x=1"]);
    bed.publish(&[(ClusterLoadAssignment, "a", "1")]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment a=1"]);
    bed.drop_names(ClusterLoadAssignment, &["b"]);
    bed.publish(&[(ClusterLoadAssignment, "b", "3")]);
    assert!(bed.responses().is_empty());
    bed.ask(ClusterLoadAssignment, &["b"]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment b=3"]);
}

#[test]
fn a_node_that_comes_back_with_the_same_version_has_it_all() {
    let mut bed = bed();
    bed.publish(&[
        (Cluster, "a", "1"),
        (Cluster, "b", "1"),
        (Secret, "s", "1"),
        (Secret, "t", "1"),
    ]);
    bed.ask(Cluster, &[]);
    bed.ask(Secret, &["s"]);
    bed.settle();
    bed.publish(&[(Cluster, "a", "2"), (Secret, "s", "2")]);
    bed.settle();
    let versions = (bed.version(Cluster), bed.version(Secret));

    bed.reconnect();
    bed.come_with_version(Cluster, &[], versions.0);
    bed.come_with_version(Secret, &["s"], versions.1);
    assert!(bed.responses().is_empty());
    assert!(bed.stream.acknowledged().count() == 3);
    bed.publish(&[(Cluster, "b", "2")]);
    assert_eq!(bed.settle(), ["Cluster a=2 b=2"], "what it has is known");

    bed.reconnect();
    bed.come_with_version(Cluster, &[], versions.0);
    bed.come_with_version(Secret, &["s", "t"], versions.1);
    assert_eq!(bed.settle(), ["Cluster a=2 b=2", "Secret s=2 t=1"]);
}

#[test]
fn a_node_of_an_unknown_group_waits() {
    let mut bed = bed();
    bed.ask(Cluster, &[]);
    assert!(bed.responses().is_empty());
    bed.publish(&[(Cluster, "a", "1")]);
    assert_eq!(bed.settle(), ["Cluster a=1"]);
}

#[test]
fn a_request_that_has_not_seen_the_last_response_is_void() {
    let mut bed = bed();
    bed.publish(&[(Secret, "s", "1"), (Secret, "t", "1")]);
    bed.ask(Secret, &["s"]);
    bed.responses();
    let stale = bed.sent[&Secret].nonce.to_string();
    bed.ack(Secret);
    bed.publish(&[(Secret, "s", "2")]);
    assert_eq!(bed.responses(), ["Secret s=2"]);
    bed.names.insert(Secret, vec!["s".to_owned(), "t".to_owned()]);
    assert_eq!(bed.send(Secret, stale, None), ResponseVerdict::None);
    assert!(bed.responses().is_empty());
    bed.ack(Secret);
    assert_eq!(bed.settle(), ["Secret t=1"]);
}

#[test]
fn what_a_node_refuses_is_not_in_the_next_state() {
    let mut bed = bed();
    bed.publish(&[(Cluster, "a", "1"), (Cluster, "b", "1")]);
    bed.ask(Cluster, &[]);
    bed.settle();
    bed.publish(&[(Cluster, "b", "bad")]);
    assert_eq!(bed.responses(), ["Cluster a=1 b=bad"]);
    bed.nack(Cluster, "b is bad");
    assert!(bed.responses().is_empty());
    assert_eq!(bed.refusals(), ["Cluster b: b is bad"]);
    bed.publish(&[(Cluster, "a", "2")]);
    assert_eq!(bed.settle(), ["Cluster a=2 b=1"]);
    bed.publish(&[(Cluster, "b", "2")]);
    assert_eq!(bed.settle(), ["Cluster a=2 b=2"]);
    assert!(bed.refusals().is_empty());
}

#[test]
fn the_bad_one_of_a_whole_state_is_found() {
    let mut bed = bed();
    bed.publish(&[
        (Cluster, "a", "1"),
        (Cluster, "b", "bad"),
        (Cluster, "c", "1"),
        (Cluster, "d", "1"),
    ]);
    bed.ask(Cluster, &[]);
    while !bed.responses().is_empty() {
        let bad = bed.sent[&Cluster]
            .resources
            .iter()
            .any(|resource| resource.body() == b"bad");
        if bad {
            bed.nack(Cluster, "bad")
        } else {
            bed.ack(Cluster)
        };
    }
    assert_eq!(bed.refusals(), ["Cluster b: bad"]);
    bed.publish(&[(Cluster, "e", "1")]);
    assert_eq!(bed.settle(), ["Cluster a=1 c=1 d=1 e=1"]);
}
