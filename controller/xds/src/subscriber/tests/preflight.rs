//! Units first, live route configurations after them.

use super::*;
use crate::subscriber::order::PATIENCE;
use crate::subscriber::preflight::PATIENCE_IN_ALL;
use ResourceType::VirtualHost;
use limpet_resources::PREFLIGHT;

/// As [`Bed::responses`] shows it: with its key and its length.
fn unit(content: &str) -> String {
    format!("\u{12}{}{content}", char::from(u8::try_from(content.len()).unwrap()))
}

/// A node that asks for a listener, its routes and the preflight, and units `a` to `d` of version 1.
fn asking(protocol: ProtocolVariant) -> Bed {
    let mut bed = Bed::new(protocol);
    bed.stream.has_preflight = true;
    for name in ["a", "b", "c", "d"] {
        bed.resources.insert_unit(resource(VirtualHost, name, "1"));
    }
    bed.publish(&[
        (Listener, "web", "1"),
        (RouteConfiguration, "web", "1"),
        (RouteConfiguration, PREFLIGHT, "frame"),
    ]);
    bed.ask(Listener, &[]);
    bed
}

fn settled(protocol: ProtocolVariant) -> Bed {
    let mut bed = asking(protocol);
    bed.ask(RouteConfiguration, &[PREFLIGHT]);
    bed.settle();
    bed.ask(RouteConfiguration, &["web"]);
    bed.settle();
    assert!(bed.is_settled());
    bed
}

impl Bed {
    fn publish_units(&mut self, units: &[(&str, &str)], routes: &str) {
        for (name, content) in units {
            self.resources.insert_unit(resource(VirtualHost, name, content));
        }
        self.publish(&[(RouteConfiguration, "web", routes)]);
    }

    fn disapprovals(&self) -> Vec<String> {
        let refused = self.stream.disapprovals();
        refused.map(|(name, _, words)| format!("{name}: {words}")).collect()
    }
}

const BOTH: [ProtocolVariant; 2] = [ProtocolVariant::Delta, ProtocolVariant::StateOfTheWorld];

#[test]
fn listeners_and_routes_wait_until_all_units_are_accepted() {
    for protocol in BOTH {
        let mut bed = asking(protocol);
        assert_eq!(bed.responses(), [""; 0], "it will ask for the preflight");
        bed.ask(RouteConfiguration, &[PREFLIGHT]);
        let first = format!("RouteConfiguration preflight=frame{}", unit("1").repeat(4));
        assert_eq!(bed.responses(), [first]);
        assert!(!bed.is_settled());
        bed.ack(RouteConfiguration);
        assert_eq!(
            bed.responses(),
            ["Listener web=1", "RouteConfiguration preflight=frame"]
        );
        bed.ack(Listener);
        bed.ack(RouteConfiguration);
        bed.ask(RouteConfiguration, &["web"]);
        assert_eq!(bed.settle(), ["RouteConfiguration web=1"]);
        assert!(bed.is_settled());

        bed.publish_units(&[("b", "2")], "2");
        assert_eq!(
            bed.settle(),
            [
                format!("RouteConfiguration preflight=frame{}", unit("2")).as_str(),
                "RouteConfiguration preflight=frame web=2"
            ],
            "only what has changed is asked"
        );
        let version = resource(ResourceType::VirtualHost, "b", "2").version();
        assert!(bed.stream.approves("b", version));
    }
}

