//! Reads and writes a ConfigMap in which the leader keeps something for all replicas.

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
use crate::cluster::reconcile::diagnostics::{Diagnostic, Diagnostics, Reason, refusal};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use limpet_model::{MANAGED_BY, MANAGER};

/// The texts of a ConfigMap, by their fields.
pub(crate) type Fields = BTreeMap<String, String>;
/// Texts for fields of a ConfigMap; `None`: the field goes.
pub(crate) type Changes = BTreeMap<String, Option<String>>;

/// What a ConfigMap keeps.
pub(crate) trait Content: Clone + Default + PartialEq + Send + Sync + 'static {
    /// What it is.
    const WHAT: &'static str;
    /// What a person should know if it cannot be read.
    const ADVICE: &'static str;

    /// Reads its fields, and passes over others.
    ///
    /// # Errors
    /// If one is invalid, which one and why.
    fn parse(fields: &Fields) -> Result<Self, String>;

    /// The fields to write where the ConfigMap has `former`: a large ConfigMap is not written as a whole for a change.
    fn changes(&self, former: &Self) -> Changes;

    /// The number of entries, for the log.
    fn count(&self) -> usize;
}

/// The kind of the object.
const CONFIG_MAP: &str = "ConfigMap";
/// The minimum time between two writes. After each one of fences, every Envoy sets up the filter again.
const INTERVAL: Duration = Duration::from_secs(1);
/// The timeout of one call.
const CALL: Duration = Duration::from_secs(5);

pub(crate) struct Reconciler<K> {
    maps: Api<ConfigMap>,
    name: String,
    /// What the ConfigMap has; `None`: it was not read yet.
    kept: watch::Sender<Option<K>>,
    /// What to write, if it differs.
    wanted: watch::Receiver<Option<K>>,
    leads: watch::Receiver<bool>,
    diagnostics: Diagnostics,
    /// What is wrong with the ConfigMap, and the API server's messages for what it refuses.
    wrong: BTreeMap<Reason, String>,
    uid: String,
    /// The states of the ConfigMap, as it changes, without its content. It may be large, and the leader knows what it
    /// has written itself.
    states: BoxStream<'static, named_object::Seen<PartialObjectMeta<ConfigMap>>>,
    /// The last state.
    seen: Seen,
    /// Whether there is another state, which has to be read.
    is_outdated: bool,
    /// What was read or written last.
    last: K,
    /// When the next write may happen.
    next_write: Instant,
    backoff: Backoff,
}

enum Seen {
    Unknown,
    Missing,
    /// With its `resourceVersion`.
    There(String),
    /// A person must correct it: it is not overwritten.
    Broken,
}

impl<K: Content> Reconcile for Reconciler<K> {
    const GATHER: Duration = Duration::ZERO;

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            seen = self.states.next() => match seen.ok_or(Closed)? {
                Ok(map) => self.note(map.as_ref()),
                Err(error) => {
                    let refusal = format!("grant list and watch on the ConfigMap: {error}");
                    self.complain(Reason::ReadRefused, refusal);
                }
            },
            changed = self.leads.changed() => changed?,
            changed = self.wanted.changed() => changed?,
            () = self.kept.closed() => return Err(Closed),
        }
        Ok(())
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        if self.is_outdated
            && let Err(wait) = self.read_again().await
        {
            return Some(wait);
        }
        let is_written = || *self.wanted.borrow() == *self.kept.borrow();
        let is_due = match self.seen {
            // Who wants it may not have noticed yet.
            Seen::There(_) => !is_written(),
            Seen::Missing => true,
            Seen::Unknown | Seen::Broken => false,
        };
        let leads = *self.leads.borrow_and_update();
        if !is_due || !leads || self.wanted.borrow_and_update().is_none() {
            return None;
        }
        let rest = self.next_write.saturating_duration_since(Instant::now());
        if !rest.is_zero() {
            return Some(rest);
        }
        let wait = self.write().await;
        self.next_write = Instant::now() + wait;
        Some(wait)
    }
}

