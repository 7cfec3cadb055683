//! The event loop: takes in changes, builds when it is time, and publishes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::asked::Asked;
use super::build::Built;
use super::context::Context;
use super::contour::LastChange;
use super::guard::Guard;
use super::http::Readiness;
use super::inputs::InputsOrReason;
use super::memory::KeptMemory;
use super::metrics::Metrics;
use super::present::{Present, Question};
use super::publish::Publisher;
use crate::cluster::kube::{Change, Deletions, Observation, Reader, Store, Watched};
use crate::cluster::reconcile::delivery::PublishedFilter;
use crate::cluster::reconcile::diagnostics::{Diagnostic, Diagnostics, Reason};
use crate::cluster::reconcile::reconcile_loop::{self, Closed, Reconcile, changed_or_never};
use crate::cluster::reconcile::replicas::Replicas;
use crate::cluster::reconcile::reported::Reported;
use limpet_api::{Kind, ObjectName};
use limpet_model::graph::Graph;
use limpet_model::{Reports, Settings};
use limpet_outputs::needed_variables;

/// How long a change waits for further ones: what is applied together is built once.
const QUIET: Duration = Duration::from_millis(20);
/// How long a build waits while changes keep coming.
const LONGEST: Duration = Duration::from_millis(250);
/// How many updates are taken in before anything else happens.
const BATCH: usize = 512;
/// How often changes of statuses, and of what pods say of their deletion, are passed on.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);

/// How long changed hosts of clusters whose sessions move wait for further ones: each change makes Envoy set up the
/// filter again.
const HOSTS: Duration = Duration::from_secs(1);

/// The minimum time for which retained policies are kept. They stay longer while an Envoy may still have routes with
/// them.
const RETAINED: Duration = Duration::from_secs(5);

/// Where the loop sends what other tasks need.
#[derive(Debug)]
pub(crate) struct Outlets {
    pub(crate) reported: watch::Sender<Option<Reported>>,
    pub(crate) observation: watch::Sender<Observation>,
    /// What pods say of their deletion, once it is known.
    pub(crate) deletions: watch::Sender<Option<Arc<Deletions>>>,
    pub(crate) readiness: watch::Sender<Readiness>,
    pub(crate) published_filter: watch::Sender<Option<PublishedFilter>>,
}

/// The receiving ends of [`Outlets`].
#[derive(Debug)]
pub(crate) struct Feeds {
    pub(crate) reported: watch::Receiver<Option<Reported>>,
    pub(crate) observation: watch::Receiver<Observation>,
    pub(crate) deletions: watch::Receiver<Option<Arc<Deletions>>>,
    pub(crate) readiness: watch::Receiver<Readiness>,
    pub(crate) published_filter: watch::Receiver<Option<PublishedFilter>>,
}

impl Outlets {
    pub(crate) fn channels() -> (Self, Feeds) {
        let (reported, reported_feed) = watch::channel(None);
        let (observation, observation_feed) = watch::channel(Observation::default());
        let (deletions, deletions_feed) = watch::channel(None);
        let (readiness, readiness_feed) = watch::channel(Readiness::Waiting("nothing read yet".to_owned()));
        let (published_filter, published_filter_feed) = watch::channel(None);
        let outlets = Self {
            reported,
            observation,
            deletions,
            readiness,
            published_filter,
        };
        let feeds = Feeds {
            reported: reported_feed,
            observation: observation_feed,
            deletions: deletions_feed,
            readiness: readiness_feed,
            published_filter: published_filter_feed,
        };
        (outlets, feeds)
    }
}

/// What the loop takes in besides objects.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) inputs: watch::Receiver<InputsOrReason>,
    pub(crate) guard: Guard,
    pub(crate) memory: KeptMemory,
    pub(crate) replicas: Replicas,
    pub(crate) questions: mpsc::Receiver<Question>,
}

