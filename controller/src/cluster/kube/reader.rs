use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::Client;
use kube::core::ApiResource;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::backoff::Backoff;
use super::definitions::Definitions;
use super::discovery::{self, ServedKinds};
use super::references::{ReferenceChoice, ReferencedObject};
use super::update::{StoreUpdate, UpdateSender};
use super::watch::{self as objects, WatchScope};
use super::{config_maps, nodes, pods, secrets};
use limpet_api::Kind;
use limpet_model::{ContourSettings, Settings};

/// How many answers in a row must lack a kind before its objects count as deleted.
const ABSENT_ANSWERS: u32 = 2;
/// Few, so that a list is read no faster than the store takes it in.
const UPDATES: usize = 64;

#[derive(Debug, Clone)]
pub(crate) struct WatchSettings {
    /// Our `controllerName`.
    pub(crate) controller: Arc<str>,
    /// Whether we serve the Gateways, not another control plane. Then certificates, authorities and policies for TLS
    /// towards backends are read as well.
    pub(crate) serves: bool,
    /// All if empty.
    pub(crate) namespaces: Vec<Arc<str>>,
    /// The controller's own, if it keeps Envoys: their Services with endpoints, and the parameters of classes, may be
    /// there.
    pub(crate) own_namespace: Option<Arc<str>>,
    pub(crate) contour: Option<ContourSettings>,
    /// Whether the metadata of pods are read.
    pub(crate) pods: bool,
}

impl WatchSettings {
    /// All namespaces, without watches of pods.
    pub(crate) fn everywhere(settings: &Settings) -> Self {
        Self {
            controller: Arc::from(settings.controller_name.as_str()),
            serves: settings.serves(),
            namespaces: Vec::new(),
            own_namespace: None,
            contour: settings.contour.clone(),
            pods: false,
        }
    }

    /// Another control plane follows policies for TLS itself, and has its own Envoys.
    pub(crate) fn reads(&self, kind: Kind) -> bool {
        match kind {
            Kind::BackendTlsPolicy | Kind::EnvoyDeployment => self.serves,
            Kind::IngressRoute | Kind::TlsCertificateDelegation => self.contour.is_some(),
            _ => true,
        }
    }

