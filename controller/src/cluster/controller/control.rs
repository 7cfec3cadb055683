//! The event loop: takes in changes, builds, and publishes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::build::BuildResult;
use super::context::ControllerContext;
use super::contour::LastChange;
use super::guard::EndpointGuard;
use super::http::ReadinessState;
use super::inputs::InputsOrReason;
use super::memory::KeptMemory;
use super::metrics::Metrics;
use super::present::{PublishedSnapshot, SnapshotQuestion};
use super::publish::Publisher;
use super::reference_wait::ReferenceWait;
use crate::cluster::kube::{ObjectReader, Observation, PodDeletions, Store, StoreChange, WatchSettings};
use crate::cluster::reconcile::delivery::PublishedFilter;
use crate::cluster::reconcile::diagnostics::{Diagnostic, DiagnosticReason, Diagnostics};
use crate::cluster::reconcile::reconcile_loop::{self, Closed, Reconcile, changed_or_never};
use crate::cluster::reconcile::replicas::ReplicaReports;
use crate::cluster::reconcile::reported::PublishedReports;
use limpet_api::{Kind, ObjectName};
use limpet_model::graph::Graph;
use limpet_model::{Reports, Settings};
use limpet_outputs::needed_variables;

/// How long a change waits for further ones, so that a batch is built once.
const QUIET: Duration = Duration::from_millis(20);
/// How long a build waits at most while changes keep coming.
const LONGEST: Duration = Duration::from_millis(250);
/// The most updates that are taken in at once.
const BATCH: usize = 512;
/// The least time between two changes of statuses, or of pods' deletions, that are passed on.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);

/// How long changed hosts of clusters with moving sessions wait for further ones: each change makes Envoy set up the
/// filter again.
const HOSTS: Duration = Duration::from_secs(1);

/// The minimum for retained policies. They stay longer while an Envoy may still have routes with them.
const RETAINED: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct ControlSenders {
    pub(crate) reported: watch::Sender<Option<PublishedReports>>,
    pub(crate) observation: watch::Sender<Observation>,
    /// `None`: not known yet.
    pub(crate) deletions: watch::Sender<Option<Arc<PodDeletions>>>,
    pub(crate) readiness: watch::Sender<ReadinessState>,
    pub(crate) published_filter: watch::Sender<Option<PublishedFilter>>,
}

#[derive(Debug)]
pub(crate) struct ControlReceivers {
    pub(crate) reported: watch::Receiver<Option<PublishedReports>>,
    pub(crate) observation: watch::Receiver<Observation>,
    pub(crate) deletions: watch::Receiver<Option<Arc<PodDeletions>>>,
    pub(crate) readiness: watch::Receiver<ReadinessState>,
    pub(crate) published_filter: watch::Receiver<Option<PublishedFilter>>,
}

const LEFT_OUT: &str = "the Services of the namespace have more endpoints than their share, so some of this one are \
                        left out: they get no requests, or no fences with another control plane";
const WITHOUT_MOVES: &str = "the Services of the namespace whose sessions are moved have more endpoints than their \
                             share, so filters do not know the endpoints of this one: a response can name a backend by \
                             its address, and not by its pod";

impl ControlSenders {
    pub(crate) fn channels() -> (Self, ControlReceivers) {
        let (reported, reported_receiver) = watch::channel(None);
        let (observation, observation_receiver) = watch::channel(Observation::default());
        let (deletions, deletions_receiver) = watch::channel(None);
        let (readiness, readiness_receiver) = watch::channel(ReadinessState::Waiting("nothing read yet".to_owned()));
        let (published_filter, published_filter_receiver) = watch::channel(None);
        let senders = Self {
            reported,
            observation,
            deletions,
            readiness,
            published_filter,
        };
        let receivers = ControlReceivers {
            reported: reported_receiver,
            observation: observation_receiver,
            deletions: deletions_receiver,
            readiness: readiness_receiver,
            published_filter: published_filter_receiver,
        };
        (senders, receivers)
    }
}

#[derive(Debug)]
pub(crate) struct ControlSources {
    pub(crate) inputs: watch::Receiver<InputsOrReason>,
    pub(crate) guard: EndpointGuard,
    pub(crate) memory: KeptMemory,
    pub(crate) replicas: ReplicaReports,
    pub(crate) questions: mpsc::Receiver<SnapshotQuestion>,
}