impl<K: Content> Reconciler<K> {
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
            kept,
            wanted,
            leads,
            diagnostics,
            wrong: BTreeMap::new(),
            uid: String::new(),
            seen: Seen::Unknown,
            is_outdated: false,
            last: Default::default(),
            next_write: Instant::now(),
            backoff: Backoff::of_the_api(),
        };
        (reconciler, receiver)
    }

    /// Notes that the ConfigMap has this state now. That of the last write is known already.
    fn note(&mut self, map: Option<&PartialObjectMeta<ConfigMap>>) {
        self.is_over(Reason::ReadRefused);
        let Some(map) = map else {
            return self.see(None);
        };
        let version = map.metadata.resource_version.as_ref();
        self.is_outdated = !matches!(&self.seen, Seen::There(known) if version == Some(known));
    }

    /// Reads the ConfigMap.
    ///
    /// # Errors
    /// How long to wait before it is tried again.
    async fn read_again(&mut self) -> Result<(), Duration> {
        // RBAC can grant this for a single name, like the watch.
        let only = ListParams::default().fields(&format!("metadata.name={}", self.name));
        match tokio::time::timeout(CALL, self.maps.list(&only)).await {
            Ok(Ok(found)) => {
                self.backoff.reset();
                self.is_outdated = false;
                self.see(found.items.into_iter().next());
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

    fn see(&mut self, map: Option<ConfigMap>) {
        self.uid = map
            .as_ref()
            .and_then(|map| map.metadata.uid.clone())
            .unwrap_or_default();
        let version = map.as_ref().map(|map| map.metadata.resource_version.clone());
        let content = map.map(|map| K::parse(&map.data.unwrap_or_default()));
        match (content, version) {
            (Some(Ok(content)), Some(version)) => {
                self.seen = Seen::There(version.unwrap_or_default());
                self.is_over(Reason::Invalid);
                self.last = content.clone();
                self.tell(content);
            }
            // A replica that starts now does not know what Envoys have. Without it, sessions would end or reach other
            // pods, so it waits.
            (Some(Err(error)), _) => {
                self.seen = Seen::Broken;
                self.complain(Reason::Invalid, format!("{error}; {}", K::ADVICE));
            }
            _ => {
                self.seen = Seen::Missing;
                self.last = Default::default();
                self.is_over(Reason::Invalid);
                // A deleted ConfigMap is created again with the next change.
                self.kept.send_if_modified(|kept| {
                    let is_first = kept.is_none();
                    kept.get_or_insert_default();
                    is_first
                });
            }
        }
    }

    /// Reports what a person must correct.
    fn complain(&mut self, reason: Reason, message: String) {
        if self.wrong.get(&reason) != Some(&message) {
            tracing::error!(configmap = self.name, reason = reason.name(), "{message}");
            self.wrong.insert(reason, message);
        }
        self.set_diagnostics();
    }

    /// Takes a report back.
    fn is_over(&mut self, reason: Reason) {
        self.wrong.remove(&reason);
        self.set_diagnostics();
    }

    fn set_diagnostics(&self) {
        let diagnostic = |(reason, message): (&Reason, &String)| Diagnostic {
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

    fn tell(&self, content: K) {
        self.kept.send_if_modified(|kept| {
            let changed = kept.as_ref() != Some(&content);
            *kept = Some(content);
            changed
        });
    }

    /// Writes. Returns how long to wait before the next write.
    async fn write(&mut self) -> Duration {
        let Some(content) = self.wanted.borrow_and_update().clone() else {
            return INTERVAL;
        };
        let changes = content.changes(&self.last);
        let (maps, name) = (&self.maps, self.name.as_str());
        let call = async {
            match &self.seen {
                Seen::There(version) => patch(maps, name, version, &changes).await,
                _ => create(maps, name, &changes).await,
            }
        };
        match tokio::time::timeout(CALL, call).await {
            Ok(Ok(version)) => {
                self.backoff.reset();
                tracing::info!(configmap = self.name, entries = content.count(), "written");
                self.seen = Seen::There(version);
                self.is_over(Reason::WriteRefused);
                self.last = content.clone();
                self.tell(content);
                INTERVAL
            }
            // The watch brings what somebody else wrote.
            Ok(Err(Error::Api(status))) if status.code == 409 => INTERVAL,
            failed => {
                let error = match failed {
                    Ok(Err(error)) => {
                        if let Some(refusal) = refusal(&error) {
                            self.complain(Reason::WriteRefused, refusal);
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

/// Changes these fields of a ConfigMap, unless somebody else has written since `version`. Returns its new
/// `resourceVersion`: the rest of the answer would be all that it has.
async fn patch(maps: &Api<ConfigMap>, name: &str, version: &str, fields: &Changes) -> Result<String, Error> {
    let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "data": fields}));
    let written = maps.patch_metadata(name, &PatchParams::default(), &patch).await?;
    Ok(written.metadata.resource_version.unwrap_or_default())
}

async fn create(maps: &Api<ConfigMap>, name: &str, fields: &Changes) -> Result<String, Error> {
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

    impl Content for Text {
        const WHAT: &'static str = "text";
        const ADVICE: &'static str = "";

        fn parse(fields: &Fields) -> Result<Self, String> {
            Ok(Self(fields.get("text").cloned().unwrap_or_default()))
        }

        fn changes(&self, _: &Self) -> Changes {
            BTreeMap::from([("text".to_owned(), Some(self.0.clone()))])
        }

        fn count(&self) -> usize {
            1
        }
    }

    /// An API server that takes every write, and counts all calls.
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
        let (mut reconciler, _kept) = Reconciler::new(&client, "limpet", "kept", wanted, leads, Diagnostics::new());
        reconciler.see(None);
        for (wants, expected) in [("a", 1), ("b", 2)] {
            wanting.send_replace(text(wants));
            for _ in 0..3 {
                reconciler.reconcile().await;
                reconciler.next_write = Instant::now();
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
            Reconciler::<Text>::new(&client, "limpet", "kept", wanted, leads, Diagnostics::new());
        reconciler.seen = Seen::There("7".to_owned());
        for (version, expected) in [("7", 0), ("8", 1)] {
            reconciler.note(Some(&state(version)));
            reconciler.reconcile().await;
            assert_eq!(calls.load(Ordering::Relaxed), expected, "version {version}");
        }
    }
}