/// The loop's state.
#[derive(Debug)]
pub(crate) struct Control {
    reader: Reader,
    store: Store,
    settings: Arc<Settings>,
    publisher: Publisher,
    outlets: Outlets,
    metrics: Metrics,
    diagnostics: Diagnostics,
    inputs: watch::Receiver<InputsOrReason>,
    guard: Guard,
    memory: KeptMemory,
    refusals: limpet_xds::Status,
    replicas: Replicas,
    questions: mpsc::Receiver<Question>,
    contour_change: LastChange,
    /// The first and the last change since the last build began.
    changed: Option<(Instant, Instant)>,
    /// When other single objects were wanted last, or the kinds that name them were not all listed yet.
    asked: Asked,
    all_listed: bool,
    /// When to pass on changed statuses.
    look: Option<Instant>,
    /// When to pass on what pods say of their deletion.
    deletions: Option<Instant>,
    /// When to publish the changed hosts of clusters whose sessions move.
    hosts: Option<Instant>,
    /// When to check whether retained policies can be dropped, and whether the next build drops them. Of which Gateways
    /// is known when it begins: one that runs now publishes routes that Envoys do not have.
    retained_check: Option<Instant>,
    drops_retained: bool,
    building: Option<JoinHandle<Built>>,
}

impl Reconcile for Control {
    /// [`Control::due`] gathers changes of objects; endpoints do not wait.
    const GATHER: Duration = Duration::ZERO;

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            update = self.reader.next() => {
                let mut change = self.store.apply(update.ok_or(Closed)?);
                for _ in 1..BATCH {
                    let Some(update) = self.reader.ready() else { break };
                    change.merge(self.store.apply(update));
                }
                self.take(&change);
            }
            built = ended(self.building.as_mut()) => {
                self.building = None;
                if let Some(built) = built {
                    self.publish(built);
                }
            }
            () = changed_or_never(&mut self.inputs) => {
                self.mark();
                self.tell_missing();
            }
            () = self.memory.changed() => self.mark(),
            () = self.refusals.judged() => {
                if self.publisher.note_refusals() {
                    self.mark();
                }
            }
            Some(question) = self.questions.recv() => {
                // Who asked may have gone.
                let _ = question.send(self.present());
            }
            () = self.replicas.changed() => {
                let others = self.replicas.others();
                if others.is_some_and(|others| self.publisher.note_elsewhere(&others)) {
                    self.mark();
                }
            }
        }
        Ok(())
    }

    /// Does what is due.
    async fn reconcile(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let is_due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if is_due(Some(self.guard.due())) {
            self.look();
        }
        if is_due(self.due()) {
            self.build();
        }
        if is_due(self.retained_check) {
            self.drop_retained();
        }
        if is_due(self.look) {
            self.look = None;
            self.outlets.observation.send_replace(self.store.observation());
        }
        if is_due(self.deletions) {
            self.deletions = None;
            self.outlets.deletions.send_replace(self.store.deletions());
        }
        if is_due(self.hosts) {
            self.publish_hosts();
        }
        let next = [
            Some(self.guard.due()),
            self.due(),
            self.retained_check,
            self.look,
            self.deletions,
            self.hosts,
        ];
        let next = next.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }
}

impl Control {
    pub(crate) fn new(
        context: &Context,
        publisher: Publisher,
        outlets: Outlets,
        metrics: Metrics,
        sources: Sources,
    ) -> Self {
        let Sources {
            inputs,
            guard,
            memory,
            replicas,
            questions,
        } = sources;
        let settings = &context.settings;
        let namespaces = context.config.namespaces.iter();
        let watched = Watched {
            controller: settings.controller_name.as_str().into(),
            serves: settings.judges(),
            namespaces: namespaces.map(|name| Arc::from(name.as_str())).collect(),
            own: settings.managed.as_ref().map(|_| Arc::from(context.namespace())),
            contour: settings.contour.clone(),
            // Other control planes write endpoints themselves.
            pods: context.counts_sessions(),
        };
        let now = Instant::now();
        let refusals = publisher.status();
        Self {
            refusals,
            replicas,
            questions,
            contour_change: LastChange::default(),
            reader: Reader::start(&context.client, watched.clone()),
            store: Store::new(watched),
            settings: Arc::clone(settings),
            publisher,
            outlets,
            metrics,
            diagnostics: context.diagnostics.clone(),
            inputs,
            guard,
            memory,
            // The first build needs no change: a cluster may have no object.
            changed: Some((now, now)),
            asked: Asked::at(now),
            all_listed: false,
            look: None,
            deletions: None,
            hosts: None,
            retained_check: None,
            drops_retained: false,
            building: None,
        }
    }

    /// Runs until `shutdown`.
    pub(crate) async fn run(self, mut shutdown: watch::Receiver<bool>) {
        tokio::select! {
            () = reconcile_loop::run(self) => {}
            _ = shutdown.wait_for(|ends| *ends) => {}
        }
    }

