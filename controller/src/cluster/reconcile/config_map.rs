//! A ConfigMap in which the leader keeps something for all replicas.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Error};
use serde_json::json;
use tokio::sync::watch;

use crate::cluster::kube::{Backoff, named_object};
use crate::cluster::reconcile::diagnostics::{Diagnostic, DiagnosticReason, Diagnostics, refusal};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use limpet_model::{MANAGED_BY, MANAGER};

pub(crate) type ConfigMapFields = BTreeMap<String, String>;
/// `None`: the field is removed.
pub(crate) type ConfigMapPatch = BTreeMap<String, Option<String>>;

pub(crate) trait ConfigMapContent: Clone + Default + PartialEq + Send + Sync + 'static {
    /// For messages.
    const WHAT: &'static str;
    /// For a person if the ConfigMap cannot be read.
    const ADVICE: &'static str;

    /// Ignores unknown fields. Fails with an invalid field and why.
    fn parse(fields: &ConfigMapFields) -> Result<Self, String>;

    /// The fields that differ from `former`'s, because a ConfigMap may be large.
    fn changes(&self, former: &Self) -> ConfigMapPatch;

    fn count(&self) -> usize;
}

const CONFIG_MAP: &str = "ConfigMap";
/// The minimum time between writes. After each one of fences, every Envoy sets up the filter again.
const INTERVAL: Duration = Duration::from_secs(1);
const CALL: Duration = Duration::from_secs(5);

pub(crate) struct ConfigMapReconciler<K> {
    maps: Api<ConfigMap>,
    name: String,
    /// `None`: not read yet.
    published: watch::Sender<Option<K>>,
    desired: watch::Receiver<Option<K>>,
    leads: watch::Receiver<bool>,
    diagnostics: Diagnostics,
    wrong: BTreeMap<DiagnosticReason, String>,
    uid: String,
    /// States without the content, which may be large and which the leader has written itself.
    states: BoxStream<'static, named_object::ObservedObject<PartialObjectMeta<ConfigMap>>>,
    observed: ConfigMapState,
    /// Whether a newer state must be read.
    is_outdated: bool,
    /// What was read or written last.
    last: K,
    write_due: Instant,
    backoff: Backoff,
}

enum ConfigMapState {
    Unknown,
    Missing,
    /// With its `resourceVersion`.
    There(String),
    /// Not overwritten: a person must correct it.
    Broken,
}

impl<K: ConfigMapContent> Reconcile for ConfigMapReconciler<K> {
    const GATHER: Duration = Duration::ZERO;

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            seen = self.states.next() => match seen.ok_or(Closed)? {
                Ok(map) => self.observe_metadata(map.as_ref()),
                Err(error) => {
                    let refusal = format!("grant list and watch on the ConfigMap: {error}");
                    self.report_problem(DiagnosticReason::ReadRefused, refusal);
                }
            },
            changed = self.leads.changed() => changed?,
            changed = self.desired.changed() => changed?,
            () = self.published.closed() => return Err(Closed),
        }
        Ok(())
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        if self.is_outdated
            && let Err(wait) = self.read_again().await
        {
            return Some(wait);
        }
        let is_written = || *self.desired.borrow() == *self.published.borrow();
        let is_due = match self.observed {
            // The sender may not know it yet.
            ConfigMapState::There(_) => !is_written(),
            ConfigMapState::Missing => true,
            ConfigMapState::Unknown | ConfigMapState::Broken => false,
        };
        let leads = *self.leads.borrow_and_update();
        if !is_due || !leads || self.desired.borrow_and_update().is_none() {
            return None;
        }
        let rest = self.write_due.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            return Some(rest);
        }
        let wait = self.write().await;
        self.write_due = Instant::now() + wait;
        Some(wait)
    }
}

impl<K: ConfigMapContent> ConfigMapReconciler<K> {
    pub(crate) fn new(
        client: &Client,
        namespace: &str,
        name: &str,
        wanted: watch::Receiver<Option<K>>,
        leads: watch::Receiver<bool>,
        diagnostics: Diagnostics,
    ) -> (Self, watch::Receiver<Option<K>>) {
        let (kept, receiver) = watch::channel(None);
        let metadata: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(client.clone(), namespace);
        let reconciler = Self {
            states: named_object::follow(metadata, CONFIG_MAP, name).boxed(),
            maps: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
            published: kept,
            desired: wanted,
            leads,
            diagnostics,
            wrong: BTreeMap::new(),
            uid: String::new(),
            observed: ConfigMapState::Unknown,
            is_outdated: false,
            last: Default::default(),
            write_due: Instant::now(),
            backoff: Backoff::of_the_api(),
        };
        (reconciler, receiver)
    }

