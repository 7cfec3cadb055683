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

use crate::cluster::kube::{Backoff, is_forbidden};
use crate::cluster::reconcile::diagnostics::{Reason, Trouble, Troubles, refusal};
use limpet_model::{MANAGED_BY, MANAGER};

use super::list::List;

/// The kind of what is kept.
pub(crate) const CONFIG_MAP: &str = "ConfigMap";
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
    troubles: Troubles,
    /// What is wrong with what the ConfigMap holds, and what the API server refuses, in its words.
    wrong: BTreeMap<Reason, String>,
    uid: String,
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
        troubles: Troubles,
    ) -> (Self, watch::Receiver<Option<List>>) {
        let (kept, receiver) = watch::channel(None);
        let keeper = Self {
            maps: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
            kept,
            wanted,
            leads,
            troubles,
            wrong: BTreeMap::new(),
            uid: String::new(),
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
                    Some(Ok(map)) => self.see(map),
                    Some(Err(refusal)) => self.complain(Reason::ReadRefused, refusal),
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
        self.uid = map
            .as_ref()
            .and_then(|map| map.metadata.uid.clone())
            .unwrap_or_default();
        self.is_over(Reason::ReadRefused);
        let text = map
            .as_ref()
            .map(|map| map.data.as_ref().and_then(|data| data.get(FIELD)));
        match (text.map(|text| List::parse(text.map_or("[]", String::as_str))), map) {
            (Some(Ok(list)), Some(map)) => {
                self.seen = Seen::There(Box::new(map));
                self.is_over(Reason::Invalid);
                self.tell(list);
            }
            // Whoever starts now does not know what Envoys have; without their fences, sessions would reach other pods. So it waits.
            (Some(Err(error)), _) => {
                self.seen = Seen::Broken;
                let advice = "the fences that were there before stay, where they are known. Put it in order, or delete it if no fence is needed any more";
                self.complain(Reason::Invalid, format!("data[{FIELD}]: {error}; {advice}"));
            }
            _ => {
                self.seen = Seen::Missing;
                self.is_over(Reason::Invalid);
                // One that is gone comes back with the next change.
                self.kept
                    .send_if_modified(|kept| kept.is_none() && kept.insert(List::default()).len() == 0);
            }
        }
    }

    /// Tells what a person has to see to.
    fn complain(&mut self, reason: Reason, message: String) {
        if self.wrong.get(&reason) != Some(&message) {
            tracing::error!(configmap = self.name, reason = reason.name(), "{message}");
            self.wrong.insert(reason, message);
        }
        self.set_troubles();
    }

    /// Tells that it is over.
    fn is_over(&mut self, reason: Reason) {
        self.wrong.remove(&reason);
        self.set_troubles();
    }

    fn set_troubles(&self) {
        let trouble = |(reason, message): (&Reason, &String)| Trouble {
            kind: CONFIG_MAP,
            name: self.name.clone(),
            uid: self.uid.clone(),
            reason: *reason,
            message: message.clone(),
        };
        self.troubles.set(CONFIG_MAP, self.wrong.iter().map(trouble).collect());
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
                self.is_over(Reason::WriteRefused);
                self.tell(list);
                INTERVAL
            }
            // The watch tells what somebody else wrote.
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
                tracing::warn!(configmap = self.name, error, "can not be written");
                INTERVAL + self.backoff.next()
            }
        }
    }
}

async fn follow(maps: Api<ConfigMap>, name: String, seen: mpsc::Sender<Result<Option<ConfigMap>, String>>) {
    let mut changes = pin!(watch_object(maps, &name));
    let mut backoff = Backoff::of_the_api();
    while let Some(change) = changes.next().await {
        match change {
            Ok(map) => {
                backoff.reset();
                if seen.send(Ok(map)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(configmap = name, %error, "can not be watched");
                if is_forbidden(&error) {
                    let refusal = format!("grant list and watch on the ConfigMap: {error}");
                    if seen.send(Err(refusal)).await.is_err() {
                        return;
                    }
                }
                backoff.wait().await;
            }
        }
    }
}
