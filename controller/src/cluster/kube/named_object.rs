//! Follows one object by its name. RBAC can grant `list` and `watch` for a name, but for no other selector.

use std::fmt::Debug;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use kube::core::{ApiResource, DynamicResourceScope, Status};
use kube::runtime::watcher;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, Error, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::backoff::Backoff;
use super::update::{StoreUpdate, UpdateSender};
use limpet_api::ObjectName;

/// `Ok(None)`: it does not exist. `Err`: the API server's message if the right to read it is missing.
pub(crate) type ObservedObject<K> = Result<Option<K>, String>;

/// Yields every state of the object, without end. Retries after errors, and yields only that a right is missing.
pub(crate) fn follow<K>(
    api: Api<K>,
    kind: &'static str,
    name: &str,
) -> impl Stream<Item = ObservedObject<K>> + Send + use<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let following = ObjectFollower {
        changes: watch_object(api.clone(), name).boxed(),
        api,
        kind,
        name: name.to_owned(),
        backoff: Backoff::of_the_api(),
        failed: false,
        forbidden: false,
        failure: None,
    };
    stream::unfold(following, |mut following| async move {
        let seen = following.next().await?;
        Some((seen, following))
    })
}

/// Follows an object of the core group. `kind`: its kind and plural.
pub(super) async fn send<K>(
    client: Client,
    (kind, plural): (&'static str, &str),
    name: &ObjectName,
    updates: &UpdateSender,
    update: impl Fn(ObservedObject<K>) -> StoreUpdate,
) where
    K: Resource<DynamicType = ApiResource, Scope = DynamicResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + 'static,
{
    let resource = ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let api: Api<K> = if name.namespace.is_empty() {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, &name.namespace, &resource)
    };
    let mut states = pin!(follow(api, kind, &name.name));
    while let Some(seen) = states.next().await {
        if updates.send(update(seen)).await.is_err() {
            return;
        }
    }
}

/// How long the API server takes at most to refuse a watch.
const SETTLES: Duration = Duration::from_secs(1);

struct ObjectFollower<K> {
    api: Api<K>,
    changes: BoxStream<'static, watcher::Result<Option<K>>>,
    kind: &'static str,
    name: String,
    backoff: Backoff,
    failed: bool,
    /// Whether a right is missing, or no object can have the name.
    forbidden: bool,
    /// The last error, so that it is logged once.
    failure: Option<String>,
}

impl<K> ObjectFollower<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    async fn next(&mut self) -> Option<ObservedObject<K>> {
        loop {
            if std::mem::take(&mut self.failed) {
                self.backoff.wait().await;
                if self.forbidden {
                    // A watch that is permitted after it was refused is silent until something changes. A list is not.
                    self.changes = watch_object(self.api.clone(), &self.name).boxed();
                }
            }
            match self.change().await? {
                Ok(object) => {
                    self.backoff.reset();
                    self.forbidden = false;
                    self.failure = None;
                    return Some(Ok(object));
                }
                Err(error) => {
                    self.failed = true;
                    let failure = error.to_string();
                    if self.failure.as_ref() != Some(&failure) {
                        tracing::warn!(kind = self.kind, name = self.name, error = %failure, "cannot be watched");
                        self.failure = Some(failure.clone());
                    }
                    if is_forbidden(&error) || is_bad(&error) {
                        self.forbidden = true;
                        return Some(Err(failure));
                    }
                }
            }
        }
    }

    /// The next state. The right to list may exist without the right to watch, which is refused after the list.
    async fn change(&mut self) -> Option<watcher::Result<Option<K>>> {
        let change = self.changes.next().await?;
        if self.forbidden
            && change.is_ok()
            && let Ok(next) = timeout(SETTLES, self.changes.next()).await
        {
            return next;
        }
        Some(change)
    }
}

pub(super) fn is_forbidden(error: &watcher::Error) -> bool {
    status_of(error).is_some_and(Status::is_forbidden)
}

/// Whether the request itself is wrong, such as a name that no selector can have.
fn is_bad(error: &watcher::Error) -> bool {
    const BAD_REQUEST: u16 = 400;
    status_of(error).is_some_and(|status| status.code == BAD_REQUEST)
}

fn status_of(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(Error::Api(status))
        | watcher::Error::WatchStartFailed(Error::Api(status))
        | watcher::Error::WatchFailed(Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}
