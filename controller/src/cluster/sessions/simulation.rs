//! Gentle rebalancing of a Service over hours in simulated time, without Envoys: the filter's own sessions, census and
//! reports, with the budgets of [`super::balance`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use limpet_core::census::Census;
use limpet_core::census::report::ReportResponse;
use limpet_core::fakes::{FakeRequest, FakeResponse};
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::{Filter, HeaderEdit};
use limpet_model::endpoints::{Endpoint, EndpointState};

use super::*;

const GROUP: &str = "shop/web";
const CLUSTER: &str = "service/shop/cart/80";
const ENVOYS: usize = 3;
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
/// `rebalance` of the policy, in milliseconds.
const UNUSED: u64 = 5 * MINUTE;
const INTERVAL: u64 = 2 * SECOND;

/// Pseudorandom numbers (`SplitMix64`), the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.roll() % most as u64).unwrap()
    }

    /// A pause between two requests, from five seconds to twenty minutes. Each doubling of it is as likely.
    fn think(&mut self) -> u64 {
        let least = (5 * SECOND) << self.below(8);
        (least + self.roll() % least).min(20 * MINUTE)
    }
}

#[derive(Default)]
struct Client {
    cookie: Option<Vec<u8>>,
    host: Option<SocketAddr>,
    used: u64,
}

/// A session that moved although its pod existed.
struct Move {
    at: u64,
    unused: u64,
    to: SocketAddr,
    /// Sessions of the new pod, this one included.
    load: usize,
}

struct Simulation {
    filter: Filter,
    envoys: Vec<Arc<Census>>,
    /// The next pod of each Envoy's load balancing.
    turns: [usize; ENVOYS],
    /// Intervals without a report.
    idle: [u32; ENVOYS],
    registry: RegistryState,
    pods: Vec<SocketAddr>,
    /// A pod that Envoys take for unhealthy.
    unhealthy: Option<SocketAddr>,
    clients: Vec<Client>,
    /// The next request of each client, and the next report of each Envoy.
    next: BinaryHeap<Reverse<(u64, Event)>>,
    moves: Vec<Move>,
    dice: Dice,
    now: u64,
    /// Thousandths of the requests that come from a new client, which replaces another.
    leaving: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Report(usize),
    Request(usize),
}

fn time(millis: u64) -> Timestamp {
    Timestamp::from_unix_seconds(1_800_000_000).after(Duration::from_millis(millis))
}