    /// Notes a new state, unless it is our last write.
    fn observe_metadata(&mut self, map: Option<&PartialObjectMeta<ConfigMap>>) {
        self.is_over(DiagnosticReason::ReadRefused);
        let Some(map) = map else {
            return self.observe(None);
        };
        let version = map.metadata.resource_version.as_ref();
        self.is_outdated = !matches!(&self.observed, ConfigMapState::There(known) if version == Some(known));
    }

    /// Fails with the time until the next try.
    async fn read_again(&mut self) -> Result<(), Duration> {
        // RBAC can grant this for a single name.
        let only = ListParams::default().fields(&format!("metadata.name={}", self.name));
        match tokio::time::timeout(CALL, self.maps.list(&only)).await {
            Ok(Ok(found)) => {
                self.backoff.reset();
                self.is_outdated = false;
                self.observe(found.items.into_iter().next());
                Ok(())
            }
            failed => {
                let error = failed.map_or_else(
                    |_| "no answer".to_owned(),
                    |answer| answer.err().map(|error| error.to_string()).unwrap_or_default(),
                );
                tracing::warn!(configmap = self.name, error, "cannot be read");
                Err(self.backoff.next())
            }
        }
    }

    fn observe(&mut self, map: Option<ConfigMap>) {
        self.uid = map
            .as_ref()
            .and_then(|map| map.metadata.uid.clone())
            .unwrap_or_default();
        let version = map.as_ref().map(|map| map.metadata.resource_version.clone());
        let content = map.map(|map| K::parse(&map.data.unwrap_or_default()));
        match (content, version) {
            (Some(Ok(content)), Some(version)) => {
                self.observed = ConfigMapState::There(version.unwrap_or_default());
                self.is_over(DiagnosticReason::Invalid);
                self.last = content.clone();
                self.publish(content);
            }
            // A new replica does not know what Envoys have. Without the content, sessions would end or reach other
            // pods, so it waits.
            (Some(Err(error)), _) => {
                self.observed = ConfigMapState::Broken;
                self.report_problem(DiagnosticReason::Invalid, format!("{error}; {}", K::ADVICE));
            }
            _ => {
                self.observed = ConfigMapState::Missing;
                self.last = Default::default();
                self.is_over(DiagnosticReason::Invalid);
                // A deleted ConfigMap is created again with the next change.
                self.published.send_if_modified(|kept| {
                    let is_first = kept.is_none();
                    kept.get_or_insert_default();
                    is_first
                });
            }
        }
    }

    fn report_problem(&mut self, reason: DiagnosticReason, message: String) {
        if self.wrong.get(&reason) != Some(&message) {
            tracing::error!(configmap = self.name, reason = reason.name(), "{message}");
            self.wrong.insert(reason, message);
        }
        self.set_diagnostics();
    }

    fn is_over(&mut self, reason: DiagnosticReason) {
        self.wrong.remove(&reason);
        self.set_diagnostics();
    }

    fn set_diagnostics(&self) {
        let diagnostic = |(reason, message): (&DiagnosticReason, &String)| Diagnostic {
            kind: CONFIG_MAP,
            namespace: None,
            name: self.name.clone(),
            uid: self.uid.clone(),
            reason: *reason,
            message: message.clone(),
        };
        self.diagnostics
            .set(K::WHAT, self.wrong.iter().map(diagnostic).collect());
    }

    fn publish(&self, content: K) {
        self.published.send_if_modified(|kept| {
            let changed = kept.as_ref() != Some(&content);
            *kept = Some(content);
            changed
        });
    }

