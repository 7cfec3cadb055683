use std::fmt::Debug;
use std::sync::Arc;

use kube::core::{ApiResource, DynamicResourceScope};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use super::decode::{self, Content, Entry, Form};
use super::follow::{Reading, follow, watch_seconds};
use super::item::Item;
use super::kind::KindExt as _;
use super::slice::{self, RawSlice};
use super::update::{Update, Updates};
use limpet_api::{Kind, ObjectName};

/// What one watch covers: a kind, in one namespace or in all.
#[derive(Debug, Clone)]
pub(super) struct Scope {
    pub(super) kind: Kind,
    pub(super) resource: ApiResource,
    pub(super) namespace: Option<Arc<str>>,
}

/// Watches until the receiver of updates is gone.
pub(super) async fn watch(client: Client, scope: Scope, controller: Arc<str>, updates: Updates) {
    let kind = scope.kind;
    match decode::form(kind) {
        Form::Slice => run(client, &scope, &updates, slice_entry).await,
        Form::Item(form) => {
            let read = |item: Item| Some(decode::entry(kind, form, item, &controller));
            run(client, &scope, &updates, read).await;
        }
    }
}

/// The slice, if it belongs to a Service.
pub(super) fn slice_entry(item: RawSlice) -> Option<Entry> {
    let name = ObjectName::new(
        item.metadata.namespace.as_deref().unwrap_or_default(),
        item.metadata.name.as_deref().unwrap_or_default(),
    );
    let slice = slice::slice(item)?;
    Some(Entry {
        name,
        uid: String::new(),
        version: String::new(),
        status: None,
        content: Content::Slice(slice),
    })
}

/// Objects of a [`Kind`].
struct Objects<'a, F> {
    scope: &'a Scope,
    read: F,
}

impl<T, F: Fn(T) -> Option<Entry>> Reading<T> for Objects<'_, F> {
    type Entry = Entry;

    fn kind(&self) -> &'static str {
        self.scope.kind.as_str()
    }

    fn read(&self, item: T) -> Option<Entry> {
        (self.read)(item)
    }

    fn listed(&self, entries: Vec<Entry>) -> Update {
        Update::Listed(self.scope.kind, self.scope.namespace.clone(), entries)
    }

    fn applied(&self, entry: Entry) -> Update {
        Update::Applied(self.scope.kind, Box::new(entry))
    }

    fn deleted(&self, name: ObjectName) -> Update {
        Update::Deleted(self.scope.kind, name)
    }
}

async fn run<T, F>(client: Client, scope: &Scope, updates: &Updates, read: F)
where
    T: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
    F: Fn(T) -> Option<Entry>,
{
    let api: Api<T> = match &scope.namespace {
        Some(namespace) => Api::namespaced_with(client, namespace, &scope.resource),
        None => Api::all_with(client, &scope.resource),
    };
    let config = watcher::Config::default()
        .timeout(watch_seconds())
        .page_size(scope.kind.page_size());
    let namespace = scope.namespace.as_deref();
    follow(watcher(api, config), namespace, updates, Objects { scope, read }).await;
}
