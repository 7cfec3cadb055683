//! Turns of namespaces: the order of writes, and the wait of refused ones, so that no namespace delays the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::cluster::kube::{Backoff, StatusDigest};

/// Objects of a round before it checks for newer input.
pub(super) const ROUND: usize = 64;
/// The first wait after a refusal: a right may be granted, which no watch shows.
const FIRST: Duration = Duration::from_secs(10);
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

/// The order of rounds that may end early.
#[derive(Debug, Default)]
pub(super) struct RoundOrder {
    last: String,
    /// API calls of this round.
    requests: usize,
}

impl RoundOrder {
    /// Continues behind the last round's namespace.
    pub(super) fn begin<T>(&mut self, all: impl IntoIterator<Item = T>, namespace: impl Fn(&T) -> &str) -> Vec<T> {
        self.requests = 0;
        in_turns(all, &self.last, namespace)
    }

    pub(super) fn record_turn(&mut self, namespace: &str) {
        self.requests += 1;
        namespace.clone_into(&mut self.last);
    }

    /// Whether newer input may end the round. A shorter one continues, because input may change all the time.
    pub(super) fn may_end(&self) -> bool {
        self.requests >= ROUND
    }
}

/// Tries that are deferred, because they would have the same outcome.
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
    /// The outcome of the last try; `None`: the object may be tried.
    pub(super) fn outcome(&self, object: &K, input: StatusDigest, now: Instant) -> Option<&O> {
        let wait = self.0.get(object)?;
        (wait.input == input && now < wait.until).then_some(&wait.outcome)
    }

    /// Defers a try: longer each time, and from the beginning after another input or outcome. Returns whether the
    /// outcome changed.
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

    pub(super) fn done(&mut self, object: &K) {
        self.0.remove(object);
    }

    pub(super) fn retain(&mut self, mut is_wanted: impl FnMut(&K) -> bool) {
        self.0.retain(|object, _| is_wanted(object));
    }

    /// All outcomes, including those that are due.
    pub(super) fn outcomes(&self) -> impl Iterator<Item = (&K, &O)> {
        self.0.iter().map(|(object, wait)| (object, &wait.outcome))
    }

    pub(super) fn rest(&self, now: Instant) -> Option<Duration> {
        let first = self.0.values().map(|wait| wait.until).min()?;
        Some(first.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
