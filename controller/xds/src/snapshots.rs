//! The handle that resources are published with. Publishers and servers share it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;

use super::counters::{PreflightCounts, RejectionReason, XdsCounters, XdsCounts};
use super::group::ResourceGroup;
use super::log_rate::LogRate;
use super::peer::Origin;
use super::subscriber::{OverruledUnits, Subscriber};
use super::validity::Validity;
use limpet_resources::{Name, Resource, ResourceType, Resources};

/// The published resources of all groups of nodes. A clone is another handle to the same resources.
///
/// A node's group is its `node.cluster`. Publish the whole state at once: the server keeps order between types for
/// each node.
#[derive(Debug, Clone, Default)]
pub struct Snapshots(Arc<SnapshotState>);

/// The limit of streams of one node at one address: a failed network may leave more than one connection. A node
/// elsewhere may have the same name.
pub(super) const STREAMS: usize = 16;

type Groups = BTreeMap<Name, Arc<GroupCell>>;

#[derive(Debug, Default)]
pub(super) struct SnapshotState {
    groups: Mutex<Groups>,
    pub(super) counters: XdsCounters,
    /// Counts what [`AckStatus`](crate::AckStatus) reports.
    pub(super) changes: watch::Sender<u64>,
    /// Counts changes of what the nodes of any group may say together to units of the preflight.
    pub(super) judgements: watch::Sender<u64>,
}

#[derive(Debug)]
pub(super) struct GroupCell {
    pub(super) name: Name,
    group: Mutex<ResourceGroup>,
    pub(super) sequence: watch::Sender<u64>,
    /// Locked for a moment only, also while the group is locked.
    streams: Mutex<BTreeMap<u64, Arc<StreamConnection>>>,
    /// Written while the group is locked.
    is_published: AtomicBool,
    /// As in [`SnapshotState`], of this group.
    pub(super) judgements: watch::Sender<u64>,
    /// The number of `judgements` at which they were looked up.
    pub(super) overruled: Mutex<(u64, OverruledUnits)>,
    /// Logs streams that come and go, and what is refused.
    pub(super) comings: LogRate,
    pub(super) refusals: LogRate,
}

#[derive(Debug)]
pub(super) struct StreamConnection {
    pub(super) node: Name,
    pub(super) origin: Origin,
    pub(super) since: SystemTime,
    pub(super) validity: Option<Validity>,
    /// Of an Envoy, as `1.40.0`.
    pub(super) version: Option<String>,
    /// Whether the node gets route configurations with their virtual hosts in them.
    wants_wholes: bool,
    /// Locked before the group, where both are.
    subscriber: Mutex<Subscriber>,
}

impl StreamConnection {
    pub(super) fn new(node: Name, origin: Origin, validity: Option<Validity>, subscriber: Subscriber) -> Self {
        Self {
            node,
            origin,
            since: SystemTime::now(),
            validity,
            version: None,
            wants_wholes: subscriber.wants_wholes(),
            subscriber: Mutex::new(subscriber),
        }
    }

    pub(super) fn with_version(self, version: Option<String>) -> Self {
        Self { version, ..self }
    }

    pub(super) fn subscriber(&self) -> MutexGuard<'_, Subscriber> {
        lock(&self.subscriber)
    }
}

