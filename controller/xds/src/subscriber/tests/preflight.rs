//! Units first, live route configurations after them.

use super::*;
use limpet_resources::PREFLIGHT;

/// The content of a virtual host, as [`Bed::responses`] shows it: with its key and its length.
fn unit(content: &str) -> String {
    format!("\u{12}{}{content}", char::from(u8::try_from(content.len()).unwrap()))
}

/// A node that has a listener, its routes and the preflight, and units `a` to `d` of version 1.
fn settled(protocol: Protocol) -> Bed {
    let mut bed = Bed::new(protocol);
    for name in ["a", "b", "c", "d"] {
        bed.resources
            .insert_unit(resource(ResourceType::VirtualHost, name, "1"));
    }
    bed.publish(&[
        (Listener, "web", "1"),
        (Listener, PREFLIGHT, "1"),
        (RouteConfiguration, "web", "1"),
        (RouteConfiguration, PREFLIGHT, "frame"),
    ]);
    bed.ask(Listener, &[]);
    bed.settle();
    bed.ask(RouteConfiguration, &["web", PREFLIGHT]);
    bed
}

impl Bed {
    /// Publishes these units and these live routes.
    fn publish_units(&mut self, units: &[(&str, &str)], routes: &str) {
        for (name, content) in units {
            self.resources
                .insert_unit(resource(ResourceType::VirtualHost, name, content));
        }
        self.publish(&[(RouteConfiguration, "web", routes)]);
    }

    fn disapprovals(&self) -> Vec<String> {
        let refused = self.stream.disapprovals();
        refused.map(|(name, _, words)| format!("{name}: {words}")).collect()
    }
}

const BOTH: [Protocol; 2] = [Protocol::Delta, Protocol::StateOfTheWorld];

#[test]
fn routes_go_live_after_all_units_are_accepted() {
    for protocol in BOTH {
        let mut bed = settled(protocol);
        let first = format!("RouteConfiguration preflight=frame{}", unit("1").repeat(4));
        assert_eq!(bed.responses(), [first]);
        assert!(!bed.is_settled());
        bed.ack(RouteConfiguration);
        assert_eq!(bed.responses(), ["RouteConfiguration preflight=frame web=1"]);
        bed.ack(RouteConfiguration);
        assert_eq!(bed.responses(), [""; 0]);
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
        assert!(
            bed.stream
                .approves("b", resource(ResourceType::VirtualHost, "b", "2").version())
        );
    }
}

#[test]
fn a_bad_unit_is_found_and_holds_back_until_replaced() {
    for protocol in BOTH {
        let mut bed = settled(protocol);
        bed.settle();
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
        assert_eq!((asked, bed.disapprovals()), (5, vec!["b: no".to_owned()]));
        assert!(bed.refusals().is_empty(), "nothing live was refused");
        assert!(!bed.is_settled());

        // Something else in its place, which the node knows.
        bed.publish_units(&[("b", "1")], "3");
        assert_eq!(bed.settle(), ["RouteConfiguration preflight=frame web=3"]);
        assert!(bed.disapprovals().is_empty() && bed.is_settled());
    }
}

#[test]
fn a_publisher_that_replaces_nothing_is_waited_for_in_vain() {
    let mut bed = settled(Protocol::Delta);
    bed.settle();
    bed.publish_units(&[("b", "bad")], "2");
    bed.responses();
    bed.nack(RouteConfiguration, "no");
    assert_eq!(bed.responses(), [""; 0]);
    assert!(bed.stream.deadline().is_some());
    bed.wait(crate::subscriber::order::PATIENCE);
    assert_eq!(bed.responses(), ["RouteConfiguration preflight=frame web=2"]);
}

#[test]
fn a_node_that_has_the_routes_is_not_asked_again() {
    let mut bed = settled(Protocol::Delta);
    bed.settle();
    bed.reconnect();
    bed.come_with(Listener, &[], &[("web", "1"), (PREFLIGHT, "1")]);
    let has = [("web", "1"), (PREFLIGHT, "frame")];
    bed.come_with(RouteConfiguration, &["web", PREFLIGHT], &has);
    assert_eq!(bed.settle(), [""; 0]);
    bed.publish_units(&[("b", "2")], "2");
    let asked = format!("RouteConfiguration preflight=frame{}", unit("2"));
    assert_eq!(bed.responses(), [asked]);
}

#[test]
fn who_never_asks_for_the_preflight_is_served_without() {
    for refuses in [true, false] {
        let mut bed = Bed::new(Protocol::Delta);
        bed.publish(&[(Listener, "web", "1"), (RouteConfiguration, "web", "1")]);
        bed.ask(Listener, &[]);
        bed.ask(RouteConfiguration, &["web"]);
        bed.settle();
        // A server that knows the preflight, and an Envoy from before.
        bed.resources.insert_unit(resource(ResourceType::VirtualHost, "a", "2"));
        bed.publish(&[
            (Listener, PREFLIGHT, "1"),
            (RouteConfiguration, PREFLIGHT, "frame"),
            (RouteConfiguration, "web", "2"),
        ]);
        assert_eq!(bed.responses(), ["Listener preflight=1"]);
        if refuses {
            bed.nack(Listener, "no");
            assert_eq!(bed.responses(), ["RouteConfiguration web=2"]);
        } else {
            bed.ack(Listener);
            assert_eq!(bed.responses(), [""; 0], "it may still ask");
            bed.wait(crate::subscriber::order::PATIENCE);
            assert_eq!(bed.responses(), ["RouteConfiguration web=2"]);
        }
    }
}
