//! Keeps the list of fences in a ConfigMap.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client, Error};
use tokio::sync::{mpsc, watch};

use crate::model::{MANAGED_BY, MANAGER};
use crate::sources::kube::Backoff;

use super::list::List;

/// The field of the ConfigMap.
const FIELD: &str = "fences.json";
/// The list is written so often at the most: each time, every Envoy sets up the filter again.
const INTERVAL: Duration = Duration::from_secs(1);
/// How long one call may last.
const CALL: Duration = Duration::from_secs(5);

/// Keeps what is wanted, and tells what is kept.
pub(crate) struct Keeper {
    maps: Api<ConfigMap>,
    name: String,
    /// What is kept; `None`: that was not read yet.
    kept: watch::Sender<Option<List>>,
    /// What is to be kept, where that is something else.
    wanted: watch::Receiver<Option<List>>,
    leads: watch::Receiver<bool>,
    /// As it was seen last.
    seen: Seen,
    backoff: Backoff,
}

enum Seen {
    Unknown,
    Missing,
    There(Box<ConfigMap>),
    /// It is for a person to put it in order: it is not written over.
    Broken,
}

impl Keeper {
    /// Of the ConfigMap of this name.
    pub(crate) fn new(
        client: &Client,
        namespace: &str,
        name: &str,
        wanted: watch::Receiver<Option<List>>,
        leads: watch::Receiver<bool>,
    ) -> (Self, watch::Receiver<Option<List>>) {
        let (kept, receiver) = watch::channel(None);
        let keeper = Self {
            maps: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
            kept,
            wanted,
            leads,
            seen: Seen::Unknown,
            backoff: Backoff::of_the_api(),
        };
        (keeper, receiver)
    }

    /// Goes on until it is dropped, or nobody listens any more.
    pub(crate) async fn run(mut self) {
        let (sender, mut maps) = mpsc::channel(4);
        let following = tokio::spawn(follow(self.maps.clone(), self.name.clone(), sender));
        let mut next = Instant::now();
        loop {
            let is_due = *self.leads.borrow_and_update() && self.wanted.borrow_and_update().is_some();
            let writes = is_due && matches!(self.seen, Seen::Missing | Seen::There(_));
            tokio::select! {
                map = maps.recv() => match map {
                    Some(map) => self.see(map),
                    None => break,
                },
                changed = self.leads.changed() => if changed.is_err() { break },
                changed = self.wanted.changed() => if changed.is_err() { break },
                () = tokio::time::sleep_until(next.into()), if writes => {
                    next = Instant::now() + self.write().await;
                }
                () = self.kept.closed() => break,
            }
        }
        following.abort();
    }

    fn see(&mut self, map: Option<ConfigMap>) {
        let text = map
            .as_ref()
            .map(|map| map.data.as_ref().and_then(|data| data.get(FIELD)));
        match (text.map(|text| List::parse(text.map_or("[]", String::as_str))), map) {
            (Some(Ok(list)), Some(map)) => {
                self.seen = Seen::There(Box::new(map));
                self.tell(list);
            }
            (Some(Err(error)), _) => {
                tracing::error!(
                    configmap = self.name,
                    "data[{FIELD}]: {error}; the fences that were there before stay"
                );
                self.seen = Seen::Broken;
                self.kept
                    .send_if_modified(|kept| kept.is_none() && kept.insert(List::default()).len() == 0);
            }
            _ => {
                self.seen = Seen::Missing;
                // One that is gone comes back with the next change.
                self.kept
                    .send_if_modified(|kept| kept.is_none() && kept.insert(List::default()).len() == 0);
            }
        }
    }

    fn tell(&self, list: List) {
        self.kept.send_if_modified(|kept| {
            let changed = kept.as_ref() != Some(&list);
            *kept = Some(list);
            changed
        });
    }

    /// Writes what is wanted. How long to wait until the next time.
    async fn write(&mut self) -> Duration {
        let Some(list) = self.wanted.borrow_and_update().clone() else {
            return INTERVAL;
        };
        let data = BTreeMap::from([(FIELD.to_owned(), list.text())]);
        let post = PostParams::default();
        let call = async {
            if let Seen::There(known) = &self.seen {
                let mut map = ConfigMap::clone(known);
                map.data.get_or_insert_default().extend(data);
                self.maps.replace(&self.name, &post, &map).await
            } else {
                let labels = BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())]);
                let metadata = ObjectMeta {
                    name: Some(self.name.clone()),
                    labels: Some(labels),
                    ..ObjectMeta::default()
                };
                let data = Some(data);
                let map = ConfigMap {
                    metadata,
                    data,
                    ..ConfigMap::default()
                };
                self.maps.create(&post, &map).await
            }
        };
        match tokio::time::timeout(CALL, call).await {
            Ok(Ok(map)) => {
                self.backoff.reset();
                tracing::info!(configmap = self.name, fences = list.len(), "written");
                self.seen = Seen::There(Box::new(map));
                self.tell(list);
                INTERVAL
            }
            // The watch tells what somebody else wrote.
            Ok(Err(Error::Api(status))) if status.code == 409 => INTERVAL,
            failed => {
                let error = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "no answer".to_owned(),
                };
                tracing::warn!(configmap = self.name, error, "can not be written");
                INTERVAL + self.backoff.next()
            }
        }
    }
}

async fn follow(maps: Api<ConfigMap>, name: String, seen: mpsc::Sender<Option<ConfigMap>>) {
    let mut changes = pin!(watch_object(maps, &name));
    let mut backoff = Backoff::of_the_api();
    while let Some(change) = changes.next().await {
        match change {
            Ok(map) => {
                backoff.reset();
                if seen.send(map).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(configmap = name, %error, "can not be watched");
                backoff.wait().await;
            }
        }
    }
}