#[test]
fn a_bad_unit_is_found_and_holds_back_until_replaced() {
    for protocol in BOTH {
        let mut bed = settled(protocol);
        bed.publish_units(&[("a", "2"), ("b", "bad"), ("c", "2"), ("d", "2")], "2");
        let mut asked = 0;
        while !bed.responses().is_empty() {
            let sent = &bed.sent[&RouteConfiguration].resources;
            assert!(sent.iter().all(|one| &**one.name() == PREFLIGHT), "{sent:?}");
            asked += 1;
            if String::from_utf8_lossy(sent[0].body()).contains("bad") {
                bed.nack(RouteConfiguration, "no");
            } else {
                bed.ack(RouteConfiguration);
            }
        }
        assert_eq!((asked, bed.disapprovals()), (6, vec!["b: no".to_owned()]));
        assert!(bed.refusals().is_empty(), "nothing live was refused");
        assert!(!bed.is_settled());

        bed.publish_units(&[("b", "1")], "3");
        assert_eq!(bed.settle(), ["RouteConfiguration preflight=frame web=3"]);
        assert!(bed.disapprovals().is_empty() && bed.is_settled());
    }
}

fn refusing() -> Bed {
    let mut bed = settled(ProtocolVariant::Delta);
    bed.publish_units(&[("b", "bad")], "2");
    bed.responses();
    bed.nack(RouteConfiguration, "no");
    assert_eq!(bed.responses(), ["RouteConfiguration preflight=frame"]);
    bed.ack(RouteConfiguration);
    assert_eq!(bed.responses(), [""; 0]);
    bed
}

#[test]
fn known_bad_routes_do_not_go_live_with_time() {
    let mut bed = refusing();
    for _ in 0..3 {
        bed.wait(PATIENCE);
        assert_eq!(bed.responses(), [""; 0]);
        assert_eq!(bed.stream.deadline(bed.now), None);
    }
    bed.publish_units(&[("c", "2")], "3");
    bed.responses();
    bed.ack(RouteConfiguration);
    bed.wait(PATIENCE);
    assert_eq!(bed.responses(), [""; 0]);
    bed.publish_units(&[("b", "1")], "4");
    assert_eq!(bed.settle(), ["RouteConfiguration preflight=frame web=4"]);
}

impl Bed {
    /// A second goes by: the unit `c` changes, and the node answers to everything before. Returns what went live.
    fn change_before_each_answer(&mut self, round: usize) -> Vec<String> {
        let asked = self.responses();
        self.publish_units(&[("c", &format!("later {round}"))], &format!("live {round}"));
        self.wait(Duration::from_secs(1));
        for each in ResourceType::ALL {
            let asks = each == RouteConfiguration && self.stream.preflight.is_under_way();
            if asks || self.stream.types[each].in_flight.is_some() {
                self.ack(each);
            }
        }
        asked.into_iter().filter(|sent| sent.contains("web")).collect()
    }
}

#[test]
fn units_that_change_before_each_answer_held_all_routes_back() {
    let seconds = usize::try_from(PATIENCE_IN_ALL.as_secs()).unwrap();
    for protocol in BOTH {
        let mut bed = settled(protocol);
        bed.publish_units(&[("b", "2"), ("c", "2")], "2");
        let live: Vec<_> = (0..4 * seconds)
            .map(|round| bed.change_before_each_answer(round))
            .collect();
        let first = live.iter().position(|live| !live.is_empty());
        assert_eq!(first, Some(seconds), "{live:?}");
        let times = live.iter().filter(|live| !live.is_empty()).count();
        assert_eq!(times, 3, "then units go first again: {live:?}");
        assert!(bed.settle().last().unwrap().contains("web"));
        assert!(bed.is_settled());
    }
}

#[test]
fn a_bad_unit_was_not_judged_while_others_changed() {
    let seconds = usize::try_from(PATIENCE_IN_ALL.as_secs()).unwrap();
    let mut bed = refusing();
    let version = resource(VirtualHost, "b", "bad").version();
    let live: Vec<_> = (0..2 * seconds)
        .flat_map(|round| bed.change_before_each_answer(round))
        .collect();
    assert_eq!(live, [""; 0], "what is known to be bad does not go live");
    assert_eq!(bed.stream.vote("b", version), Some(UnitVote::Refuses));
    bed.publish_units(&[("b", "1")], "good");
    assert!(!bed.change_before_each_answer(0).is_empty());
}