#[derive(Debug)]
pub(crate) struct ControlLoop {
    reader: ObjectReader,
    store: Store,
    settings: Arc<Settings>,
    publisher: Publisher,
    senders: ControlSenders,
    metrics: Metrics,
    diagnostics: Diagnostics,
    inputs: watch::Receiver<InputsOrReason>,
    guard: EndpointGuard,
    memory: KeptMemory,
    refusals: limpet_xds::AckStatus,
    replicas: ReplicaReports,
    questions: mpsc::Receiver<SnapshotQuestion>,
    contour_change: LastChange,
    /// The first and the last change since the last build began.
    unbuilt_since: Option<(Instant, Instant)>,
    /// When other single objects were wanted last, or not all kinds that name them were listed.
    reference_wait: ReferenceWait,
    all_listed: bool,
    status_due: Option<Instant>,
    deletions_due: Option<Instant>,
    /// When to publish changed hosts of clusters whose sessions move.
    moved_hosts_due: Option<Instant>,
    /// When to check whether retained policies can be dropped, and whether the next build drops them. For which
    /// Gateways is decided when it begins, because a running build publishes routes that Envoys lack.
    retained_due: Option<Instant>,
    drops_retained: bool,
    building: Option<JoinHandle<BuildResult>>,
}

impl Reconcile for ControlLoop {
    /// [`ControlLoop::build_due`] gathers changes of objects; endpoints do not wait.
    const GATHER: Duration = Duration::ZERO;

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            update = self.reader.next() => {
                let first = std::iter::once(update.ok_or(Closed)?);
                let further = std::iter::from_fn(|| self.reader.ready()).take(BATCH - 1);
                let change = self.store.apply_all(first.chain(further));
                self.apply_change(&change);
            }
            built = ended(self.building.as_mut()) => {
                self.building = None;
                if let Some(built) = built {
                    self.publish(built);
                }
            }
            () = changed_or_never(&mut self.inputs) => {
                self.schedule_build();
                self.update_readiness();
            }
            () = self.memory.changed() => self.schedule_build(),
            () = self.refusals.judged() => {
                if self.publisher.record_refusals() {
                    self.schedule_build();
                }
            }
            Some(question) = self.questions.recv() => {
                // The receiver may be gone.
                let _ = question.send(self.snapshot());
            }
            () = self.replicas.changed() => {
                let others = self.replicas.others();
                if others.is_some_and(|others| self.publisher.record_remote_refusals(&others)) {
                    self.schedule_build();
                }
            }
        }
        Ok(())
    }

    /// Does what is due. Returns the time until the next step.
    async fn reconcile(&mut self) -> Option<Duration> {
        let now = Instant::now();
        let is_due = |time: Option<Instant>| time.is_some_and(|time| time <= now);
        if is_due(Some(self.guard.release_due())) {
            self.release_addresses();
        }
        if is_due(self.build_due()) {
            self.build();
        }
        if is_due(self.retained_due) {
            self.drop_retained();
        }
        if is_due(self.status_due) {
            self.status_due = None;
            self.senders.observation.send_replace(self.store.observation());
        }
        if is_due(self.deletions_due) {
            self.deletions_due = None;
            self.senders.deletions.send_replace(self.store.deletions());
        }
        if is_due(self.moved_hosts_due) {
            self.publish_hosts();
        }
        let next = [
            Some(self.guard.release_due()),
            self.build_due(),
            self.retained_due,
            self.status_due,
            self.deletions_due,
            self.moved_hosts_due,
        ];
        let next = next.into_iter().flatten().min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }
}

impl ControlLoop {
    pub(crate) fn new(
        context: &ControllerContext,
        publisher: Publisher,
        senders: ControlSenders,
        metrics: Metrics,
        sources: ControlSources,
    ) -> Self {
        let ControlSources {
            inputs,
            guard,
            memory,
            replicas,
            questions,
        } = sources;
        let settings = &context.settings;
        let namespaces = context.config.namespaces.iter();
        let watched = WatchSettings {
            controller: settings.controller_name.as_str().into(),
            serves: settings.serves(),
            namespaces: namespaces.map(|name| Arc::from(name.as_str())).collect(),
            own_namespace: settings.managed.as_ref().map(|_| Arc::from(context.namespace())),
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
            reader: ObjectReader::start(&context.client, watched.clone()),
            store: Store::new(watched),
            settings: Arc::clone(settings),
            publisher,
            senders,
            metrics,
            diagnostics: context.diagnostics.clone(),
            inputs,
            guard,
            memory,
            // The first build needs no change: a cluster may have no object.
            unbuilt_since: Some((now, now)),
            reference_wait: ReferenceWait::at(now),
            all_listed: false,
            status_due: None,
            deletions_due: None,
            moved_hosts_due: None,
            retained_due: None,
            drops_retained: false,
            building: None,
        }
    }

