//! `/metrics`, in the text format of `OpenMetrics`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use super::port::{RejectedConnections, RejectionLabel, RejectionLabels};
use super::{certificates, guard};
use crate::cluster::kube::Store;
use crate::cluster::reconcile::keyring;
use crate::cluster::reconcile::status::StatusMetrics;

/// Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    objects: Family<ObjectLabels, Gauge>,
    builds: Histogram,
    last_build: Gauge<f64, AtomicU64>,
    pub(crate) endpoint_updates: Counter,
    pub(crate) statuses: StatusMetrics,
    resources: Family<TypeLabels, Gauge>,
    clients: Family<GatewayLabels, Gauge>,
    envoys: Family<VersionLabels, Gauge>,
    answers: Family<AnswerLabels, Counter>,
    sent: Family<TypeLabels, Counter>,
    turned_away: Family<ReasonLabels, Counter>,
    pub(crate) http_turned_away: RejectedConnections,
    certificates: Family<CertificateLabels, Gauge<f64, AtomicU64>>,
    refused_secrets: Gauge,
    quarantined: Gauge,
    refused_units: Counter,
    preflights: Counter,
    preflight_seconds: Counter<f64, AtomicU64>,
    key_created: Gauge<f64, AtomicU64>,
    key_rotation_phase: Gauge,
    key_rotation_late: Gauge,
    keyring_behind: Family<GatewayLabels, Gauge>,
    keys: Family<KeyLabels, Gauge>,
    fences: Gauge,
    held_back: Gauge,
    left_out_endpoints: Gauge,
    unacknowledged_fences: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ObjectLabels {
    kind: &'static str,
    state: DecodeState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "they are written as they are named")]