    /// Takes in what an update changed.
    fn take(&mut self, change: &Change) {
        if self.store.has_wanted() {
            self.asked.answered();
        }
        if !self.all_listed {
            self.asked = Asked::at(Instant::now());
        } else if change.wanted {
            self.asked.again(Instant::now());
        }
        self.all_listed = self.store.is_complete();
        if change.objects {
            self.mark();
            self.reader.read_wanted(self.store.wanted());
        }
        if change.statuses {
            self.look.get_or_insert(Instant::now() + STATUS_INTERVAL);
        }
        if change.pods {
            self.deletions.get_or_insert(Instant::now() + STATUS_INTERVAL);
        }
        self.publish_endpoints(&change.services);
        self.tell_missing();
    }

    /// Publishes the endpoints of these Services, except addresses that are held back.
    fn publish_endpoints(&mut self, services: &BTreeSet<ObjectName>) {
        let Self {
            store,
            guard,
            publisher,
            ..
        } = self;
        let mut endpoints = |service: &ObjectName, port: &str| {
            let all = store.endpoints(service, port);
            guard.endpoints(service, port, all)
        };
        let mut published = publisher.publish_endpoints(services, &mut endpoints);
        let newly_held = guard.newly_held();
        published += publisher.publish_endpoints(&newly_held, |service, port| {
            let all = store.endpoints(service, port);
            guard.endpoints(service, port, all)
        });
        self.metrics.endpoint_updates.inc_by(published);
        if self.publisher.has_new_hosts() {
            self.hosts.get_or_insert(Instant::now() + HOSTS);
        }
    }

    fn publish_hosts(&mut self) {
        self.hosts = None;
        self.publisher.publish_hosts();
        self.outlets
            .published_filter
            .send_replace(self.publisher.published_filter().cloned());
    }

    /// Releases addresses that need not be held back any more.
    fn look(&mut self) {
        let services = self.guard.look(self.publisher.published_filter());
        self.publish_endpoints(&services);
        self.metrics.set_fences(self.guard.figures());
        self.tell_cut();
    }

    /// Tells of Services with endpoints that there is no room for.
    fn tell_cut(&self) {
        let objects = self.store.objects();
        let diagnostic = |service: ObjectName| Diagnostic {
            kind: Kind::Service.as_str(),
            uid: objects
                .services
                .get(&service)
                .map(|object| object.meta.uid.clone())
                .unwrap_or_default(),
            namespace: Some(service.namespace.to_string()),
            name: service.name.to_string(),
            reason: Reason::EndpointsLeftOut,
            message:
                "the Services of the namespace have more endpoints than their share, so some of this one are left \
                      out: they get no requests, or no fences with another control plane"
                    .to_owned(),
        };
        let all = self.guard.cut().into_iter().map(diagnostic).collect();
        self.diagnostics.complain("endpoints", all);
    }

    fn tell_missing(&mut self) {
        let missing = self.store.missing();
        let missing = missing.or_else(|| self.inputs.borrow().as_ref().err().cloned());
        let was_stale = matches!(*self.outlets.readiness.borrow(), Readiness::Stale(_));
        let Some(why) = missing else {
            if was_stale {
                // It is ready again with the next build.
                self.mark();
            }
            return;
        };
        self.outlets.readiness.send_modify(|known| {
            *known = match known {
                Readiness::Waiting(_) => Readiness::Waiting(why),
                Readiness::Ready | Readiness::Stale(_) => Readiness::Stale(why),
            }
        });
        if let (false, Readiness::Stale(why)) = (was_stale, &*self.outlets.readiness.borrow()) {
            tracing::error!("{why}; what was published stays");
        }
    }

    /// Notes that something changed that graphs are built from.
    fn mark(&mut self) {
        let now = Instant::now();
        let first = self.changed.map_or(now, |(first, _)| first);
        self.changed = Some((first, now));
    }

    /// When to build next; `None`: not before something else happens.
    fn due(&self) -> Option<Instant> {
        let (first, last) = self.changed?;
        if self.building.is_some() || !self.store.is_complete() || self.inputs.borrow().is_err() {
            return None;
        }
        let quiet = (last + QUIET).min(first + LONGEST);
        Some(if self.store.has_wanted() {
            quiet
        } else {
            quiet.max(self.asked.until())
        })
    }