    pub(crate) async fn run(self, mut shutdown: watch::Receiver<bool>) {
        tokio::select! {
            () = reconcile_loop::run(self) => {}
            _ = shutdown.wait_for(|ends| *ends) => {}
        }
    }

    fn apply_change(&mut self, change: &StoreChange) {
        if self.store.has_wanted() {
            self.reference_wait.answered();
        }
        if !self.all_listed {
            self.reference_wait = ReferenceWait::at(Instant::now());
        } else if change.references {
            self.reference_wait.again(Instant::now());
        }
        self.all_listed = self.store.is_complete();
        if change.objects {
            self.schedule_build();
            self.reader.read_wanted(self.store.references());
        }
        if change.statuses {
            self.status_due.get_or_insert(Instant::now() + STATUS_INTERVAL);
        }
        if change.pods {
            self.deletions_due.get_or_insert(Instant::now() + STATUS_INTERVAL);
        }
        self.publish_endpoints(&change.services);
        self.update_readiness();
    }

    /// Publishes endpoints, except addresses that are held back.
    fn publish_endpoints(&mut self, services: &BTreeSet<ObjectName>) {
        let Self {
            store,
            guard,
            publisher,
            ..
        } = self;
        let mut published = publisher.publish_endpoints(services, |service, port, clusters| {
            guard.endpoints(service, port, clusters, store.endpoints(service, port))
        });
        let newly_held = guard.newly_held();
        published += publisher.publish_endpoints(&newly_held, |service, port, clusters| {
            guard.endpoints(service, port, clusters, store.endpoints(service, port))
        });
        self.metrics.endpoint_updates.inc_by(published);
        if self.publisher.has_new_hosts() {
            self.moved_hosts_due.get_or_insert(Instant::now() + HOSTS);
        }
    }

    fn publish_hosts(&mut self) {
        self.moved_hosts_due = None;
        self.publisher.publish_hosts();
        self.senders
            .published_filter
            .send_replace(self.publisher.published_filter().cloned());
        self.report_left_out_endpoints();
    }

    /// Publishes addresses that need not be held back any more.
    fn release_addresses(&mut self) {
        let services = self.guard.release(self.publisher.published_filter());
        self.publish_endpoints(&services);
        self.metrics.set_fences(self.guard.figures());
        self.report_left_out_endpoints();
    }

    fn report_left_out_endpoints(&self) {
        let objects = self.store.objects();
        let diagnostic = |service: ObjectName, message: &str| Diagnostic {
            kind: Kind::Service.as_str(),
            uid: objects
                .services
                .get(&service)
                .map(|object| object.meta.uid.clone())
                .unwrap_or_default(),
            namespace: Some(service.namespace.to_string()),
            name: service.name.to_string(),
            reason: DiagnosticReason::EndpointsLeftOut,
            message: message.to_owned(),
        };
        let left_out = self.guard.services_left_out().into_iter();
        let left_out = left_out.map(|service| diagnostic(service, LEFT_OUT));
        let without_moves = self.publisher.services_without_moves().into_iter();
        let without_moves = without_moves.map(|service| diagnostic(service, WITHOUT_MOVES));
        let all = left_out.chain(without_moves).collect();
        self.diagnostics.set_and_log("endpoints", all);
    }

    fn update_readiness(&mut self) {
        let missing = self.store.missing();
        let missing = missing.or_else(|| self.inputs.borrow().as_ref().err().cloned());
        let was_stale = matches!(*self.senders.readiness.borrow(), ReadinessState::Stale(_));
        let Some(why) = missing else {
            if was_stale {
                // Ready again with the next build.
                self.schedule_build();
            }
            return;
        };
        self.senders.readiness.send_modify(|known| {
            *known = match known {
                ReadinessState::Waiting(_) => ReadinessState::Waiting(why),
                ReadinessState::Ready | ReadinessState::Stale(_) => ReadinessState::Stale(why),
            }
        });
        if let (false, ReadinessState::Stale(why)) = (was_stale, &*self.senders.readiness.borrow()) {
            tracing::error!("{why}; what was published stays");
        }
    }

    fn schedule_build(&mut self) {
        let now = Instant::now();
        let first = self.unbuilt_since.map_or(now, |(first, _)| first);
        self.unbuilt_since = Some((first, now));
    }