    async fn write(&mut self) -> Duration {
        let Some(content) = self.desired.borrow_and_update().clone() else {
            return INTERVAL;
        };
        let changes = content.changes(&self.last);
        let (maps, name) = (&self.maps, self.name.as_str());
        let call = async {
            match &self.observed {
                ConfigMapState::There(version) => patch(maps, name, version, &changes).await,
                _ => create(maps, name, &changes).await,
            }
        };
        match tokio::time::timeout(CALL, call).await {
            Ok(Ok(version)) => {
                self.backoff.reset();
                tracing::info!(configmap = self.name, entries = content.count(), "written");
                self.observed = ConfigMapState::There(version);
                self.is_over(DiagnosticReason::WriteRefused);
                self.last = content.clone();
                self.publish(content);
                INTERVAL
            }
            // The watch brings the other write.
            Ok(Err(Error::Api(status))) if status.code == 409 => INTERVAL,
            failed => {
                let error = match failed {
                    Ok(Err(error)) => {
                        if let Some(refusal) = refusal(&error) {
                            self.report_problem(DiagnosticReason::WriteRefused, refusal);
                        }
                        error.to_string()
                    }
                    _ => "no answer".to_owned(),
                };
                tracing::warn!(configmap = self.name, error, "cannot be written");
                INTERVAL + self.backoff.next()
            }
        }
    }
}

/// Patches the fields if `version` is current. Returns only the new `resourceVersion`, because the whole answer would
/// be large.
async fn patch(maps: &Api<ConfigMap>, name: &str, version: &str, fields: &ConfigMapPatch) -> Result<String, Error> {
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "data": fields}));
    let written = maps.patch_metadata(name, &PatchParams::default(), &patch).await?;
    Ok(written.metadata.resource_version.unwrap_or_default())
}

async fn create(maps: &Api<ConfigMap>, name: &str, fields: &ConfigMapPatch) -> Result<String, Error> {
    let fields = fields.iter();
    let data = fields.filter_map(|(field, text)| Some((field.clone(), text.clone()?)));
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())])),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        ..ConfigMap::default()
    };
    let written = maps.create(&PostParams::default(), &map).await?;
    Ok(written.metadata.resource_version.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::http::{Request, Response};
    use kube::client::Body;

    use super::*;

    #[derive(Debug, Clone, Default, PartialEq)]
    struct Text(String);

    impl ConfigMapContent for Text {
        const WHAT: &'static str = "text";
        const ADVICE: &'static str = "";

        fn parse(fields: &ConfigMapFields) -> Result<Self, String> {
            Ok(Self(fields.get("text").cloned().unwrap_or_default()))
        }

        fn changes(&self, _: &Self) -> ConfigMapPatch {
            BTreeMap::from([("text".to_owned(), Some(self.0.clone()))])
        }

        fn count(&self) -> usize {
            1
        }
    }

    /// Accepts every write, and counts all calls.
    fn server(calls: &Arc<AtomicUsize>) -> Client {
        let calls = Arc::clone(calls);
        let answer = move |request: Request<Body>| {
            calls.fetch_add(1, Ordering::Relaxed);
            async { Ok::<_, std::io::Error>(Response::new(request.into_body())) }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    #[tokio::test]
    async fn what_is_written_is_not_written_again() {
        let writes = Arc::default();
        let client = server(&writes);
        let text = |text: &str| Some(Text(text.to_owned()));
        let (wanting, wanted) = watch::channel(text("a"));
        let (_leading, leads) = watch::channel(true);
        let (mut reconciler, _kept) =
            ConfigMapReconciler::new(&client, "limpet", "kept", wanted, leads, Diagnostics::new());
        reconciler.observe(None);
        for (wants, expected) in [("a", 1), ("b", 2)] {
            wanting.send_replace(text(wants));
            for _ in 0..3 {
                reconciler.reconcile().await;
                reconciler.write_due = Instant::now();
            }
            assert_eq!(writes.load(Ordering::Relaxed), expected);
        }
    }

    #[tokio::test]
    async fn what_the_watch_brings_of_a_write_is_not_read() {
        let state = |version: &str| PartialObjectMeta::<ConfigMap> {
            metadata: ObjectMeta {
                resource_version: Some(version.to_owned()),
                ..ObjectMeta::default()
            },
            ..PartialObjectMeta::default()
        };
        let calls = Arc::default();
        let client = server(&calls);
        let (_wanting, wanted) = watch::channel(None);
        let (_leading, leads) = watch::channel(true);
        let (mut reconciler, _kept) =
            ConfigMapReconciler::<Text>::new(&client, "limpet", "kept", wanted, leads, Diagnostics::new());
        reconciler.observed = ConfigMapState::There("7".to_owned());
        for (version, expected) in [("7", 0), ("8", 1)] {
            reconciler.observe_metadata(Some(&state(version)));
            reconciler.reconcile().await;
            assert_eq!(calls.load(Ordering::Relaxed), expected, "version {version}");
        }
    }
}
