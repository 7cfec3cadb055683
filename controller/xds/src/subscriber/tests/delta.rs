use super::*;

fn bed() -> Bed {
    Bed::new(ProtocolVariant::Delta)
}

#[test]
fn everything_comes_first_and_then_what_changed() {
    let mut bed = bed();
    bed.publish(&[(Cluster, "a", "1"), (Cluster, "b", "1"), (Cluster, "c", "1")]);
    bed.ask(Cluster, &[]);
    assert_eq!(bed.responses(), ["Cluster a=1 b=1 c=1"]);
    assert!(!bed.is_settled());
    assert!(matches!(bed.ack(Cluster), ResponseVerdict::Acknowledged(resources) if resources.len() == 3));
    assert!(bed.responses().is_empty() && bed.is_settled());

    bed.publish(&[(Cluster, "b", "2"), (Cluster, "c", ""), (Cluster, "d", "1")]);
    assert!(!bed.is_settled(), "published, and not even sent");
    assert_eq!(bed.settle(), ["Cluster b=2 d=1 -c"]);
    bed.publish(&[(Cluster, "d", "1")]);
    assert!(bed.responses().is_empty() && bed.is_settled());
}

#[test]
fn a_slow_node_gets_the_last_of_many_changes() {
    let mut bed = bed();
    bed.publish(&[(ClusterLoadAssignment, "a", "0"), (ClusterLoadAssignment, "b", "0")]);
    bed.ask(ClusterLoadAssignment, &["a", "b"]);
    assert_eq!(bed.responses(), ["ClusterLoadAssignment a=0 b=0"]);
    for round in 1..=100 {
        let changed = resource(ClusterLoadAssignment, "a", &round.to_string());
        assert!(bed.group.publish_one(changed));
        assert!(bed.responses().is_empty(), "one response is unanswered");
    }
    bed.ack(ClusterLoadAssignment);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment a=100"]);
}

#[test]
fn types_do_not_wait_for_each_others_acknowledgements() {
    let mut bed = bed();
    bed.publish(&[(Cluster, "a", "1"), (Secret, "s", "1")]);
    bed.ask(Cluster, &[]);
    bed.ask(Secret, &["s"]);
    assert_eq!(bed.responses(), ["Cluster a=1", "Secret s=1"]);
}

#[test]
fn a_node_that_comes_back_gets_what_it_does_not_have() {
    let mut bed = bed();
    bed.publish(&[(Cluster, "a", "1"), (Cluster, "b", "2"), (Cluster, "d", "1")]);
    bed.come_with(Cluster, &[], &[("a", "1"), ("b", "1"), ("c", "1")]);
    assert_eq!(bed.settle(), ["Cluster b=2 d=1 -c"]);
    assert!(bed.is_settled());

    bed.reconnect();
    bed.come_with(Cluster, &["*"], &[("a", "1"), ("b", "2"), ("d", "1")]);
    assert!(bed.responses().is_empty() && bed.is_settled());

    bed.publish(&[(Secret, "s", "1")]);
    bed.come_with(Secret, &["s"], &[("s", "1")]);
    assert!(bed.responses().is_empty() && bed.is_settled());
}

#[test]
fn a_node_of_an_unknown_group_keeps_what_it_has_and_waits() {
    let mut bed = bed();
    bed.come_with(Cluster, &[], &[("a", "1"), ("b", "1")]);
    bed.ask(Secret, &["s"]);
    assert!(bed.responses().is_empty());
    bed.publish(&[(Cluster, "a", "1"), (Secret, "s", "1")]);
    assert_eq!(bed.settle(), ["Cluster -b", "Secret s=1"]);

    bed.group.forget();
    assert!(bed.responses().is_empty());
    bed.publish(&[(Cluster, "a", ""), (Cluster, "c", "1")]);
    assert_eq!(bed.settle(), ["Cluster c=1 -a"]);
}

