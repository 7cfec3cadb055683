//! When to ask which kinds are served: after a definition has changed.

use std::pin::Pin;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::Instant;

use super::backoff::Backoff;
use super::follow::watch_seconds;
use super::kind::KindExt as _;
use super::named_object::is_forbidden;
use crate::cluster::timer::at;
use limpet_api::Kind;

/// When to ask after a change. A definition exists before its kind is served, and is gone before that ends, so one
/// answer is not enough.
const ASKS: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(10),
];
/// How often to ask without the right to watch definitions.
const SLOW: Duration = Duration::from_secs(30);

/// A definition without its schemas, which may have megabytes.
type PartialDefinition = PartialObjectMeta<CustomResourceDefinition>;

pub(super) struct Definitions {
    events: BoxStream<'static, watcher::Result<watcher::Event<PartialDefinition>>>,
    schedule: Schedule,
    backoff: Backoff,
    /// When to continue the watch after a failure.
    paused_until: Option<Instant>,
}

impl Definitions {
    pub(super) fn follow(client: &Client) -> Self {
        let config = watcher::Config::default().timeout(watch_seconds());
        Self {
            events: watcher(Api::<PartialDefinition>::all(client.clone()), config).boxed(),
            schedule: Schedule::default(),
            backoff: Backoff::of_the_api(),
            paused_until: None,
        }
    }

    pub(super) async fn changed(&mut self) {
        loop {
            let (paused, due) = (self.paused_until, self.schedule.request_due());
            tokio::select! {
                event = next(self.events.as_mut()), if paused.is_none() => self.saw(event),
                () = at(paused) => self.paused_until = None,
                () = at(due) => {
                    self.schedule.record_request(Instant::now());
                    return;
                }
            }
        }
    }

    fn saw(&mut self, event: watcher::Result<watcher::Event<PartialDefinition>>) {
        let now = Instant::now();
        let is_change = match event {
            Ok(watcher::Event::Init | watcher::Event::InitApply(_)) => false,
            Ok(watcher::Event::InitDone) => true,
            Ok(watcher::Event::Apply(definition) | watcher::Event::Delete(definition)) => {
                is_read(&definition.name_any())
            }
            Err(error) => {
                let refused = is_forbidden(&error);
                if refused && !self.schedule.slow {
                    tracing::warn!(
                        %error,
                        "cannot watch definitions, so the API server is asked every {} s which kinds it serves: \
                         grant list and watch on customresourcedefinitions",
                        SLOW.as_secs()
                    );
                }
                if refused {
                    self.schedule.slow_down(now);
                }
                self.paused_until = Some(now + if refused { SLOW } else { self.backoff.next() });
                return;
            }
        };
        self.backoff.reset();
        if is_change {
            self.schedule.changed(now);
        }
    }
}

/// Never resolves for a stream that has ended.
async fn next<S: Stream + ?Sized>(mut events: Pin<&mut S>) -> S::Item {
    match events.next().await {
        Some(event) => event,
        None => std::future::pending().await,
    }
}

/// Whether the definition of this name (`PLURAL.GROUP`) may be of a kind that is read.
fn is_read(name: &str) -> bool {
    let group = name.split_once('.').map(|(_, group)| group);
    let mut defined = Kind::ALL.into_iter().filter(|kind| kind.built_in().is_none());
    defined.any(|kind| Some(kind.group()) == group)
}

#[derive(Debug, Default)]
struct Schedule {
    /// When something changed, and how often it asked since.
    change: Option<(Instant, usize)>,
    /// When to ask if nothing changes.
    regular_due: Option<Instant>,
    /// Whether changes are not seen.
    slow: bool,
}

impl Schedule {
    fn changed(&mut self, now: Instant) {
        *self = Self {
            change: Some((now, 0)),
            ..Self::default()
        };
    }

    fn slow_down(&mut self, now: Instant) {
        self.slow = true;
        self.regular_due.get_or_insert(now + SLOW);
    }

    fn request_due(&self) -> Option<Instant> {
        let after_change = |(since, asked): (Instant, usize)| Some(since + *ASKS.get(asked)?);
        self.change
            .and_then(after_change)
            .into_iter()
            .chain(self.regular_due)
            .min()
    }

    fn record_request(&mut self, now: Instant) {
        if let Some((_, asked)) = &mut self.change {
            *asked += 1;
        }
        self.regular_due = self.slow.then(|| now + SLOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of questions within two minutes, in milliseconds after `start`.
    fn asks(schedule: &mut Schedule, start: Instant) -> Vec<u128> {
        let mut asks = Vec::new();
        while let Some(due) = schedule
            .request_due()
            .filter(|due| *due <= start + Duration::from_secs(120))
        {
            asks.push((due - start).as_millis());
            schedule.record_request(due);
        }
        asks
    }

    #[test]
    fn after_a_change_is_asked_several_times_and_then_no_more() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        assert!(asks(&mut schedule, start).is_empty());
        schedule.changed(start);
        assert_eq!(asks(&mut schedule, start), [200, 1_000, 3_000, 10_000]);
    }

    #[test]
    fn without_the_right_to_watch_is_asked_at_a_slow_pace() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        schedule.slow_down(start);
        schedule.slow_down(start + Duration::from_secs(1));
        assert_eq!(asks(&mut schedule, start), [30_000, 60_000, 90_000, 120_000]);
        schedule.changed(start);
        assert_eq!(asks(&mut schedule, start).len(), ASKS.len());
    }

    #[test]
    fn definitions_of_other_groups_are_not_looked_at() {
        for (name, read) in [
            ("gateways.gateway.networking.k8s.io", true),
            ("xbackends.gateway.networking.x-k8s.io", true),
            ("gateways.networking.istio.io", false),
            ("gateways", false),
        ] {
            assert_eq!(is_read(name), read, "{name}");
        }
    }
}