#[test]
fn a_node_that_most_others_overrule_gets_the_routes() {
    let mut bed = refusing();
    assert!(bed.stream.waits_for_judgement());
    let version = resource(VirtualHost, "b", "bad").version();
    assert_eq!(bed.stream.vote("b", version), Some(UnitVote::Refuses));
    bed.stream.overrule(Arc::new([("b".into(), version)].into()));
    assert_eq!(bed.settle(), ["RouteConfiguration preflight=frame web=2"]);
    assert!(!bed.is_settled());
}

#[test]
fn who_refuses_even_no_unit_is_not_believed() {
    for protocol in BOTH {
        let mut bed = settled(protocol);
        bed.publish_units(&[("b", "bad")], "2");
        bed.responses();
        bed.nack(RouteConfiguration, "no");
        let version = resource(VirtualHost, "b", "bad").version();
        assert_eq!(bed.stream.vote("b", version), Some(UnitVote::Pending));
        bed.responses();
        let answer = bed.nack(RouteConfiguration, "no");
        assert_eq!(answer, ResponseVerdict::Disbelieved(Some("no".into())));
        assert_eq!(bed.stream.vote("b", version), None);
        assert_eq!(bed.responses(), ["RouteConfiguration preflight=frame web=2"]);
    }
}

#[test]
fn who_refuses_all_units_is_not_believed() {
    let mut bed = asking(ProtocolVariant::Delta);
    bed.ask(RouteConfiguration, &[PREFLIGHT]);
    let mut answers = Vec::new();
    while bed.responses().iter().any(|sent| sent.contains('\u{12}')) {
        answers.push(bed.nack(RouteConfiguration, "no"));
    }
    assert_eq!(answers.len(), 7);
    assert_eq!(bed.ack(RouteConfiguration), ResponseVerdict::Disbelieved(None));
    assert_eq!(bed.settle()[0], "Listener web=1");
}

#[test]
fn a_silent_node_has_no_vote_and_is_not_looked_at_again() {
    let mut bed = settled(ProtocolVariant::Delta);
    bed.publish_units(&[("b", "2")], "2");
    bed.responses();
    let version = resource(VirtualHost, "b", "2").version();
    assert_eq!(bed.stream.vote("b", version), Some(UnitVote::Pending));
    assert!(bed.stream.deadline(bed.now).is_some());
    bed.wait(PATIENCE);
    assert_eq!(bed.responses(), [""; 0]);
    assert_eq!(bed.stream.vote("b", version), None);
    assert_eq!(bed.stream.deadline(bed.now), None, "nothing comes of a look");
    bed.ack(RouteConfiguration);
    assert_eq!(bed.stream.vote("b", version), Some(UnitVote::Accepts));
}

#[test]
fn a_node_that_has_the_routes_is_not_asked_again() {
    for takes_hosts in [false, true] {
        let mut bed = settled(ProtocolVariant::Delta);
        bed.stream.takes_hosts = takes_hosts;
        bed.reconnect();
        bed.come_with(Listener, &[], &[("web", "1")]);
        let has = [("web", "1"), (PREFLIGHT, "frame")];
        bed.come_with(RouteConfiguration, &["web", PREFLIGHT], &has);
        assert_eq!(bed.settle(), [""; 0]);
        bed.publish_units(&[("b", "2")], "2");
        let asked = format!("RouteConfiguration preflight=frame{}", unit("2"));
        assert_eq!(bed.responses(), [asked]);
    }
}

#[test]
fn the_words_of_a_node_take_a_bounded_memory() {
    let mut bed = asking(ProtocolVariant::Delta);
    for number in 0..2000 {
        bed.resources
            .insert_unit(resource(VirtualHost, &format!("unit-{number}"), "1"));
    }
    bed.publish(&[]);
    bed.ask(RouteConfiguration, &[PREFLIGHT]);
    let words = "no ".repeat(1000);
    while bed.responses().iter().any(|sent| sent.contains('\u{12}')) {
        bed.nack(RouteConfiguration, &words);
    }
    assert_eq!(bed.disapprovals().len(), 2004);
    let kept = bed.stream.words();
    assert!(
        (WORDS_OF_STREAM / 2..WORDS_OF_STREAM + 2004 * 60).contains(&kept),
        "{kept}"
    );
}

