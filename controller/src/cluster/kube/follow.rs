use std::ops::Range;
use std::pin::pin;

use futures::{Stream, StreamExt as _};
use kube::Resource;
use kube::runtime::watcher;

use super::backoff::Backoff;
use super::named_object::is_forbidden;
use super::update::{StoreUpdate, UpdateSender};
use limpet_api::ObjectName;

/// Seconds of a watch before it is restarted where it ended, as in client-go.
const WATCH_SECONDS: Range<u32> = 300..600;

/// Random, so that watches do not all restart at once.
pub(super) fn watch_seconds() -> u32 {
    let Range { start, end } = WATCH_SECONDS;
    start + getrandom::u32().unwrap_or_default() % (end - start)
}

pub(super) trait WatchDecoder<T> {
    type Entry;

    fn kind(&self) -> &'static str;

    /// `None`: nothing is kept of it.
    fn read(&self, item: T) -> Option<Self::Entry>;

    fn listed(&self, entries: Vec<Self::Entry>) -> StoreUpdate;

    fn applied(&self, entry: Self::Entry) -> StoreUpdate;

    fn deleted(&self, name: ObjectName) -> StoreUpdate;

    /// The update, if any, when the right to watch is missing.
    fn refused(&self) -> Option<StoreUpdate> {
        None
    }

    /// The consequence of a failed watch, for logs.
    fn meaning(&self) -> &'static str {
        "what was read last stays in use"
    }
}

/// Sends updates of a watch of a namespace, or of all, until their receiver is gone.
pub(super) async fn follow<T, R, S>(events: S, namespace: Option<&str>, updates: &UpdateSender, reading: R)
where
    T: Resource,
    R: WatchDecoder<T>,
    S: Stream<Item = watcher::Result<watcher::Event<T>>>,
{
    let kind = reading.kind();
    let namespace = namespace.unwrap_or("*");
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
                listed.extend(reading.read(item));
                continue;
            }
            Ok(watcher::Event::InitDone) => reading.listed(std::mem::take(&mut listed)),
            Ok(watcher::Event::Apply(item)) => {
                let name = name_of(&item);
                match reading.read(item) {
                    Some(entry) => reading.applied(entry),
                    None => reading.deleted(name),
                }
            }
            Ok(watcher::Event::Delete(item)) => reading.deleted(name_of(&item)),
            Err(error) => {
                listed.clear();
                // Every watch ends now and then, so the first failure is only a debug message.
                if failing {
                    tracing::warn!(kind, namespace, %error, "cannot watch; {}", reading.meaning());
                } else {
                    tracing::debug!(kind, namespace, %error, "watch ended");
                }
                failing = true;
                let refused = is_forbidden(&error).then(|| reading.refused()).flatten();
                if let Some(refused) = refused
                    && updates.send(refused).await.is_err()
                {
                    return;
                }
                backoff.wait().await;
                continue;
            }
        };
        if failing {
            tracing::info!(kind, namespace, "watching again");
            failing = false;
        }
        backoff.reset();
        if updates.send(update).await.is_err() {
            return;
        }
    }
}

pub(super) fn name_of<T: Resource>(item: &T) -> ObjectName {
    let meta = item.meta();
    ObjectName::new(
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}
