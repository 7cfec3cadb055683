use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use limpet_model::Reports;
use tokio::sync::watch;

use super::costs::{CostPatch, PodCounts, PodSessionCount, writes};
use super::reconciler::{DeletionCostReconciler, PodWriter, advice};
use crate::cluster::kube::{DeletionCost, PodDeletion, PodDeletions};
use crate::cluster::reconcile::diagnostics::Diagnostics;
use crate::cluster::reconcile::reconcile_loop::Reconcile as _;
use crate::cluster::reconcile::test_server::{client, take};
use crate::cluster::reconcile::turns::ROUND;
use limpet_api::ObjectName;
use limpet_core::time::Timestamp;

const NOW: u64 = 1000;

#[derive(Default)]
struct World {
    asking: BTreeSet<ObjectName>,
    living: Vec<PodSessionCount>,
    written: PodDeletions,
    last: BTreeMap<ObjectName, Timestamp>,
    since: u64,
    /// Services without routes.
    alone: BTreeSet<ObjectName>,
}

fn name(name: &str) -> ObjectName {
    ObjectName::new("shop", name)
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_seconds(seconds)
}

impl World {
    fn asking(services: &[&str]) -> Self {
        Self {
            asking: services.iter().map(|service| name(service)).collect(),
            ..Self::default()
        }
    }

    fn counted(mut self, service: &str, pods: &[(&str, u64)]) -> Self {
        self.living.extend(pods.iter().map(|(pod, count)| PodSessionCount {
            service: name(service),
            pod: name(pod),
            is_endpoint: true,
            count: *count,
            complete: true,
        }));
        self
    }

    /// Its sessions may come back.
    fn unready(mut self, service: &str, pod: &str, count: u64) -> Self {
        self.living.push(PodSessionCount {
            service: name(service),
            pod: name(pod),
            is_endpoint: false,
            count,
            complete: true,
        });
        self
    }

    fn or_more(mut self, pod: &str) -> Self {
        let rows = self.living.iter_mut().filter(|living| living.pod.name == pod);
        rows.for_each(|living| living.complete = false);
        self
    }

    fn alone(mut self, service: &str) -> Self {
        self.alone.insert(name(service));
        self
    }

    fn has(mut self, pod: &str, value: i32, written: Option<u64>) -> Self {
        let written = written.map(at);
        self.written
            .insert(name(pod), PodDeletion::Costs(DeletionCost { value, written }));
        self
    }

    fn ends(mut self, pod: &str) -> Self {
        self.written.insert(name(pod), PodDeletion::Begun);
        self
    }

    fn wrote(mut self, pod: &str, time: u64) -> Self {
        self.last.insert(name(pod), at(time));
        self
    }

    fn writes(&self) -> BTreeMap<ObjectName, CostPatch> {
        let services: BTreeSet<_> = self.living.iter().map(|living| living.service.clone()).collect();
        let counts = PodCounts {
            since: Some(at(self.since)),
            services: services.difference(&self.alone).cloned().collect(),
            pods: self.living.clone(),
        };
        writes(&self.asking, &counts, &self.written, &self.last, at(NOW))
    }

    fn costs(&self) -> Vec<(String, Option<i32>)> {
        let writes = self.writes().into_iter();
        writes.map(|(pod, write)| (pod.name.to_string(), write.cost)).collect()
    }
}

fn costs(costs: &[(&str, i32)]) -> Vec<(String, Option<i32>)> {
    costs
        .iter()
        .map(|(pod, cost)| ((*pod).to_owned(), Some(*cost)))
        .collect()
}

fn nothing() -> Vec<(String, Option<i32>)> {
    Vec::new()
}

#[test]
fn the_message_names_the_role_to_bind() {
    let message = advice("limpet-pod-deletion-cost:limpet-system", "pods is forbidden");
    let words = "pods is forbidden. Bind the ClusterRole limpet-pod-deletion-cost:limpet-system in this namespace";
    assert!(message.contains(words), "{message}");
}

#[test]
fn pods_get_what_lives_there() {
    let world = World::asking(&["web"]).counted("web", &[("a", 10), ("b", 0), ("c", 3)]);
    // `b` costs nothing without the annotation.
    assert_eq!(world.costs(), costs(&[("a", 10), ("c", 3)]));
    let service = world.writes().remove(&name("a")).and_then(|write| write.service);
    assert_eq!(service, Some(name("web")));
}