/// A node that takes virtual hosts one by one comes back, and has said that it has all route configurations.
fn back_with_routes(changed: &[(ResourceType, &str, &str)]) -> Bed {
    let mut bed = asking(ProtocolVariant::Delta);
    bed.stream.takes_hosts = true;
    bed.publish(&[(VirtualHost, "web/a", "1")]);
    bed.ask(RouteConfiguration, &[PREFLIGHT]);
    bed.settle();
    bed.ask(RouteConfiguration, &["web"]);
    bed.settle();
    let version = |name: &str| {
        bed.group
            .catalogue(ResourceType::RouteConfiguration)
            .get(name)
            .unwrap()
            .version()
            .to_string()
    };
    let had = [PREFLIGHT, "web"].map(|name| (name.to_owned(), version(name)));
    for (_, _, content) in changed {
        bed.resources.insert_unit(resource(VirtualHost, "a", content));
    }
    bed.publish(changed);

    bed.reconnect();
    bed.come_with(Listener, &[], &[("web", "1")]);
    let request = DeltaDiscoveryRequest {
        resource_names_subscribe: had.iter().map(|(name, _)| name.clone()).collect(),
        initial_resource_versions: had.into(),
        ..DeltaDiscoveryRequest::default()
    };
    bed.stream.delta_request(RouteConfiguration, request, &bed.group);
    bed
}

/// Its route configurations are as they were, because hosts are not part of them.
#[test]
fn a_node_that_comes_back_is_asked_about_changed_hosts() {
    let mut bed = back_with_routes(&[(VirtualHost, "web/a", "2")]);
    assert_eq!(bed.responses(), [""; 0]);
    bed.come_with(VirtualHost, &[], &[("web/a", "1")]);
    let asked = format!("RouteConfiguration preflight=frame{}{}", unit("2"), unit("1").repeat(3));
    assert_eq!(bed.responses(), [asked]);
}

/// Route configurations come before the hosts.
#[test]
fn a_node_that_has_routes_and_hosts_is_not_asked_again() {
    let mut bed = back_with_routes(&[]);
    assert_eq!(bed.responses(), [""; 0]);
    assert!(!bed.is_settled());
    bed.come_with(VirtualHost, &[], &[("web/a", "1")]);
    assert_eq!(bed.responses(), [""; 0]);
    assert!(bed.is_settled());
}

#[test]
fn who_does_not_say_which_hosts_it_has_is_asked_again() {
    let mut bed = back_with_routes(&[]);
    assert_eq!(bed.responses(), [""; 0]);
    assert_eq!(bed.stream.deadline(bed.now), Some(bed.now + PATIENCE));
    bed.wait(PATIENCE);
    let asked = format!("RouteConfiguration preflight=frame{}", unit("1").repeat(4));
    assert_eq!(bed.responses(), [asked]);
    assert!(bed.stream.deadline(bed.now).is_some());
}

#[test]
fn who_never_asks_for_the_preflight_is_served_without() {
    let mut bed = asking(ProtocolVariant::Delta);
    bed.stream.has_preflight = false;
    assert_eq!(bed.settle(), ["Listener web=1"]);
    bed.ask(RouteConfiguration, &["web"]);
    assert_eq!(bed.settle(), ["RouteConfiguration web=1"]);
    assert!(bed.is_settled());

    let mut bed = asking(ProtocolVariant::Delta);
    assert_eq!(bed.responses(), [""; 0]);
    bed.wait(PATIENCE);
    assert_eq!(bed.responses(), ["Listener web=1"]);
}