enum DecodeState {
    read,
    malformed,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KeyLabels {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TypeLabels {
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct GatewayLabels {
    gateway: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VersionLabels {
    version: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AnswerLabels {
    r#type: &'static str,
    answer: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CertificateLabels {
    certificate: &'static str,
}

impl Metrics {
    pub(crate) fn new() -> (Self, Registry) {
        let metrics = Self {
            objects: Family::default(),
            // 1 ms to 8 s.
            builds: Histogram::new(exponential_buckets(0.001, 2.0, 14)),
            last_build: Gauge::default(),
            endpoint_updates: Counter::default(),
            statuses: StatusMetrics::default(),
            resources: Family::default(),
            clients: Family::default(),
            envoys: Family::default(),
            answers: Family::default(),
            sent: Family::default(),
            turned_away: Family::default(),
            http_turned_away: RejectedConnections::default(),
            certificates: Family::default(),
            refused_secrets: Gauge::default(),
            quarantined: Gauge::default(),
            refused_units: Counter::default(),
            preflights: Counter::default(),
            preflight_seconds: Counter::default(),
            key_created: Gauge::default(),
            key_rotation_phase: Gauge::default(),
            key_rotation_late: Gauge::default(),
            keyring_behind: Family::default(),
            keys: Family::default(),
            fences: Gauge::default(),
            held_back: Gauge::default(),
            left_out_endpoints: Gauge::default(),
            unacknowledged_fences: Counter::default(),
        };
        metrics.key_created.set(f64::NAN);
        let mut registry = Registry::default();
        let own = registry.sub_registry_with_prefix("limpet");
        metrics.register_of_cluster(own);
        metrics.register_of_envoys(own);
        metrics.register_of_preflight(own);
        metrics.register_of_filter(own);
        (metrics, registry)
    }

    fn register_of_cluster(&self, registry: &mut Registry) {
        for reason in RejectionLabel::ALL {
            drop(self.http_turned_away.get_or_create(&RejectionLabels { reason }));
        }
        registry.register(
            "http_turned_away",
            "Connections to the port of metrics that were ended, by reason",
            self.http_turned_away.clone(),
        );
        registry.register("objects", "Objects by kind and state", self.objects.clone());
        registry.register(
            "build_seconds",
            "Time to build resources from objects",
            self.builds.clone(),
        );
        registry.register(
            "last_build_timestamp_seconds",
            "Unix time of the last build",
            self.last_build.clone(),
        );
        registry.register(
            "endpoint_updates",
            "Changes of a cluster's endpoints that were published without a build",
            self.endpoint_updates.clone(),
        );
        registry.register(
            "status_writes",
            "Writes of statuses by result",
            self.statuses.writes.clone(),
        );
        let version = VersionLabels {
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        registry.register("build", "The version of this controller", Info::new(version));
        registry.register("leader", "Whether this replica writes", self.statuses.leads.clone());
    }

    fn register_of_envoys(&self, registry: &mut Registry) {
        registry.register("resources", "Published Envoy resources by type", self.resources.clone());
        registry.register("clients", "Connected Envoys by Gateway", self.clients.clone());
        registry.register("envoys", "Connected Envoys by version", self.envoys.clone());
        registry.register(
            "xds_responses",
            "Responses to Envoys since the start, by type and by Envoy's answer",
            self.answers.clone(),
        );
        registry.register(
            "sent_resources",
            "Resources sent to Envoys since the start, by type",
            self.sent.clone(),
        );
        registry.register(
            "xds_turned_away",
            "Connections and streams that the xDS server ended, by reason",
            self.turned_away.clone(),
        );
        registry.register(
            "xds_certificate_expiry_seconds",
            "Seconds until the earliest certificate of xDS expires",
            self.certificates.clone(),
        );
        registry.register(
            "xds_refused_secrets",
            "Gateways whose Secret cannot be kept as it should be, at the leader",
            self.refused_secrets.clone(),
        );
    }

    fn register_of_preflight(&self, registry: &mut Registry) {
        registry.register(
            "quarantined_routes",
            "Routes that Envoys refused, so that something else is served in their place",
            self.quarantined.clone(),
        );
        registry.register(
            "refused_routes",
            "Refusals of a route by an Envoy before it went live",
            self.refused_units.clone(),
        );
        registry.register(
            "preflights",
            "How often an Envoy was asked about changed routes before they went live",
            self.preflights.clone(),
        );
        registry.register(
            "preflight_seconds",
            "How long Envoys took to answer, all times together",
            self.preflight_seconds.clone(),
        );
    }

    fn register_of_filter(&self, registry: &mut Registry) {
        registry.register(
            "key_created_timestamp_seconds",
            "Unix time at which the signing key was made; NaN if unknown",
            self.key_created.clone(),
        );
        registry.register(
            "key_rotation_phase",
            "Phase of the current rotation, 1 to 3; 0 if there is none",
            self.key_rotation_phase.clone(),
        );
        registry.register(
            "key_rotation_late",
            "Whether the rotation or revocation has waited for long, at the leader",
            self.key_rotation_late.clone(),
        );
        registry.register(
            "keyring_behind",
            "Envoys that a late rotation or revocation waits for, by Gateway, at the leader",
            self.keyring_behind.clone(),
        );
        registry.register("keys", "Keys in the keyring by state", self.keys.clone());
        registry.register(
            "fences",
            "Fenced addresses: those that changed their owner",
            self.fences.clone(),
        );
        registry.register(
            "held_back_addresses",
            "Addresses with a new owner that are not published yet",
            self.held_back.clone(),
        );
        registry.register(
            "left_out_endpoints",
            "Endpoints of Services that are not published, because their namespace has more than its share",
            self.left_out_endpoints.clone(),
        );
        registry.register(
            "unacknowledged_fences",
            "Addresses that were published before all Envoys had acknowledged the fence",
            self.unacknowledged_fences.clone(),
        );
    }

    pub(crate) fn set_keys(&self, figures: &keyring::KeyringFigures) {
        // Unix times are far below 2^52.
        #[allow(clippy::cast_precision_loss)]
        let created = figures.created.map_or(f64::NAN, |created| created as f64);
        self.key_created.set(created);
        self.key_rotation_phase.set(figures.phase.into());
        self.key_rotation_late.set(figures.is_late.into());
        self.keyring_behind.clear();
        for (gateway, &count) in &figures.behind {
            let gateway = gateway.clone();
            self.keyring_behind
                .get_or_create(&GatewayLabels { gateway })
                .set(gauge(count));
        }
        for (&state, &count) in &figures.keys {
            self.keys.get_or_create(&KeyLabels { state }).set(gauge(count));
        }
    }

    pub(crate) fn set_fences(&self, figures: guard::FenceFigures) {
        self.fences.set(gauge(figures.fences));
        self.held_back.set(gauge(figures.held_back));
        self.left_out_endpoints.set(gauge(figures.left_out));
        let counter = self.unacknowledged_fences.inner();
        counter.store(figures.unacknowledged, Ordering::Relaxed);
    }

    pub(crate) fn count_objects(&self, store: &Store) {
        for (kind, (read, malformed)) in store.counts() {
            for (state, count) in [(DecodeState::read, read), (DecodeState::malformed, malformed)] {
                let labels = ObjectLabels {
                    kind: kind.as_str(),
                    state,
                };
                self.objects.get_or_create(&labels).set(gauge(count));
            }
        }
    }

    pub(crate) fn count_resources(&self, r#type: &'static str, count: usize) {
        self.resources.get_or_create(&TypeLabels { r#type }).set(gauge(count));
    }

    pub(crate) fn set_quarantined(&self, count: usize) {
        self.quarantined.set(gauge(count));
    }

    /// `now`: Unix time.
    pub(crate) fn built(&self, time: Duration, now: Duration) {
        self.builds.observe(time.as_secs_f64());
        self.last_build.set(now.as_secs_f64());
    }
}

#[derive(Debug)]
pub(crate) struct Exposition {
    pub(crate) registry: Registry,
    pub(crate) metrics: Metrics,
    pub(crate) snapshots: limpet_xds::Snapshots,
    pub(crate) keys: watch::Receiver<keyring::PublishedKeys>,
    /// If Envoys are served.
    pub(crate) certificates: Option<certificates::InUse>,
}

impl Exposition {
    pub(crate) fn text(&self) -> String {
        self.refresh();
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    fn refresh(&self) {
        let Self {
            metrics,
            snapshots,
            keys,
            ..
        } = self;
        metrics.set_keys(&keys.borrow().figures);
        metrics.clients.clear();
        for (group, connected) in snapshots.status().groups() {
            let labels = GatewayLabels {
                gateway: group.to_string(),
            };
            metrics.clients.get_or_create(&labels).set(gauge(connected));
        }
        metrics.envoys.clear();
        for (version, connected) in snapshots.status().versions() {
            metrics
                .envoys
                .get_or_create(&VersionLabels { version })
                .set(gauge(connected));
        }
        for counts in snapshots.counts().0 {
            let r#type = counts.resource_type.name();
            for (answer, count) in [("acknowledged", counts.acknowledged), ("refused", counts.refused)] {
                let of = metrics.answers.get_or_create(&AnswerLabels { r#type, answer });
                of.inner().store(count, Ordering::Relaxed);
            }
            let sent = metrics.sent.get_or_create(&TypeLabels { r#type });
            sent.inner().store(counts.sent, Ordering::Relaxed);
        }
        let preflights = snapshots.preflights();
        metrics
            .refused_units
            .inner()
            .store(preflights.refused_units, Ordering::Relaxed);
        metrics.preflights.inner().store(preflights.ended, Ordering::Relaxed);
        let seconds = preflights.took.as_secs_f64();
        metrics
            .preflight_seconds
            .inner()
            .store(seconds.to_bits(), Ordering::Relaxed);
        for (reason, count) in snapshots.turned_away() {
            let labels = ReasonLabels { reason: reason.name() };
            let counter = metrics.turned_away.get_or_create(&labels);
            counter.inner().store(count, Ordering::Relaxed);
        }
        self.refresh_certificates();
    }

    fn refresh_certificates(&self) {
        let behind = self.certificates.as_ref().map_or(0, certificates::InUse::behind);
        self.metrics.refused_secrets.set(gauge(behind));
        let gauges = &self.metrics.certificates;
        gauges.clear();
        let now = SystemTime::now();
        for one in self.certificates.iter().flat_map(certificates::InUse::firsts) {
            let labels = CertificateLabels {
                certificate: one.role.name(),
            };
            gauges.get_or_create(&labels).set(certificates::seconds_left(&one, now));
        }
    }
}

fn gauge(count: usize) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
