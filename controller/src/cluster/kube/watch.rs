use std::fmt::Debug;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use futures::{Stream, StreamExt as _};
use kube::core::{ApiResource, DynamicResourceScope};
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::backoff::Backoff;
use super::decode::{self, Content, Entry, Form};
use super::item::Item;
use super::kind::KindExt as _;
use super::slice::{self, RawSlice};
use limpet_api::{Kind, ObjectName};
use limpet_model::{Authorities, Certificate};

/// How many seconds a watch lasts before it is restarted where it ended, as in client-go.
const WATCH_SECONDS: Range<u32> = 300..600;

/// Another time for each watch, so that they do not all begin again at once.
pub(super) fn watch_seconds() -> u32 {
    let Range { start, end } = WATCH_SECONDS;
    start + getrandom::u32().unwrap_or_default() % (end - start)
}

#[derive(Debug)]
pub(crate) enum Update {
    /// All objects of a kind in a namespace, or in all namespaces.
    Listed(Kind, Option<Arc<str>>, Vec<Entry>),
    /// An object was created or changed.
    Applied(Kind, Box<Entry>),
    /// An object was deleted.
    Deleted(Kind, ObjectName),
    /// A kind is not served, so it has no objects.
    NotServed(Kind),
    /// What a Secret holds; `None`: it does not exist.
    Secret(ObjectName, Option<Result<Certificate, String>>),
    /// The authorities in a ConfigMap; `None`: it does not exist.
    ConfigMap(ObjectName, Option<Result<Authorities, String>>),
    /// The addresses of a Node; `None`: it does not exist.
    Node(ObjectName, Option<Result<Vec<String>, String>>),
    /// A kind is served and watched in this version.
    Served(Kind, ApiResource),
}

/// Where updates go. Bounded, so that lists are read no faster than the store takes them in.
pub(super) type Updates = mpsc::Sender<Update>;

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
    follow(watcher(api, config), scope, updates, read).await;
}

async fn follow<T, F, S>(events: S, scope: &Scope, updates: &Updates, read: F)
where
    T: Resource<DynamicType = ApiResource>,
    F: Fn(T) -> Option<Entry>,
    S: Stream<Item = watcher::Result<watcher::Event<T>>>,
{
    let kind = scope.kind;
    let kind_name = kind.as_str();
    let namespace = scope.namespace.as_deref().unwrap_or("*");
    let mut events = pin!(events);
    let mut backoff = Backoff::of_the_api();
    let mut listed = Vec::new();
    let mut failing = false;
    while let Some(event) = events.next().await {
        let update = match event {
            Ok(watcher::Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(watcher::Event::InitApply(item)) => {
                listed.extend(read(item));
                continue;
            }
            Ok(watcher::Event::InitDone) => Update::Listed(kind, scope.namespace.clone(), std::mem::take(&mut listed)),
            Ok(watcher::Event::Apply(item)) => {
                let name = name_of(&item);
                match read(item) {
                    Some(entry) => Update::Applied(kind, Box::new(entry)),
                    None => Update::Deleted(kind, name),
                }
            }
            Ok(watcher::Event::Delete(item)) => Update::Deleted(kind, name_of(&item)),
            Err(error) => {
                listed.clear();
                // Every watch ends now and then, so the first failure is only a debug message.
                if failing {
                    let message = "cannot watch; what was read last stays in use";
                    tracing::warn!(kind = kind_name, namespace, %error, "{message}");
                } else {
                    tracing::debug!(kind = kind_name, namespace, %error, "watch ended");
                }
                failing = true;
                backoff.wait().await;
                continue;
            }
        };
        if failing {
            tracing::info!(kind = kind_name, namespace, "watching again");
            failing = false;
        }
        backoff.reset();
        if updates.send(update).await.is_err() {
            return;
        }
    }
}

fn name_of<T: Resource<DynamicType = ApiResource>>(item: &T) -> ObjectName {
    let meta = item.meta();
    ObjectName::new(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}