    /// `None`: not before something else happens.
    fn build_due(&self) -> Option<Instant> {
        let (first, last) = self.unbuilt_since?;
        if self.building.is_some() || !self.store.is_complete() || self.inputs.borrow().is_err() {
            return None;
        }
        let quiet = (last + QUIET).min(first + LONGEST);
        Some(if self.store.has_wanted() {
            quiet
        } else {
            quiet.max(self.reference_wait.until())
        })
    }

    fn build(&mut self) {
        let Ok(inputs) = self.inputs.borrow_and_update().clone() else {
            return;
        };
        self.unbuilt_since = None;
        self.reference_wait.answered();
        self.metrics.count_objects(&self.store);
        if self.store.set_memory(self.memory.current()) {
            self.reference_wait = ReferenceWait::at(Instant::now());
            self.reader.read_wanted(self.store.references());
            return self.schedule_build();
        }
        let objects = self.store.objects();
        let settings = Arc::clone(&self.settings);
        let drops_retained = std::mem::take(&mut self.drops_retained);
        let builder = self.publisher.builder(inputs, drops_retained);
        self.building = Some(tokio::task::spawn_blocking(move || builder.build(objects, &settings)));
    }

    /// Drops retained policies of Gateways whose Envoys all have the published routes.
    fn drop_retained(&mut self) {
        let has_retained = self.publisher.has_retained();
        self.drops_retained = !self.publisher.needless_retained().is_empty();
        if self.drops_retained {
            self.schedule_build();
        }
        // If another Gateway still retains some, the build checks again.
        self.retained_due = (has_retained && !self.drops_retained).then(|| Instant::now() + RETAINED);
    }

    fn publish(&mut self, mut built: BuildResult) {
        self.memory.remember(std::mem::take(&mut built.memory));
        let mut services = self.guard.set_routed_from(std::mem::take(&mut built.led_from));
        // Endpoints are judged for a namespace before its routes lead to the Service.
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
        let (reports, changed) = publisher.publish(built, |service, port, clusters| {
            guard.endpoints(service, port, clusters, store.endpoints(service, port))
        });
        services.extend(changed);
        self.replicas.report_refused_routes(publisher.refused_routes());
        guard.watch(&services, |service, port| publisher.clusters_of(service, port));
        if publisher.has_retained() {
            self.retained_due.get_or_insert(Instant::now() + RETAINED);
        }
        self.senders
            .published_filter
            .send_replace(publisher.published_filter().cloned());
        let newly_held = guard.newly_held();
        self.publish_endpoints(&newly_held);
        self.release_addresses();
        self.senders.readiness.send_if_modified(|known| {
            let before = std::mem::replace(known, ReadinessState::Ready);
            if matches!(before, ReadinessState::Waiting(_)) {
                tracing::info!("the first complete state is published");
            }
            before != ReadinessState::Ready
        });
        self.apply_change(&followed);
        self.senders.observation.send_replace(self.store.observation());
        let reports = Arc::new(reports);
        self.record_contour_change(before.as_deref(), &reports, now);
        let published = self.publisher.published_filter();
        let variables = published.map(|published| needed_variables(&published.inputs.keys));
        self.senders.reported.send_replace(Some(PublishedReports {
            reports,
            objects,
            gateways: Arc::new(self.publisher.gateways()),
            variables: variables.unwrap_or_default().into(),
            contour_changed: self.contour_change.at,
        }));
    }

    /// What is published now. Shared, so only requests cause work.
    fn snapshot(&self) -> PublishedSnapshot {
        let fences = self.guard.fences();
        PublishedSnapshot {
            graph: self.publisher.graph(),
            slices: self.store.slices(),
            reported: self.senders.reported.borrow().clone(),
            fences: fences.list().clone(),
            held_back: fences.held_from(),
        }
    }

    /// Notes whether a build has changed anything of Contour's. `before` was published.
    fn record_contour_change(&mut self, before: Option<&Graph>, reports: &Reports, now: Duration) {
        let (Some(contour), Some(graph)) = (&self.settings.contour, self.publisher.graph()) else {
            return;
        };
        let reported = self.senders.reported.borrow();
        let known = reported.as_ref().map(|reported| &*reported.reports);
        self.contour_change
            .record(&contour.gateway, before.zip(known), (&graph, reports), now);
    }
}

/// Waits for ever if no build is running.
async fn ended(building: Option<&mut JoinHandle<BuildResult>>) -> Option<BuildResult> {
    match building {
        Some(building) => building
            .await
            .inspect_err(|error| tracing::error!(%error, "a build failed; what was published before stays in use"))
            .ok(),
        None => std::future::pending().await,
    }
}
