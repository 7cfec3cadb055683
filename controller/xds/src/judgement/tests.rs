use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use envoy_types::pb::envoy::service::discovery::v3::DeltaDiscoveryRequest;
use envoy_types::pb::google::rpc;

use super::*;
use crate::Snapshots;
use crate::snapshots::StreamConnection;
use crate::subscriber::{NodeAbilities, ProtocolVariant, StreamService, Subscriber};
use limpet_resources::{PREFLIGHT, Resource, ResourceType, Resources};

const GROUP: &str = "default/web";

/// The Envoys of a Gateway, by hand.
struct Fleet {
    snapshots: Snapshots,
    nodes: Vec<(Arc<StreamConnection>, Arc<GroupCell>)>,
}

fn unit(name: &str, content: &str) -> Resource {
    Resource::new(ResourceType::VirtualHost, name, content.into())
}

fn published(content: &str) -> Resources {
    let mut resources = Resources::new();
    for (name, content) in [(PREFLIGHT, "frame"), ("web", content)] {
        resources.insert(Resource::new(ResourceType::RouteConfiguration, name, content.into()));
    }
    resources.insert_unit(unit("good", "good"));
    resources.insert_unit(unit("new", content));
    resources
}

impl Fleet {
    /// Nodes at these addresses, which have accepted `content`.
    fn of(addresses: &[u8], content: &str) -> Self {
        let snapshots = Snapshots::new();
        snapshots.publish(GROUP, published(content));
        let mut fleet = Self {
            snapshots,
            nodes: Vec::new(),
        };
        for address in addresses {
            let node = fleet.connect(*address);
            fleet.answer(node, "nothing");
        }
        fleet
    }

    fn connect(&mut self, address: u8) -> usize {
        let index = self.nodes.len();
        let origin = SocketAddr::from(([10, 0, 0, address], 1)).into();
        let subscriber = Subscriber::new(
            ProtocolVariant::Delta,
            StreamService::Aggregated,
            NodeAbilities::default(),
        );
        let stream = Arc::new(StreamConnection::new(
            format!("node-{index}").into(),
            origin,
            None,
            subscriber,
        ));
        let shared = self.snapshots.shared();
        let cell = shared.connect(GROUP, index as u64, Arc::clone(&stream)).unwrap();
        self.nodes.push((stream, cell));
        self.request(index, |request| {
            request.resource_names_subscribe = [PREFLIGHT, "web"].map(str::to_owned).into();
        });
        index
    }

    /// The node answers to everything, and refuses what contains `bad`.
    fn answer(&self, node: usize, bad: &str) {
        let (stream, cell) = &self.nodes[node];
        loop {
            let response = stream.subscriber().next(&cell.group(), Instant::now());
            let Some(response) = response else { break };
            let words = String::from_utf8_lossy(response.resources[0].body()).contains(bad);
            self.request(node, |request| {
                request.response_nonce = response.nonce.to_string();
                request.error_detail = words.then(|| rpc::Status {
                    message: "no".to_owned(),
                    ..rpc::Status::default()
                });
            });
        }
    }

    fn request(&self, node: usize, change: impl FnOnce(&mut DeltaDiscoveryRequest)) {
        let (stream, cell) = &self.nodes[node];
        let mut request = DeltaDiscoveryRequest::default();
        change(&mut request);
        let of_type = ResourceType::RouteConfiguration;
        stream.subscriber().delta_request(of_type, request, &cell.group());
    }

    fn refused(&self) -> Vec<String> {
        let refused = self.snapshots.status().disapprovals();
        refused.into_iter().map(|refused| refused.unit.to_string()).collect()
    }

    fn judged(&self, content: &str) -> Option<UnitVote> {
        let cell = &self.nodes[0].1;
        evaluate(cell, &[("new".into(), unit("new", content).version())])[0].vote
    }
}

#[test]
fn a_single_connected_node_decides() {
    let fleet = Fleet::of(&[1], "1");
    fleet.snapshots.publish(GROUP, published("bad"));
    assert_eq!(fleet.judged("bad"), Some(UnitVote::Pending));
    fleet.answer(0, "bad");
    assert_eq!(fleet.refused(), ["new"]);
}

