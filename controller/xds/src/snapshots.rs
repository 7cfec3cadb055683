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
/// A node's group is its `node.cluster`. Publish the whole state at once: the server keeps order between types and
/// waits for acknowledgements, for each node.
#[derive(Debug, Clone, Default)]
pub struct Snapshots(Arc<SnapshotState>);

/// The limit of streams of one node at one address. More than one connection may be left of a network that failed. A
/// node elsewhere may call itself by the same name.
pub(super) const STREAMS: usize = 16;

type Groups = BTreeMap<Name, Arc<GroupCell>>;

#[derive(Debug, Default)]
pub(super) struct SnapshotState {
    groups: Mutex<Groups>,
    pub(super) counters: XdsCounters,
    /// Counts the changes that [`AckStatus`](crate::AckStatus) reports.
    pub(super) changes: watch::Sender<u64>,
    /// Counts what may change what the nodes of any group say together to units of the preflight.
    pub(super) judgements: watch::Sender<u64>,
}

/// A group, and the streams of its nodes.
#[derive(Debug)]
pub(super) struct GroupCell {
    pub(super) name: Name,
    group: Mutex<ResourceGroup>,
    /// The number of the group's last change.
    pub(super) sequence: watch::Sender<u64>,
    /// Locked for a moment only, also while the group is locked.
    streams: Mutex<BTreeMap<u64, Arc<StreamConnection>>>,
    /// Whether something is published. Written while the group is locked.
    is_published: AtomicBool,
    /// Counts what may change what the group's nodes say together to units of the preflight.
    pub(super) judgements: watch::Sender<u64>,
    /// After which of these changes they were looked up.
    pub(super) overruled: Mutex<(u64, OverruledUnits)>,
    /// Of its nodes: streams that come and go, and what is refused.
    pub(super) comings: LogRate,
    pub(super) refusals: LogRate,
}

/// A stream of a node.
#[derive(Debug)]
pub(super) struct StreamConnection {
    pub(super) node: Name,
    pub(super) origin: Origin,
    pub(super) since: SystemTime,
    /// When the node's certificate is valid, if it has one.
    pub(super) validity: Option<Validity>,
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
            wants_wholes: subscriber.wants_wholes(),
            subscriber: Mutex::new(subscriber),
        }
    }

    pub(super) fn subscriber(&self) -> MutexGuard<'_, Subscriber> {
        lock(&self.subscriber)
    }
}

/// Locks, also after a panic: no code panics while it holds a lock, and the state would still be whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Snapshots {
    /// Handles with nothing published.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Replaces the resources of a group. Resources that did not change are not sent.
    ///
    /// Publish only resources that others refer to: see [`AckStatus::is_settled`](crate::AckStatus::is_settled).
    pub fn publish(&self, group: &str, resources: Resources) {
        self.change(group, true, |group| group.publish(resources));
    }

    /// Replaces or adds one resource of a group, other than a virtual host. The cost does not depend on the number of
    /// other resources. Returns whether the group is published; if it is not, nothing happens, because its other
    /// resources are unknown.
    pub fn publish_one(&self, group: &str, resource: impl Into<Arc<Resource>>) -> bool {
        let resource = resource.into();
        self.change(group, false, |group| group.publish_one(resource))
    }

    /// Removes one resource of a group.
    pub fn remove_one(&self, group: &str, resource_type: ResourceType, name: &str) {
        self.change(group, false, |group| group.remove_one(resource_type, name));
    }

    /// Forgets what the nodes of a group should have. They keep what they have, and new nodes wait. To remove
    /// everything from the nodes, publish [`Resources::new`] first.
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

    /// How many clients were turned away since the start, by reason.
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

    /// Changes a group and returns whether it is published then. An unknown group is created only if it is published.
    fn change(&self, name: &str, make: bool, change: impl FnOnce(&mut ResourceGroup) -> bool) -> bool {
        let mut groups = lock(&self.0.groups);
        if make {
            // Published from now on: otherwise it could be dropped before.
            let cell = SnapshotState::cell(&mut groups, name);
            cell.is_published.store(true, Ordering::Release);
        }
        let Some(cell) = groups.get(name).cloned() else {
            return false;
        };
        // The streams of a group may hold it for long, and the other groups do not wait for that.
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

    /// What the nodes of a group say together to units of the preflight may have changed.
    pub(super) fn judgements_changed(&self, cell: &GroupCell) {
        cell.judgements.send_modify(|judgements| *judgements += 1);
        self.judgements.send_modify(|judgements| *judgements += 1);
    }

    /// The group of this name, created if it does not exist.
    fn cell<'a>(groups: &'a mut Groups, name: &str) -> &'a Arc<GroupCell> {
        groups
            .entry(name.into())
            .or_insert_with_key(|name| Arc::new(GroupCell::new(Arc::clone(name))))
    }

    /// The group of this name, if something was published for it or a node asked for it.
    pub(super) fn find(&self, name: &str) -> Option<Arc<GroupCell>> {
        lock(&self.groups).get(name).cloned()
    }

    /// All groups that [`Self::find`] finds.
    pub(super) fn cells(&self) -> Vec<Arc<GroupCell>> {
        lock(&self.groups).values().cloned().collect()
    }

    /// Adds a stream to its group. `None` if its node has [`STREAMS`] already.
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

    /// Removes a stream from its group.
    pub(super) fn disconnect(&self, cell: &GroupCell, number: u64) {
        lock(&cell.streams).remove(&number);
        self.drop_unused(&cell.name);
        self.status_changed();
        self.judgements_changed(cell);
    }

    /// Drops a group that is not published and has no streams.
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

    /// The streams of the nodes, in the order in which they connected.
    pub(super) fn streams(&self) -> Vec<Arc<StreamConnection>> {
        lock(&self.streams).values().cloned().collect()
    }
}
