use std::fmt::Debug;
use std::sync::Arc;

use kube::core::{ApiResource, DynamicResourceScope};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::decode::{self, DecodedObject, KindForm, ObjectContent};
use super::follow::{WatchDecoder, follow, watch_seconds};
use super::item::WatchItem;
use super::kind::KindExt as _;
use super::slice::{self, RawSlice};
use super::update::{StoreUpdate, UpdateSender};
use limpet_api::{Kind, ObjectName};

/// A kind, in one namespace or in all.
#[derive(Debug, Clone)]
pub(super) struct WatchScope {
    pub(super) kind: Kind,
    pub(super) resource: ApiResource,
    pub(super) namespace: Option<Arc<str>>,
}

pub(super) async fn watch(client: Client, scope: WatchScope, controller: Arc<str>, updates: UpdateSender) {
    let kind = scope.kind;
    match decode::form(kind) {
        KindForm::Slice => run(client, &scope, &updates, slice_entry).await,
        KindForm::Item(form) => {
            let read = |item: WatchItem| Some(decode::entry(kind, form, item, &controller));
            run(client, &scope, &updates, read).await;
        }
    }
}

/// `None`: it belongs to no Service.
pub(super) fn slice_entry(item: RawSlice) -> Option<DecodedObject> {
    let name = ObjectName::new(
        item.metadata.namespace.as_deref().unwrap_or_default(),
        item.metadata.name.as_deref().unwrap_or_default(),
    );
    let slice = slice::slice(item)?;
    Some(DecodedObject {
        name,
        uid: String::new(),
        version: String::new(),
        status: None,
        content: ObjectContent::Slice(slice),
    })
}

struct WatchedObjects<'a, F> {
    scope: &'a WatchScope,
    read: F,
}

impl<T, F: Fn(T) -> Option<DecodedObject>> WatchDecoder<T> for WatchedObjects<'_, F> {
    type Entry = DecodedObject;

    fn kind(&self) -> &'static str {
        self.scope.kind.as_str()
    }

    fn read(&self, item: T) -> Option<DecodedObject> {
        (self.read)(item)
    }

    fn listed(&self, entries: Vec<DecodedObject>) -> StoreUpdate {
        StoreUpdate::Listed(self.scope.kind, self.scope.namespace.clone(), entries)
    }

    fn applied(&self, entry: DecodedObject) -> StoreUpdate {
        StoreUpdate::Applied(self.scope.kind, Box::new(entry))
    }

    fn deleted(&self, name: ObjectName) -> StoreUpdate {
        StoreUpdate::Deleted(self.scope.kind, name)
    }
}

async fn run<T, F>(client: Client, scope: &WatchScope, updates: &UpdateSender, read: F)
where
    T: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
    F: Fn(T) -> Option<DecodedObject>,
{
    let api: Api<T> = match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &scope.resource),
        None => Api::all_with(client, &scope.resource),
    };
    let config = watcher::Config::default()
        .timeout(watch_seconds())
        .page_size(scope.kind.page_size());
    let namespace = scope.namespace.as_deref();
    follow(watcher(api, config), namespace, updates, WatchedObjects { scope, read }).await;
}