    fn build(&mut self) {
        let Ok(inputs) = self.inputs.borrow_and_update().clone() else {
            return;
        };
        self.changed = None;
        self.asked.answered();
        self.guard.refresh();
        self.metrics.count_objects(&self.store);
        if self.store.set_memory(self.memory.known()) {
            self.asked = Asked::at(Instant::now());
            self.reader.read_wanted(self.store.wanted());
            return self.mark();
        }
        let objects = self.store.objects();
        let settings = Arc::clone(&self.settings);
        let drops_retained = std::mem::take(&mut self.drops_retained);
        let builder = self.publisher.builder(inputs, drops_retained);
        self.building = Some(tokio::task::spawn_blocking(move || builder.build(objects, &settings)));
    }

    /// Once all Envoys of a Gateway have the published routes, none of them needs the policies of earlier ones.
    fn drop_retained(&mut self) {
        let has_retained = self.publisher.has_retained();
        self.drops_retained = !self.publisher.needless_retained().is_empty();
        if self.drops_retained {
            self.mark();
        }
        // Where another Gateway still retains some, the build looks again.
        self.retained_check = (has_retained && !self.drops_retained).then(|| Instant::now() + RETAINED);
    }

    fn publish(&mut self, mut built: Built) {
        self.memory.remember(std::mem::take(&mut built.memory));
        let mut services = self.guard.lead(std::mem::take(&mut built.led_from));
        // Before the routes of a namespace lead to a Service, its endpoints have to be looked at for that namespace.
        self.publish_endpoints(&services);
        let followed = self.store.follow(std::mem::take(&mut built.services_of_envoys));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.metrics.built(built.took, now);
        let objects = Arc::clone(&built.objects);
        let before = self.publisher.graph();
        let Self {
            store,
            guard,
            publisher,
            ..
        } = self;
        let (reports, changed) = publisher.publish(built, |service, port| {
            let all = store.endpoints(service, port);
            guard.endpoints(service, port, all)
        });
        services.extend(changed);
        self.replicas.say_refused_routes(publisher.refused_routes());
        guard.watch(&services, |service, port| publisher.clusters_of(service, port));
        if publisher.has_retained() {
            self.retained_check.get_or_insert(Instant::now() + RETAINED);
        }
        self.outlets
            .published_filter
            .send_replace(publisher.published_filter().cloned());
        let newly_held = guard.newly_held();
        self.publish_endpoints(&newly_held);
        self.look();
        self.outlets.readiness.send_if_modified(|known| {
            let before = std::mem::replace(known, Readiness::Ready);
            if matches!(before, Readiness::Waiting(_)) {
                tracing::info!("the first complete state is published");
            }
            before != Readiness::Ready
        });
        self.take(&followed);
        self.outlets.observation.send_replace(self.store.observation());
        let reports = Arc::new(reports);
        self.note_contour(before.as_deref(), &reports, now);
        let published = self.publisher.published_filter();
        let variables = published.map(|published| needed_variables(&published.inputs.keys));
        self.outlets.reported.send_replace(Some(Reported {
            reports,
            objects,
            gateways: Arc::new(self.publisher.gateways()),
            variables: variables.unwrap_or_default().into(),
            contour_changed: self.contour_change.at,
        }));
    }

    /// What is published now. Everything is shared, so this is cheap, and nothing is done until somebody asks.
    fn present(&self) -> Present {
        let fences = self.guard.fences();
        Present {
            graph: self.publisher.graph(),
            slices: self.store.slices(),
            reported: self.outlets.reported.borrow().clone(),
            fences: fences.list().clone(),
            held_back: fences.held_from(),
        }
    }

    /// Notes whether a build has changed anything of Contour's. `before` is what was published.
    fn note_contour(&mut self, before: Option<&Graph>, reports: &Reports, now: Duration) {
        let (Some(contour), Some(graph)) = (&self.settings.contour, self.publisher.graph()) else {
            return;
        };
        let reported = self.outlets.reported.borrow();
        let known = reported.as_ref().map(|reported| &*reported.reports);
        self.contour_change
            .note(&contour.gateway, before.zip(known), (&graph, reports), now);
    }
}

/// Waits for the result of the build; for ever if none is running.
async fn ended(building: Option<&mut JoinHandle<Built>>) -> Option<Built> {
    match building {
        Some(building) => building
            .await
            .inspect_err(|error| tracing::error!(%error, "a build failed; what was published before stays in use"))
            .ok(),
        None => std::future::pending().await,
    }
}