#[test]
fn names_that_do_not_exist_are_answered_once() {
    let mut bed = bed();
    bed.publish(&[(ClusterLoadAssignment, "a", "1")]);
    bed.ask(ClusterLoadAssignment, &["a", "b"]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment a=1 -b"]);
    bed.publish(&[(ClusterLoadAssignment, "a", "2")]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment a=2"]);
    bed.ask(ClusterLoadAssignment, &["c"]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment -c"]);
    bed.publish(&[(ClusterLoadAssignment, "b", "1")]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment b=1"]);
    bed.publish(&[(ClusterLoadAssignment, "b", "")]);
    assert_eq!(bed.settle(), ["ClusterLoadAssignment -b"]);
}

#[test]
fn a_group_without_listeners_is_answered() {
    let mut bed = bed();
    bed.publish(&[]);
    bed.ask(Listener, &[]);
    assert_eq!(bed.settle(), ["Listener"]);
    bed.reconnect();
    bed.come_with(Listener, &[], &[("gone", "1")]);
    assert_eq!(bed.settle(), ["Listener -gone"]);
}

#[test]
fn who_asks_again_gets_it_again() {
    let mut bed = bed();
    bed.publish(&[(Secret, "s", "1"), (Secret, "t", "1")]);
    bed.ask(Secret, &["s", "t"]);
    assert_eq!(bed.settle(), ["Secret s=1 t=1"]);
    bed.ask(Secret, &["s"]);
    assert_eq!(bed.settle(), ["Secret s=1"]);
    bed.drop_names(Secret, &["s"]);
    bed.publish(&[(Secret, "s", "2"), (Secret, "t", "2")]);
    assert_eq!(bed.settle(), ["Secret t=2"]);
    bed.ask(Secret, &["s"]);
    assert_eq!(bed.settle(), ["Secret s=2"]);
}

#[test]
fn everything_can_be_asked_for_and_no_longer() {
    let mut bed = bed();
    bed.publish(&[(Cluster, "a", "1"), (Cluster, "b", "1")]);
    bed.ask(Cluster, &["a"]);
    assert_eq!(bed.settle(), ["Cluster a=1"]);
    bed.ask(Cluster, &["*"]);
    assert_eq!(bed.settle(), ["Cluster b=1"]);
    bed.drop_names(Cluster, &["*"]);
    bed.publish(&[(Cluster, "a", "2"), (Cluster, "b", "2")]);
    assert_eq!(bed.settle(), ["Cluster a=2"]);
}

#[test]
fn what_is_removed_while_it_is_sent_is_removed() {
    let mut bed = bed();
    bed.publish(&[(Cluster, "a", "1")]);
    bed.ask(Cluster, &[]);
    assert_eq!(bed.responses(), ["Cluster a=1"]);
    bed.publish(&[(Cluster, "a", "")]);
    assert!(bed.responses().is_empty());
    bed.ack(Cluster);
    assert_eq!(bed.settle(), ["Cluster -a"]);

    bed.publish(&[(Cluster, "a", "1")]);
    bed.settle();
    bed.publish(&[(Cluster, "a", "2")]);
    assert_eq!(bed.responses(), ["Cluster a=2"]);
    bed.publish(&[(Cluster, "a", "1")]);
    bed.ack(Cluster);
    assert_eq!(bed.settle(), ["Cluster a=1"]);
}

#[test]
fn what_is_refused_is_sent_again_when_it_changed() {
    let mut bed = bed();
    bed.publish(&[(RouteConfiguration, "r", "good")]);
    bed.ask(RouteConfiguration, &["r"]);
    bed.settle();
    let good = resource(RouteConfiguration, "r", "good").version();
    let bad = resource(RouteConfiguration, "r", "bad").version();

    bed.publish(&[(RouteConfiguration, "r", "bad")]);
    assert_eq!(bed.responses(), ["RouteConfiguration r=bad"]);
    let answer = bed.nack(RouteConfiguration, "no such cluster");
    assert_eq!(
        answer,
        ResponseVerdict::Refused(vec![("r".into(), Some(bad))], "no such cluster".into())
    );
    assert!(bed.responses().is_empty() && !bed.is_settled());
    let words = Arc::from("no such cluster");
    assert_eq!(
        bed.stream.standing(RouteConfiguration, "r"),
        (Some(good), Some((bad, &words)))
    );

    bed.publish(&[(Cluster, "a", "1")]);
    assert!(bed.responses().is_empty(), "it did not change");
    bed.publish(&[(RouteConfiguration, "r", "better")]);
    assert_eq!(bed.settle(), ["RouteConfiguration r=better"]);
    assert!(bed.refusals().is_empty() && bed.is_settled());

    bed.publish(&[(RouteConfiguration, "r", "bad")]);
    bed.responses();
    bed.nack(RouteConfiguration, "no such cluster");
    bed.publish(&[(RouteConfiguration, "r", "better")]);
    assert!(bed.responses().is_empty() && bed.refusals().is_empty() && bed.is_settled());
}

#[test]
fn a_refused_listener_is_offered_again_after_a_while() {
    let mut bed = bed();
    bed.publish(&[(Listener, "a", "1"), (Listener, "b", "1"), (Secret, "s", "1")]);
    bed.ask(Listener, &["*"]);
    bed.ask(Secret, &["s"]);
    bed.settle();
    for (changed, words) in [((Listener, "a", "2"), "cannot bind"), ((Secret, "s", "2"), "no key")] {
        bed.publish(&[changed]);
        assert_eq!(bed.responses().len(), 1);
        bed.nack(changed.0, words);
        assert!(bed.responses().is_empty());
    }
    for _ in 0..2 {
        let due = bed.stream.deadline(bed.now).expect("a time to look again");
        assert_eq!(due - bed.now, Duration::from_secs(30));
        bed.wait(Duration::from_secs(29));
        assert!(bed.responses().is_empty());
        bed.wait(Duration::from_secs(1));
        assert_eq!(
            bed.responses(),
            ["Listener a=2"],
            "neither what it has nor what can not get better"
        );
        assert_eq!(bed.refusals().len(), 2, "it is refused until it is taken");
        bed.nack(Listener, "cannot bind");
        assert!(bed.responses().is_empty());
    }
    bed.wait(Duration::from_secs(30));
    assert_eq!(bed.settle(), ["Listener a=2"]);
    assert_eq!(bed.refusals(), ["Secret s: no key"]);
    assert_eq!(bed.stream.deadline(bed.now), None);
}

#[test]
fn one_bad_resource_does_not_keep_the_others_away() {
    for bad in 0..7 {
        let mut bed = bed();
        let names: Vec<_> = (0..7).map(|number| number.to_string()).collect();
        let all: Vec<_> = names.iter().map(|name| (Secret, name.as_str(), "1")).collect();
        bed.publish(&all);
        bed.ask(Secret, &names.iter().map(String::as_str).collect::<Vec<_>>());
        let mut responses = 0;
        while !bed.responses().is_empty() {
            responses += 1;
            let sent = &bed.sent[&Secret].resources;
            if sent.iter().any(|resource| **resource.name() == *names[bad]) {
                bed.nack(Secret, "bad");
            } else {
                bed.ack(Secret);
            }
        }
        assert_eq!(bed.refusals(), [format!("Secret {bad}: bad")]);
        assert_eq!(bed.stream.acknowledged().count(), 6);
        assert!(responses <= 7, "{responses}");
    }
}

#[test]
fn answers_to_other_responses_mean_nothing() {
    let mut bed = bed();
    bed.publish(&[(Secret, "s", "1")]);
    bed.ask(Secret, &["s"]);
    bed.responses();
    for nonce in ["", "0", "2", "x"] {
        assert_eq!(bed.send(Secret, nonce.to_owned(), None), ResponseVerdict::None);
    }
    assert!(!bed.is_settled());
    bed.ack(Secret);
    assert_eq!(bed.ack(Secret), ResponseVerdict::None, "it is answered already");
    assert!(bed.is_settled());
}

#[test]
fn much_is_sent_in_parts_where_it_may_be() {
    let mut bed = bed();
    let large = "x".repeat(300 << 10);
    let names: Vec<_> = (0..10).map(|number| number.to_string()).collect();
    for each in [Cluster, ClusterLoadAssignment] {
        bed.publish(
            &names
                .iter()
                .map(|name| (each, name.as_str(), large.as_str()))
                .collect::<Vec<_>>(),
        );
    }
    bed.ask(
        ClusterLoadAssignment,
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let responses = bed.settle();
    let total: usize = responses.iter().map(String::len).sum();
    assert!(responses.len() > 2 && total > 10 * large.len(), "{}", responses.len());
    assert!(responses.iter().all(|response| response.len() < 2 << 20));
    assert!(bed.is_settled());

    bed.ask(Cluster, &[]);
    bed.responses();
    assert_eq!(bed.sent[&Cluster].resources.len(), names.len());
}

#[test]
fn filter_configurations_alone_are_served_alone() {
    let stream = Subscriber::new(
        ProtocolVariant::Delta,
        StreamService::ExtensionConfig,
        NodeAbilities::default(),
    );
    let served = ResourceType::ALL.into_iter().filter(|each| stream.serves(*each));
    assert_eq!(served.collect::<Vec<_>>(), [ExtensionConfig]);
}