    pub(super) fn kinds(&self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.reads(*kind)).collect()
    }

    /// Those with a watch each for a kind. `None`: one watch for all namespaces.
    pub(super) fn namespaces_of(&self, kind: Kind) -> Vec<Option<Arc<str>>> {
        if !kind.is_namespaced() || self.namespaces.is_empty() {
            return vec![None];
        }
        let own = self
            .own_namespace
            .iter()
            .filter(|_| matches!(kind, Kind::EndpointSlice | Kind::EnvoyDeployment | Kind::Service));
        let own = own.filter(|own| !self.namespaces.contains(own));
        self.namespaces.iter().chain(own).cloned().map(Some).collect()
    }

    /// As [`Self::namespaces_of`], for pods.
    pub(super) fn namespaces_of_pods(&self) -> Vec<Option<Arc<str>>> {
        match (self.pods, &*self.namespaces) {
            (false, _) => Vec::new(),
            (true, []) => vec![None],
            (true, names) => names.iter().cloned().map(Some).collect(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct ObjectReader {
    updates: mpsc::Receiver<StoreUpdate>,
    references: watch::Sender<BTreeMap<ReferencedObject, ReferenceChoice>>,
    _tasks: JoinSet<()>,
}

impl ObjectReader {
    pub(crate) fn start(client: &Client, watched: WatchSettings) -> Self {
        let (sender, updates) = mpsc::channel(UPDATES);
        let (sending, wanted) = watch::channel(BTreeMap::new());
        let mut tasks = JoinSet::new();
        for namespace in watched.namespaces_of_pods() {
            tasks.spawn(pods::watch(
                client.clone(),
                Arc::clone(&watched.controller),
                namespace,
                sender.clone(),
            ));
        }
        tasks.spawn(kinds(client.clone(), watched, sender.clone()));
        tasks.spawn(single_objects(client.clone(), wanted, sender));
        Self {
            updates,
            references: sending,
            _tasks: tasks,
        }
    }

    pub(crate) async fn next(&mut self) -> Option<StoreUpdate> {
        self.updates.recv().await
    }

    /// A further update, if one is waiting.
    pub(crate) fn ready(&mut self) -> Option<StoreUpdate> {
        self.updates.try_recv().ok()
    }

    /// Sets the single objects to read.
    pub(crate) fn read_wanted(&self, wanted: &BTreeMap<ReferencedObject, ReferenceChoice>) {
        self.references.send_if_modified(|known| {
            let changes = known != wanted;
            if changes {
                known.clone_from(wanted);
            }
            changes
        });
    }
}

/// Watches every served kind for as long as it is served.
async fn kinds(client: Client, watched: WatchSettings, updates: UpdateSender) {
    let mut backoff = Backoff::of_the_api();
    let mut definitions = Definitions::follow(&client);
    let mut running = RunningWatches {
        client,
        watched,
        updates,
        tasks: JoinSet::new(),
        running: BTreeMap::new(),
        absent: BTreeMap::new(),
        unreadable: BTreeSet::new(),
    };
    let mut failed = None;
    loop {
        match discovery::discover(&running.client).await {
            Ok(served) => {
                backoff.reset();
                failed = None;
                if running.follow(&served).await.is_none() {
                    return;
                }
                definitions.changed().await;
            }
            Err(error) => {
                let error = error.to_string();
                if failed.as_ref() != Some(&error) {
                    tracing::warn!(%error, "cannot ask the API server which kinds it serves");
                }
                failed = Some(error);
                backoff.wait().await;
            }
        }
    }
}

struct RunningWatches {
    client: Client,
    watched: WatchSettings,
    updates: UpdateSender,
    tasks: JoinSet<()>,
    running: BTreeMap<Kind, (ApiResource, Vec<AbortHandle>)>,
    /// How many answers in a row lacked each kind.
    absent: BTreeMap<Kind, u32>,
    /// The kinds only in other versions that were reported.
    unreadable: BTreeSet<Kind>,
}

impl RunningWatches {
    /// `None`: the receiver of updates is gone.
    async fn follow(&mut self, served: &ServedKinds) -> Option<()> {
        for kind in self.watched.kinds() {
            match served.get(&kind) {
                Some(Some(resource)) => self.serve(kind, resource).await?,
                Some(None) => self.report_unreadable(kind),
                None => self.record_absence(kind).await?,
            }
        }
        Some(())
    }

    async fn serve(&mut self, kind: Kind, resource: &ApiResource) -> Option<()> {
        self.absent.remove(&kind);
        self.unreadable.remove(&kind);
        if self.running.get(&kind).is_some_and(|(known, _)| known == resource) {
            return Some(());
        }
        tracing::info!(kind = kind.as_str(), version = resource.api_version, "watching");
        self.stop(kind);
        self.updates
            .send(StoreUpdate::Served(kind, resource.clone()))
            .await
            .ok()?;
        let handles = self.watched.namespaces_of(kind).into_iter().map(|namespace| {
            let scope = WatchScope {
                kind,
                resource: resource.clone(),
                namespace,
            };
            let controller = Arc::clone(&self.watched.controller);
            let watch = objects::watch(self.client.clone(), scope, controller, self.updates.clone());
            self.tasks.spawn(watch)
        });
        let handles = handles.collect();
        self.running.insert(kind, (resource.clone(), handles));
        Some(())
    }

    /// Keeps what is known of the kind: at the start nothing, so nothing is served.
    fn report_unreadable(&mut self, kind: Kind) {
        if self.unreadable.insert(kind) {
            let kind = kind.as_str();
            tracing::warn!(
                kind,
                "served in no version that can be read; what was read last stays in use"
            );
        }
    }

    async fn record_absence(&mut self, kind: Kind) -> Option<()> {
        let answers = self.absent.entry(kind).or_default();
        *answers = answers.saturating_add(1);
        let answers = *answers;
        let was_there = self.running.contains_key(&kind);
        if (was_there && answers == ABSENT_ANSWERS) || (!was_there && answers == 1) {
            tracing::info!(kind = kind.as_str(), "not served");
            self.stop(kind);
            self.updates.send(StoreUpdate::NotServed(kind)).await.ok()?;
        }
        Some(())
    }

    fn stop(&mut self, kind: Kind) {
        for handle in self.running.remove(&kind).into_iter().flat_map(|(_, handles)| handles) {
            handle.abort();
        }
        // Drops the results of tasks that have ended.
        while self.tasks.try_join_next().is_some() {}
    }
}

async fn single_objects(
    client: Client,
    mut wanted: watch::Receiver<BTreeMap<ReferencedObject, ReferenceChoice>>,
    updates: UpdateSender,
) {
    let mut tasks = JoinSet::new();
    let mut running: BTreeMap<ReferencedObject, (ReferenceChoice, AbortHandle)> = BTreeMap::new();
    loop {
        let objects = wanted.borrow_and_update().clone();
        running.retain(|object, (since, handle)| {
            let stays = objects.get(object) == Some(since);
            if !stays {
                handle.abort();
            }
            stays
        });
        for (object, since) in objects {
            running.entry(object.clone()).or_insert_with(|| {
                let (client, updates) = (client.clone(), updates.clone());
                let handle = match object {
                    ReferencedObject::Secret(name) => tasks.spawn(secrets::watch(client, name, updates)),
                    ReferencedObject::ConfigMap(name) => tasks.spawn(config_maps::watch(client, name, updates)),
                    ReferencedObject::Node(name) => tasks.spawn(nodes::watch(client, name, updates)),
                };
                (since, handle)
            });
        }
        while tasks.try_join_next().is_some() {}
        if wanted.changed().await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::{Request, Response};
    use kube::client::Body;
    use limpet_api::ObjectName;

    use super::*;

    /// An API server without ConfigMaps, in which nothing changes.
    async fn answer(request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
            std::future::pending::<()>().await;
        }
        let list = r#"{"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}"#;
        Ok(Response::new(Body::from(list.as_bytes().to_vec())))
    }

    #[tokio::test]
    async fn an_object_that_is_wanted_again_is_read_again() {
        let client = Client::new(tower::service_fn(answer), "default");
        let (sender, mut updates) = mpsc::channel(UPDATES);
        let (sending, wanted) = watch::channel(BTreeMap::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(single_objects(client, wanted, sender));
        let mut is_read = async || {
            let update = tokio::time::timeout(Duration::from_secs(10), updates.recv()).await;
            matches!(update, Ok(Some(StoreUpdate::ConfigMap(_, None))))
        };
        let object = ReferencedObject::ConfigMap(ObjectName::new("shop", "authorities"));
        let mut choice = ReferenceChoice::default();
        sending.send_replace(BTreeMap::from([(object.clone(), choice)]));
        assert!(is_read().await);
        // The reader does not see the drop, because the object is wanted again at once.
        sending.send_replace(BTreeMap::new());
        choice.next();
        sending.send_replace(BTreeMap::from([(object, choice)]));
        assert!(is_read().await, "what the store forgot is not read again");
    }

    /// As the API server does to a field selector that it cannot parse.
    async fn refuse_commas(request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
        let query = request.uri().query().unwrap_or_default();
        if !query.contains("a%2Cb") {
            return answer(request).await;
        }
        let status = serde_json::json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 400});
        let body = Body::from(status.to_string().into_bytes());
        Ok(Response::builder().status(400).body(body).unwrap())
    }

    /// All builds wait for an answer.
    #[tokio::test]
    async fn a_name_that_no_object_has_was_never_answered() {
        let client = Client::new(tower::service_fn(refuse_commas), "default");
        let (sender, mut updates) = mpsc::channel(UPDATES);
        let (sending, wanted) = watch::channel(BTreeMap::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(single_objects(client, wanted, sender));
        let name = ReferencedObject::Secret(ObjectName::new("shop", "a,b"));
        sending.send_replace(BTreeMap::from([(name, ReferenceChoice::default())]));
        let update = tokio::time::timeout(Duration::from_secs(20), updates.recv()).await;
        assert!(matches!(update, Ok(Some(_))), "{update:?}");
    }
}