impl Simulation {
    fn new(sessions: usize, rebalances: bool) -> Self {
        let config = serde_json::json!({
            "keys": [{"id": 1, "inline": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", "state": "signing"}],
            "policies": {"web": {"cookie": {"name": "s"}, "idleTimeout": "30m", "rebalance": "5m"}},
            "reportSessions": {"cluster": "controller", "nodeCluster": GROUP},
        });
        let (filter, _) = Filter::from_json(config.to_string().as_bytes(), &|_| None).unwrap();
        let mut registry = RegistryState::new();
        registry.since = Some(time(0));
        let cluster = ClusterName(CLUSTER.into());
        let (service, gateways) = (ObjectName::new("shop", "cart"), [ObjectName::new("shop", "web")]);
        let published = PublishedCluster {
            cluster: &cluster,
            service: &service,
            gateways: gateways.iter().map(|gateway| (gateway, [30 * 60].into())).collect(),
        };
        registry.places.publish([published].into_iter(), time(0));
        if rebalances {
            registry
                .balance
                .allow(&[ClusterId::of(&cluster)].into(), &registry.places);
        }
        let mut simulation = Self {
            filter,
            envoys: (0..ENVOYS).map(|_| Arc::new(Census::new([1; 16], 100))).collect(),
            turns: [0; ENVOYS],
            idle: [0; ENVOYS],
            registry,
            pods: Vec::new(),
            unhealthy: None,
            clients: (0..sessions).map(|_| Client::default()).collect(),
            next: BinaryHeap::new(),
            moves: Vec::new(),
            dice: Dice(7),
            now: 0,
            leaving: 0,
        };
        for client in 0..sessions {
            let at = simulation.dice.think();
            simulation.next.push(Reverse((at, Event::Request(client))));
        }
        for envoy in 0..ENVOYS {
            simulation
                .next
                .push(Reverse((600 * envoy as u64, Event::Report(envoy))));
        }
        simulation
    }

    fn scale(&mut self, pods: u8) {
        self.pods = (1..=pods).map(|last| ([10, 0, 0, last], 80).into()).collect();
        let endpoints = self.pods.iter().map(|address| Endpoint {
            address: *address,
            state: EndpointState::Ready,
            owner: None,
            pod: None,
        });
        let endpoints: Vec<_> = endpoints.collect();
        let cluster = ClusterName(CLUSTER.into());
        self.registry.places.observe(&cluster, &endpoints, time(self.now));
    }

    fn run(&mut self, minutes: u64) {
        let end = self.now + minutes * MINUTE;
        while let Some(Reverse((at, event))) = self.next.pop() {
            self.now = at;
            let after = match event {
                Event::Report(envoy) => {
                    self.report(envoy);
                    INTERVAL
                }
                Event::Request(client) => {
                    self.request(client);
                    self.dice.think()
                }
            };
            self.next.push(Reverse((at + after, event)));
            if at >= end {
                break;
            }
        }
        self.now = end;
    }

    fn report(&mut self, envoy: usize) {
        let (census, now) = (&self.envoys[envoy], time(self.now));
        if let Some(report) = census.next_report(GROUP, &mut self.idle[envoy], now) {
            let sheds = self.registry.receive_report(GROUP, (*report).clone(), now);
            census.receive(
                &ReportResponse {
                    memory: 1,
                    process: 1,
                    sheds,
                },
                now,
            );
        }
    }

    fn request(&mut self, client: usize) {
        let envoy = self.dice.below(ENVOYS);
        if self.dice.below(1000) < self.leaving {
            self.clients[client] = Client::default();
        }
        let (client, census, now) = (&mut self.clients[client], &self.envoys[envoy], time(self.now));
        let asked = Arc::clone(census);
        let request = FakeRequest::new().session("web/cart").cluster(CLUSTER);
        let request = client.cookie.iter().fold(request, FakeRequest::cookie);
        let mut request = request.may_leave(move |backend, now| asked.consume_budget(backend, now));
        let mut session = self.filter.session(&request).unwrap().unwrap();
        let plan = session.on_request(&mut request, now).unwrap();
        let outcome = plan.outcome;
        let healthy: Vec<_> = self.pods.iter().filter(|pod| Some(**pod) != self.unhealthy).collect();
        let asked = plan.steering.map(|steering| steering.host);
        let asked = asked.filter(|host| healthy.contains(&host));
        let host = asked.unwrap_or_else(|| {
            self.turns[envoy] += 1;
            *healthy[self.turns[envoy] % healthy.len()]
        });
        let nonce = u32::try_from(self.dice.roll() >> 32).unwrap();
        let response = FakeResponse::by(&host.to_string())
            .cluster(CLUSTER)
            .nonce(nonce.to_be_bytes());
        let response = if asked.is_some() {
            response.surely_as_asked()
        } else {
            response
        };
        let plan = session.on_response(&response, || Ok(now)).unwrap();
        for edit in plan.edits {
            if let HeaderEdit::Add("set-cookie", field) = edit {
                client.cookie = field.split(|byte| *byte == b';').next().map(<[u8]>::to_vec);
            }
        }
        plan.observed.iter().for_each(|seen| census.record(seen));
        plan.departed.into_iter().for_each(|left| census.record_departure(left));
        let before = client.host.replace(host);
        let unused = self.now - std::mem::replace(&mut client.used, self.now);
        if before.is_some_and(|before| before != host) {
            assert_eq!(outcome, Some(RequestOutcome::Rebalanced));
            let there = self.clients.iter().filter(|client| client.host == Some(host));
            self.moves.push(Move {
                at: self.now,
                unused,
                to: host,
                load: there.count(),
            });
        }
    }

    fn load(&self) -> Vec<usize> {
        let mut load = BTreeMap::new();
        for host in self.clients.iter().filter_map(|client| client.host) {
            *load.entry(host).or_default() += 1;
        }
        self.pods
            .iter()
            .map(|pod| load.get(pod).copied().unwrap_or_default())
            .collect()
    }

    fn moved_since(&self, at: u64) -> usize {
        self.moves.iter().filter(|moved| moved.at > at).count()
    }

    fn most_in_a_minute(&self) -> usize {
        let in_minute_from = |start: &Move| {
            let within = |moved: &&Move| moved.at >= start.at && moved.at - start.at < MINUTE;
            self.moves.iter().filter(within).count()
        };
        self.moves.iter().map(in_minute_from).max().unwrap_or_default()
    }
}

/// Three pods for longer than the idle bound, then five.
fn scaled_up(sessions: usize, rebalances: bool, leaving: usize) -> Simulation {
    let mut simulation = Simulation::new(sessions, rebalances);
    simulation.leaving = leaving;
    simulation.scale(3);
    simulation.run(35);
    assert_eq!(simulation.moves.len(), 0, "{:?}", simulation.load());
    simulation.scale(5);
    simulation
}

fn over_time(simulation: &mut Simulation, minutes: &[u64]) -> Vec<(u64, Vec<usize>, usize)> {
    let start = simulation.now;
    let row = |minute: &u64| {
        simulation.run(minute - (simulation.now - start) / MINUTE);
        (*minute, simulation.load(), simulation.moved_since(start))
    };
    let rows: Vec<_> = minutes.iter().map(row).collect();
    for (minute, load, moved) in &rows {
        println!("{minute:3} min: {load:?}, moved {moved}");
    }
    rows
}

/// docs/how-to/rebalance.md has these rows.
/// Takes seconds: an hour of 2,000 sessions is simulated, request by request.
#[test]
fn new_pods_get_their_share_and_then_nobody_moves() {
    let mut simulation = scaled_up(2000, true, 0);
    let rows = over_time(&mut simulation, &[0, 5, 10, 15, 20, 30, 60]);
    // A session that was unused for five minutes comes back after twenty at most.
    let (_, load, _) = &rows[4];
    let within_share = |sessions: &usize| (300..=460).contains(sessions);
    assert!(load.iter().all(within_share), "{load:?}");
    let (_, after, moved) = &rows[6];
    assert!(after.iter().all(within_share), "{after:?}");
    // The rest is the error of sketches.
    let later = moved - rows[4].2;
    assert!(later <= 40, "{later} moves in forty minutes, of 2000 sessions");
    simulation.run(15);
    assert_eq!(simulation.moves.len(), *moved, "no session moves any more");

    let most = simulation.most_in_a_minute();
    println!("at most {most} in a minute");
    assert!((50..=200).contains(&most), "{most}");
    let new = &simulation.pods[3..];
    assert!(simulation.moves.iter().all(|moved| new.contains(&moved.to)));
    let least = simulation.moves.iter().map(|moved| moved.unused).min();
    assert!(least >= Some(UNUSED), "{least:?} ms");
}

#[test]
fn without_it_new_pods_get_nobody_who_is_there() {
    let mut simulation = scaled_up(300, false, 0);
    let rows = over_time(&mut simulation, &[0, 30]);
    assert_eq!(rows[0].1, rows[1].1);
    assert_eq!((rows[1].1[3], rows[1].1[4], simulation.moves.len()), (0, 0, 0));
}

/// One in a hundred requests is a client's first one.
/// Takes seconds: two hours of 200 sessions are simulated.
#[test]
fn clients_that_come_and_go_move_no_others() {
    let mut simulation = scaled_up(200, true, 10);
    let rows = over_time(&mut simulation, &[30, 60, 120]);
    let (_, load, moved) = &rows[1];
    assert!(load.iter().all(|sessions| (25..=55).contains(sessions)), "{load:?}");
    let later = simulation.moves.len() - moved;
    assert!(later <= 20, "{later} moves in an hour");
    let most = simulation.most_in_a_minute();
    assert!(most <= 20, "{most}");
}

#[test]
fn a_small_service_moves_a_session_now_and_then() {
    let mut simulation = scaled_up(20, true, 0);
    let rows = over_time(&mut simulation, &[120]);
    let (_, load, _) = &rows[0];
    assert!(load[3] + load[4] >= 4, "{load:?}");
    assert!(simulation.most_in_a_minute() <= 2);
}

/// Three of four pods are full.
/// Takes seconds: an hour and a half of 400 sessions is simulated.
#[test]
fn every_session_goes_to_the_pod_that_lacks_it() {
    for sessions in [40, 400] {
        let mut simulation = Simulation::new(sessions, true);
        simulation.scale(3);
        simulation.run(35);
        simulation.scale(4);
        simulation.run(60);
        let (new, share) = (simulation.pods[3], sessions / 4);
        // The others may have a tenth and one more than their share.
        assert!(simulation.load()[3] >= share * 7 / 10 - 3, "{:?}", simulation.load());
        for moved in &simulation.moves {
            assert_eq!(moved.to, new, "a full pod got one: {:?}", simulation.load());
            assert!(moved.load <= share, "{sessions}: {} of {share}", moved.load);
        }
    }
}

/// Each of three Envoys learns it from a session, once in five minutes.
/// Takes seconds: two hours of 200 sessions are simulated.
#[test]
fn a_pod_that_takes_no_session_costs_few_of_them() {
    let mut simulation = Simulation::new(200, true);
    simulation.scale(3);
    simulation.run(35);
    simulation.scale(4);
    simulation.unhealthy = Some(simulation.pods[3]);
    simulation.run(30);
    // A tenth of all in each minute would be 600.
    let moved = simulation.moves.len();
    assert!((1..=36).contains(&moved), "{moved}");
    simulation.unhealthy = None;
    simulation.run(40);
    assert!(simulation.load()[3] > 30, "{:?}", simulation.load());
}