#[test]
fn a_node_that_refuses_everything_quarantines_nothing() {
    let mut fleet = Fleet::of(&[], "1");
    fleet.connect(1);
    // The frame, and everything in it.
    fleet.answer(0, "frame");
    assert_eq!(fleet.refused(), [""; 0]);
    assert_eq!(fleet.snapshots.status().voting_addresses(GROUP), 0);
    // It takes no unit at all, and refuses everything else.
    let mut fleet = Fleet::of(&[], "good");
    fleet.connect(1);
    fleet.answer(0, "good");
    assert_eq!(fleet.refused(), [""; 0]);
}

#[test]
fn one_dissenter_among_several_decides_nothing() {
    for others in 1..4 {
        let mut addresses = vec![1];
        addresses.extend(2..2 + others);
        let fleet = Fleet::of(&addresses, "1");
        fleet.snapshots.publish(GROUP, published("new"));
        fleet.answer(0, "new");
        assert_eq!(fleet.refused(), [""; 0], "before the others have answered");
        for other in 1..=others {
            fleet.answer(usize::from(other), "bad");
        }
        assert_eq!(fleet.refused(), [""; 0]);
        assert_eq!(fleet.judged("new"), Some(UnitVote::Accepts));
    }
}

#[test]
fn what_most_nodes_refuse_is_refused() {
    let fleet = Fleet::of(&[1, 2, 3], "1");
    fleet.snapshots.publish(GROUP, published("bad"));
    fleet.answer(0, "nothing");
    fleet.answer(1, "bad");
    assert_eq!(fleet.refused(), [""; 0]);
    fleet.answer(2, "bad");
    let status = fleet.snapshots.status();
    let refused = status.disapprovals();
    assert_eq!(refused.len(), 1);
    assert_eq!((&*refused[0].unit, &*refused[0].node), ("new", "node-1"));
    assert_eq!((refused[0].refusing, status.voting_addresses(GROUP)), (2, 3));
}

#[test]
fn many_names_at_one_address_are_one_vote() {
    let mut addresses = vec![9; 10];
    addresses.extend([1, 2]);
    let fleet = Fleet::of(&addresses, "1");
    fleet.snapshots.publish(GROUP, published("new"));
    for node in 0..12 {
        fleet.answer(node, if node < 10 { "new" } else { "bad" });
    }
    assert_eq!(fleet.refused(), [""; 0]);
}

#[test]
fn a_vote_is_certain_before_all_have_answered() {
    use UnitVote::{Accepts, Pending, Refuses};
    for (votes, together) in [
        (&[][..], None),
        (&[Pending], Some(Pending)),
        (&[Refuses], Some(Refuses)),
        (&[Refuses, Accepts], Some(Accepts)),
        (&[Refuses, Pending], Some(Pending)),
        (&[Accepts, Pending], Some(Accepts)),
        (&[Refuses, Refuses, Pending], Some(Refuses)),
    ] {
        assert_eq!(majority(votes.iter().copied()), together, "{votes:?}");
    }
}

#[test]
fn each_stream_of_a_group_judged_all_refused_units() {
    let fleet = Fleet::of(&[1, 2, 3], "1");
    fleet.snapshots.publish(GROUP, published("bad"));
    for (node, bad) in [(0, "bad"), (1, "nothing"), (2, "nothing")] {
        fleet.answer(node, bad);
    }
    let cell = &fleet.nodes[0].1;
    let shared = fleet.snapshots.shared();
    shared.judgements_changed(cell);
    let looked_up = overruled(cell);
    let names: Vec<&str> = looked_up.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["new"]);
    for (_, cell) in &fleet.nodes {
        assert!(Arc::ptr_eq(&looked_up, &overruled(cell)), "looked up again");
    }

    let other = Arc::clone(&fleet.nodes[0].0);
    let other = shared.connect("default/other", 9, other).unwrap();
    shared.judgements_changed(&other);
    assert!(Arc::ptr_eq(&looked_up, &overruled(cell)));
    shared.judgements_changed(cell);
    assert!(!Arc::ptr_eq(&looked_up, &overruled(cell)));
}
