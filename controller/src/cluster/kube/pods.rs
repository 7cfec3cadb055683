use std::sync::Arc;

use kube::runtime::watcher;
use kube::{Api, Client};

use super::follow::{Reading, follow, name_of, watch_seconds};
use super::pod::{PodMeta, RawPod, writer_of_costs};
use super::update::{Update, Updates};
use limpet_api::ObjectName;

/// Watches the pods of a namespace, or of all of them, until the receiver of updates is gone. `controller` is the name
/// of this one.
pub(super) async fn watch(client: Client, controller: Arc<str>, namespace: Option<Arc<str>>, updates: Updates) {
    let api: Api<RawPod> = match &namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let config = watcher::Config::default().timeout(watch_seconds());
    let name = namespace.clone();
    let writer = writer_of_costs(&controller);
    let pods = Pods { namespace, writer };
    follow(watcher(api, config), name.as_deref(), &updates, pods).await;
}

struct Pods {
    /// `None`: all of them.
    namespace: Option<Arc<str>>,
    /// Who writes costs of ours.
    writer: String,
}

impl Reading<RawPod> for Pods {
    type Entry = (ObjectName, PodMeta);

    fn kind(&self) -> &'static str {
        "Pod"
    }

    fn read(&self, item: RawPod) -> Option<Self::Entry> {
        PodMeta::read(&item, &self.writer).map(|pod| (name_of(&item), pod))
    }

    fn listed(&self, entries: Vec<Self::Entry>) -> Update {
        Update::Pods(self.namespace.clone(), entries)
    }

    fn applied(&self, (name, pod): Self::Entry) -> Update {
        Update::Pod(name, Some(pod))
    }

    fn deleted(&self, name: ObjectName) -> Update {
        Update::Pod(name, None)
    }

    fn refused(&self) -> Option<Update> {
        Some(Update::NoPods(self.namespace.clone()))
    }

    fn meaning(&self) -> &'static str {
        "annotations of pods are not followed: grant list and watch on pods, or set sessions.enabled to false"
    }
}