#[test]
fn nothing_is_written_for_a_service_that_does_not_ask() {
    let world = World::asking(&["api"]).counted("web", &[("a", 10), ("b", 0)]);
    assert_eq!(world.costs(), nothing());
    assert_eq!(world.has("a", 7, None).costs(), nothing(), "it is somebody else's");
}

#[test]
fn only_another_order_is_written() {
    let world = |c| {
        let world = World::asking(&["web"]).counted("web", &[("a", 1), ("b", 30), ("c", c)]);
        world.has("b", 20, Some(0)).has("c", 90, Some(0)).has("a", 5, Some(0))
    };
    assert_eq!(world(31).costs(), nothing(), "far from what is counted, and in order");
    assert_eq!(world(29).costs(), costs(&[("b", 30), ("c", 29)]), "and `a` stays");
}

#[test]
fn a_pod_that_may_have_more_keeps_all_as_they_are() {
    let world = || {
        let world = World::asking(&["web", "api"]).counted("web", &[("a", 10), ("b", 0)]);
        world.counted("api", &[("c", 10), ("d", 0)]).has("b", 7, Some(0))
    };
    assert_eq!(world().costs(), costs(&[("a", 10), ("b", 0), ("c", 10)]));
    assert_eq!(world().or_more("b").costs(), costs(&[("c", 10)]));
    // Its place is unknown in both Services.
    assert_eq!(world().counted("api", &[("b", 1)]).or_more("b").costs(), nothing());
    let other = world().counted("web", &[("e", 1)]).or_more("b").ends("b");
    assert_eq!(other.costs(), costs(&[("a", 10), ("c", 10), ("e", 1)]), "it ends");
}

#[test]
fn pods_with_equal_counts_have_no_order() {
    let world = World::asking(&["web"]).counted("web", &[("a", 4), ("b", 4), ("c", 4)]);
    assert_eq!(world.costs(), nothing());
    assert_eq!(world.has("a", 9, Some(0)).has("b", -2, None).costs(), nothing());
    let world = World::asking(&["web"]).counted("web", &[("a", 4), ("b", 4), ("c", 5)]);
    assert_eq!(world.costs(), costs(&[("a", 4), ("b", 4), ("c", 5)]));
    let world = world.has("a", 4, Some(0)).has("b", 3, Some(0)).has("c", 5, Some(0));
    assert_eq!(world.costs(), nothing());
}

#[test]
fn what_is_written_is_in_order_with_what_stays() {
    // `c` gets the present cost of `a`.
    let world = World::asking(&["web"]).counted("web", &[("a", 1), ("b", 8), ("c", 5)]);
    let world = world.has("a", 5, Some(0)).has("b", 6, Some(0)).has("c", 7, Some(0));
    assert_eq!(world.costs(), costs(&[("a", 1), ("b", 8), ("c", 5)]));
}

#[test]
fn a_pod_of_two_services_has_the_sessions_of_both() {
    let world = |asking| {
        let world = World::asking(asking).counted("web", &[("a", 10), ("b", 6)]);
        world.counted("api", &[("b", 7), ("c", 12)])
    };
    // With its cost for `api`, `b` is in order.
    assert_eq!(world(&["api", "web"]).costs(), costs(&[("b", 13), ("c", 12)]));
    // Its deletion ends them all, whichever Service asks.
    assert_eq!(world(&["web"]).costs(), costs(&[("a", 10), ("b", 13)]));
}

#[test]
fn what_somebody_else_wrote_is_taken_over_if_the_service_asks() {
    let world = World::asking(&["web"])
        .counted("web", &[("a", 0), ("b", 2)])
        .has("a", 100, None);
    assert_eq!(world.costs(), costs(&[("a", 0), ("b", 2)]));
}

#[test]
fn a_pod_is_written_at_most_once_in_half_a_minute() {
    let world = || World::asking(&["web"]).counted("web", &[("a", 10), ("b", 0), ("c", 3)]);
    assert_eq!(world().wrote("a", NOW - 29).costs(), costs(&[("c", 3)]));
    assert_eq!(world().wrote("a", NOW - 30).costs(), costs(&[("a", 10), ("c", 3)]));
    // Another replica may have written it.
    assert_eq!(world().has("a", 1, Some(NOW - 29)).costs(), costs(&[("c", 3)]));
    // A clock is ahead.
    let world = world().has("a", 1, Some(NOW + 1000));
    assert_eq!(world.costs(), costs(&[("c", 3)]));
}

