use std::sync::Arc;

use kube::runtime::watcher;
use kube::{Api, Client};

use super::follow::{WatchDecoder, follow, name_of, watch_seconds};
use super::pod::{PodMeta, RawPod, writer_of_costs};
use super::update::{StoreUpdate, UpdateSender};
use limpet_api::ObjectName;

/// Watches pods. `controller`: our name. `namespace`: `None` for all.
pub(super) async fn watch(client: Client, controller: Arc<str>, namespace: Option<Arc<str>>, updates: UpdateSender) {
    let api: Api<RawPod> = match &namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let config = watcher::Config::default().timeout(watch_seconds());
    let name = namespace.clone();
    let writer = writer_of_costs(&controller);
    let pods = PodReader { namespace, writer };
    follow(watcher(api, config), name.as_deref(), &updates, pods).await;
}

struct PodReader {
    namespace: Option<Arc<str>>,
    writer: String,
}

impl WatchDecoder<RawPod> for PodReader {
    type Entry = (ObjectName, PodMeta);

    fn kind(&self) -> &'static str {
        "Pod"
    }

    fn read(&self, item: RawPod) -> Option<Self::Entry> {
        PodMeta::read(&item, &self.writer).map(|pod| (name_of(&item), pod))
    }

    fn listed(&self, entries: Vec<Self::Entry>) -> StoreUpdate {
        StoreUpdate::Pods(self.namespace.clone(), entries)
    }

    fn applied(&self, (name, pod): Self::Entry) -> StoreUpdate {
        StoreUpdate::Pod(name, Some(pod))
    }

    fn deleted(&self, name: ObjectName) -> StoreUpdate {
        StoreUpdate::Pod(name, None)
    }

    fn refused(&self) -> Option<StoreUpdate> {
        Some(StoreUpdate::NoPods(self.namespace.clone()))
    }

    fn meaning(&self) -> &'static str {
        "annotations of pods are not followed: grant list and watch on pods, or set sessions.enabled to false"
    }
}