/// A lock after a panic is fine: no code panics while it holds one, and the state would still be whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Snapshots {
    /// Creates it with nothing published.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the resources of a group. Unchanged resources are not sent.
    ///
    /// Publish only resources that others refer to: see [`AckStatus::is_settled`](crate::AckStatus::is_settled).
    pub fn publish(&self, group: &str, resources: Resources) {
        self.change(group, true, |group| group.publish(resources));
    }

    /// Replaces or adds one resource of a group, other than a virtual host, at a cost that does not depend on the
    /// others. Returns whether the group is published; if not, nothing happens, because its other resources are
    /// unknown.
    pub fn publish_one(&self, group: &str, resource: impl Into<Arc<Resource>>) -> bool {
        let resource = resource.into();
        self.change(group, false, |group| group.publish_one(resource))
    }

    /// Removes one resource of a group.
    pub fn remove_one(&self, group: &str, resource_type: ResourceType, name: &str) {
        self.change(group, false, |group| group.remove_one(resource_type, name));
    }

    /// Forgets a group's resources. Its nodes keep what they have, and new nodes wait. To remove everything from the
    /// nodes, publish [`Resources::new`] first.
    pub fn forget(&self, group: &str) {
        self.change(group, false, |group| {
            group.forget();
            true
        });
        self.0.drop_unused(group);
    }

    /// Counters of responses and answers since the start.
    #[must_use]
    pub fn counts(&self) -> XdsCounts {
        self.0.counters.counts()
    }

    /// Clients that were turned away since the start, by reason.
    #[must_use]
    pub fn turned_away(&self) -> [(RejectionReason, u64); RejectionReason::ALL.len()] {
        self.0.counters.times_turned_away()
    }

    /// Counters of the preflight since the start.
    #[must_use]
    pub fn preflights(&self) -> PreflightCounts {
        self.0.counters.preflights()
    }

    pub(super) fn shared(&self) -> &Arc<SnapshotState> {
        &self.0
    }

    /// Returns whether the group is published then. An unknown group is created only if it is published.
    fn change(&self, name: &str, make: bool, change: impl FnOnce(&mut ResourceGroup) -> bool) -> bool {
        let mut groups = lock(&self.0.groups);
        if make {
            // Set now: otherwise the group could be dropped before.
            let cell = SnapshotState::cell(&mut groups, name);
            cell.is_published.store(true, Ordering::Release);
        }
        let Some(cell) = groups.get(name).cloned() else {
            return false;
        };
        // The group's streams may hold it for long: other groups do not wait.
        drop(groups);
        let mut group = cell.group();
        // A node that comes again and again makes them once for each publication.
        if !lock(&cell.streams).values().any(|stream| stream.wants_wholes) {
            group.drop_wholes();
        }
        let changed = change(&mut group);
        let (published, sequence) = (group.is_published(), group.sequence());
        cell.is_published.store(published, Ordering::Release);
        drop(group);
        if changed {
            cell.sequence.send_replace(sequence);
            self.0.status_changed();
        }
        published
    }
}

impl SnapshotState {
    pub(super) fn status_changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    pub(super) fn judgements_changed(&self, cell: &GroupCell) {
        cell.judgements.send_modify(|judgements| *judgements += 1);
        self.judgements.send_modify(|judgements| *judgements += 1);
    }

    fn cell<'a>(groups: &'a mut Groups, name: &str) -> &'a Arc<GroupCell> {
        groups
            .entry(name.into())
            .or_insert_with_key(|name| Arc::new(GroupCell::new(Arc::clone(name))))
    }

    /// The group, if something was published for it or a node asked for it.
    pub(super) fn find(&self, name: &str) -> Option<Arc<GroupCell>> {
        lock(&self.groups).get(name).cloned()
    }

    pub(super) fn cells(&self) -> Vec<Arc<GroupCell>> {
        lock(&self.groups).values().cloned().collect()
    }

    /// `None` if the node has [`STREAMS`] already.
    pub(super) fn connect(&self, group: &str, number: u64, stream: Arc<StreamConnection>) -> Option<Arc<GroupCell>> {
        // Hold the lock: otherwise the group could be dropped before.
        let mut groups = lock(&self.groups);
        let cell = Arc::clone(Self::cell(&mut groups, group));
        let wants_wholes = stream.wants_wholes;
        let mut streams = lock(&cell.streams);
        let own = streams
            .values()
            .filter(|other| other.node == stream.node && other.origin == stream.origin);
        if own.count() >= STREAMS {
            return None;
        }
        streams.insert(number, stream);
        drop((streams, groups));
        if wants_wholes {
            cell.group().make_all_wholes();
        }
        self.status_changed();
        Some(cell)
    }

    pub(super) fn disconnect(&self, cell: &GroupCell, number: u64) {
        lock(&cell.streams).remove(&number);
        self.drop_unused(&cell.name);
        self.status_changed();
        self.judgements_changed(cell);
    }

    fn drop_unused(&self, name: &str) {
        let mut groups = lock(&self.groups);
        let is_published = |cell: &GroupCell| cell.is_published.load(Ordering::Acquire);
        let unused = |cell: &Arc<GroupCell>| !is_published(cell) && lock(&cell.streams).is_empty();
        if groups.get(name).is_some_and(unused) {
            groups.remove(name);
        }
    }
}

impl GroupCell {
    fn new(name: Name) -> Self {
        Self {
            name,
            group: Mutex::default(),
            sequence: watch::Sender::default(),
            streams: Mutex::default(),
            is_published: AtomicBool::default(),
            judgements: watch::Sender::default(),
            overruled: Mutex::default(),
            comings: LogRate::default(),
            refusals: LogRate::default(),
        }
    }

    pub(super) fn group(&self) -> MutexGuard<'_, ResourceGroup> {
        lock(&self.group)
    }

    pub(super) fn streams(&self) -> Vec<Arc<StreamConnection>> {
        lock(&self.streams).values().cloned().collect()
    }
}