#[test]
fn nothing_is_written_before_the_counts_are_known() {
    let world = |since| {
        let world = World::asking(&["web"]).counted("web", &[("a", 10), ("b", 0)]);
        World {
            since,
            ..world.has("z", 3, Some(0))
        }
    };
    assert_eq!(world(NOW - 14).costs(), nothing());
    assert_eq!(
        world(NOW - 15).costs(),
        [("a".to_owned(), Some(10)), ("z".to_owned(), None)]
    );
}

#[test]
fn a_pod_that_ends_counts_for_nothing() {
    let world = World::asking(&["web"]).counted("web", &[("a", 10), ("b", 0), ("c", 3)]);
    assert_eq!(world.ends("a").costs(), costs(&[("c", 3)]));
    let alone = World::asking(&[]).counted("web", &[("a", 10)]);
    assert_eq!(alone.ends("a").costs(), nothing());
}

#[test]
fn what_was_written_goes_with_the_annotation_of_the_service() {
    let world = |asking| {
        let world = World::asking(asking).counted("web", &[("a", 10), ("b", 0)]);
        world.has("a", 10, Some(0)).has("b", 7, None).has("gone", 3, Some(0))
    };
    let removed = |pods: &[&str]| pods.iter().map(|pod| ((*pod).to_owned(), None)).collect::<Vec<_>>();
    // `b` has another writer's cost.
    assert_eq!(world(&[]).costs(), removed(&["a", "gone"]));
    assert_eq!(world(&["api"]).costs(), removed(&["a", "gone"]));
    assert_eq!(world(&["web"]).costs(), removed(&["gone"]));
    // One Service suffices.
    let both = world(&["api"]).counted("api", &[("a", 0), ("c", 0)]);
    assert_eq!(both.costs(), removed(&["gone"]));
}

#[test]
fn what_was_written_goes_with_the_last_route_to_the_service() {
    let world = || {
        let world = World::asking(&["web", "api"]).counted("api", &[("c", 1)]);
        world.has("a", 10, Some(0)).has("b", 7, None).has("c", 1, Some(0))
    };
    let removed = [("a".to_owned(), None)];
    assert_eq!(world().costs(), removed);
    let remembered = world().unready("web", "a", 10).unready("web", "b", 7);
    assert_eq!(remembered.alone("web").costs(), removed);
    // Once in half a minute, as all else.
    assert_eq!(world().wrote("a", NOW - 29).costs(), nothing());
}

#[test]
fn a_pod_that_is_not_ready_keeps_its_cost_with_its_sessions() {
    let world = || {
        let world = World::asking(&["web"]).counted("web", &[("b", 20)]);
        world.has("a", 10, Some(0)).has("b", 20, Some(0))
    };
    assert_eq!(
        world().unready("web", "a", 30).costs(),
        nothing(),
        "and is in nobody's order"
    );
    assert_eq!(world().costs(), [("a".to_owned(), None)]);
}

#[test]
fn more_sessions_than_a_cost_can_be_are_the_highest_cost() {
    let world = World::asking(&["web"]).counted("web", &[("a", u64::MAX), ("b", 1)]);
    assert_eq!(world.costs(), costs(&[("a", i32::MAX), ("b", 1)]));
}

#[tokio::test]
async fn pods_of_a_namespace_with_many_were_written_before_all_others() {
    let pods = (0..100).map(|number| ObjectName::new("many", &format!("{number:03}")));
    let pods = pods.chain([ObjectName::new("other", "one")]);
    let cost = DeletionCost {
        value: 1,
        written: Some(at(0)),
    };
    let written: PodDeletions = pods.map(|pod| (pod, PodDeletion::Costs(cost))).collect();
    let (client, asked) = client(|_| (200, serde_json::json!({"metadata": {}})));
    let (_reporting, reported) = watch::channel(Some(Reports::default().into()));
    let (_deleting, deletions) = watch::channel(Some(Arc::new(written)));
    let (_leading, leads) = watch::channel(true);
    let counts = || PodCounts {
        since: Some(at(0)),
        services: BTreeSet::new(),
        pods: Vec::new(),
    };
    let writer = PodWriter::new(client, "c", "role".to_owned());
    let mut reconciler = DeletionCostReconciler::new(writer, counts, reported, deletions, leads, Diagnostics::new());
    reconciler.reconcile().await;
    let first = take(&asked);
    assert_eq!(first.len(), ROUND);
    assert!(
        first[..2].iter().any(|request| request.contains("/other/")),
        "{first:?}"
    );
    for left in [101 - ROUND, 0] {
        reconciler.reconcile().await;
        assert_eq!(take(&asked).len(), left);
    }
}
