//! Turns of namespaces: the order in which a round writes, and what waits because it was refused. So no namespace with
//! many objects, or with many that are refused, holds up the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::cluster::kube::{Backoff, StatusDigest};

/// How many objects a round may write before it looks for newer input.
pub(super) const ROUND: usize = 64;
/// How long what was refused waits at first: a right may be granted, which no watch tells.
const FIRST: Duration = Duration::from_secs(10);
/// How long it waits at most.
const LONGEST: Duration = Duration::from_secs(600);

/// The first of each namespace, then the second ones, and so on. Of equal ones, the namespaces behind `last` come
/// first.
pub(super) fn in_turns<T>(all: impl IntoIterator<Item = T>, last: &str, namespace: impl Fn(&T) -> &str) -> Vec<T> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let ranked = all.into_iter().map(|each| {
        let namespace = namespace(&each).to_owned();
        let count = counts.entry(namespace.clone()).or_default();
        *count += 1;
        ((*count, namespace.as_str() <= last, namespace), each)
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
    ranked.into_iter().map(|(_, each)| each).collect()
}

/// The order of rounds that may end before everything is written.
#[derive(Debug, Default)]
pub(super) struct RoundOrder {
    /// The namespace of the last object.
    last: String,
    /// How many objects this round has asked the API server about.
    requests: usize,
}

impl RoundOrder {
    /// Begins a round with these. It goes on behind the namespace with which the last one ended.
    pub(super) fn begin<T>(&mut self, all: impl IntoIterator<Item = T>, namespace: impl Fn(&T) -> &str) -> Vec<T> {
        self.requests = 0;
        in_turns(all, &self.last, namespace)
    }

    /// The API server is asked about an object of this namespace.
    pub(super) fn record_turn(&mut self, namespace: &str) {
        self.requests += 1;
        namespace.clone_into(&mut self.last);
    }

    /// Whether the round has lasted long enough to end for newer input. A shorter one goes on, because input may change
    /// all the time.
    pub(super) fn may_end(&self) -> bool {
        self.requests >= ROUND
    }
}

/// What was tried and is not tried again for a while, because it would have the same outcome.
#[derive(Debug)]
pub(super) struct DeferredRetries<K, O>(BTreeMap<K, DeferredRetry<O>>);

#[derive(Debug)]
struct DeferredRetry<O> {
    /// Of what was tried.
    input: StatusDigest,
    outcome: O,
    backoff: Backoff,
    until: Instant,
}

impl<K, O> Default for DeferredRetries<K, O> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord, O: PartialEq> DeferredRetries<K, O> {
    /// The outcome of an object's last try, if the same is not to be tried again yet.
    pub(super) fn outcome(&self, object: &K, input: StatusDigest, now: Instant) -> Option<&O> {
        let wait = self.0.get(object)?;
        (wait.input == input && now < wait.until).then_some(&wait.outcome)
    }

    /// Puts off the next try: longer each time, and from the beginning if something else was tried now, or had another
    /// outcome. Returns whether the outcome is another one than before.
    pub(super) fn defer(&mut self, object: K, input: StatusDigest, outcome: O, now: Instant) -> bool {
        let before = self.0.remove(&object);
        let is_new = before.as_ref().is_none_or(|before| before.outcome != outcome);
        let before = before.filter(|before| before.input == input && !is_new);
        let mut backoff = before.map_or_else(|| Backoff::new(FIRST, LONGEST), |before| before.backoff);
        let until = now + backoff.next();
        let wait = DeferredRetry {
            input,
            outcome,
            backoff,
            until,
        };
        self.0.insert(object, wait);
        is_new
    }

    /// The object is as it should be.
    pub(super) fn done(&mut self, object: &K) {
        self.0.remove(object);
    }

    /// Forgets other objects.
    pub(super) fn retain(&mut self, mut is_wanted: impl FnMut(&K) -> bool) {
        self.0.retain(|object, _| is_wanted(object));
    }

    /// The outcome of each, also of those that are due.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (&K, &O)> {
        self.0.iter().map(|(object, wait)| (object, &wait.outcome))
    }

    /// How long until the first one is due.
    pub(super) fn rest(&self, now: Instant) -> Option<Duration> {
        let first = self.0.values().map(|wait| wait.until).min()?;
        Some(first.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What rounds of this length look at, of all.
    fn rounds(order: &mut RoundOrder, all: &[&'static str], length: usize, count: usize) -> Vec<Vec<&'static str>> {
        fn namespace<'a>(object: &'a &'static str) -> &'a str {
            object.split('/').next().unwrap_or_default()
        }
        let round = |_| {
            let mut begun = order.begin(all.iter().copied(), namespace);
            begun.truncate(length);
            for object in &begun {
                order.record_turn(namespace(object));
            }
            begun
        };
        (0..count).map(round).collect()
    }

    #[test]
    fn a_namespace_with_many_objects_was_before_all_others() {
        let all = ["a/1", "a/2", "a/3", "b/1", "c/1", "c/2"];
        let mut order = RoundOrder::default();
        let whole = rounds(&mut order, &all, all.len(), 1);
        assert_eq!(whole, [["a/1", "b/1", "c/1", "a/2", "c/2", "a/3"]]);
    }

    #[test]
    fn rounds_that_end_early_reach_all_namespaces() {
        let all = ["a/1", "a/2", "b/1", "c/1"];
        let found = rounds(&mut RoundOrder::default(), &all, 2, 3);
        assert_eq!(found, [["a/1", "b/1"], ["c/1", "a/1"], ["b/1", "c/1"]]);
    }

    #[test]
    fn a_round_may_end_only_when_it_has_written_enough() {
        let mut order = RoundOrder::default();
        for _ in 0..ROUND {
            assert!(!order.may_end());
            order.record_turn("a");
        }
        assert!(order.may_end());
        order.begin(["a"], |namespace| namespace);
        assert!(!order.may_end());
    }

    #[test]
    fn what_is_refused_again_and_again_is_tried_ever_more_rarely() {
        let (mut waiting, input, mut now) = (DeferredRetries::default(), StatusDigest::of(b"one"), Instant::now());
        let (began, mut tries) = (now, 0);
        while now < began + Duration::from_secs(3600) {
            if waiting.outcome(&"a", input, now).is_none() {
                assert_eq!(waiting.defer("a", input, "refused", now), tries == 0);
                tries += 1;
            }
            now += Duration::from_secs(1);
        }
        // Each 10 s, there were 360.
        assert!((10..=24).contains(&tries), "{tries}");
        assert!(waiting.rest(now).unwrap() <= LONGEST);
    }

    #[test]
    fn what_changes_is_tried_at_once_and_waits_as_at_first() {
        let (mut waiting, now) = (DeferredRetries::default(), Instant::now());
        let [one, other] = [&b"one"[..], b"other"].map(StatusDigest::of);
        for _ in 0..10 {
            waiting.defer("a", one, "refused", now);
        }
        assert!(waiting.rest(now).unwrap() > FIRST);
        assert_eq!(waiting.outcome(&"a", one, now), Some(&"refused"));
        assert_eq!(waiting.outcome(&"a", other, now), None);
        assert!(!waiting.defer("a", other, "refused", now), "the words are the same");
        assert!(waiting.rest(now).unwrap() <= FIRST);
        for _ in 0..10 {
            waiting.defer("a", other, "refused", now);
        }
        assert!(waiting.defer("a", other, "refused for something else", now));
        assert!(waiting.rest(now).unwrap() <= FIRST);
        waiting.done(&"a");
        assert_eq!(waiting.rest(now), None);
    }
}
