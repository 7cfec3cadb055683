//! What the connected nodes made of the published resources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use super::judgement::{GroupVerdict, evaluate};
use super::snapshots::{GroupCell, SnapshotState, Snapshots, StreamConnection};
use super::subscriber::UnitVote;
use limpet_resources::{Name, ResourceType, ResourceVersion};

/// What the connected nodes have acknowledged and refused at this moment. [`AckStatus::changed`] waits for the next
/// change.
#[derive(Debug, Clone)]
pub struct AckStatus {
    shared: Arc<SnapshotState>,
    changes: watch::Receiver<u64>,
    judgements: watch::Receiver<u64>,
}

impl Snapshots {
    /// The acknowledgements of the connected nodes.
    #[must_use]
    pub fn status(&self) -> AckStatus {
        AckStatus::new(Arc::clone(self.shared()))
    }
}

/// A connected node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectedNode {
    /// The `node.id`.
    pub id: Name,
    /// When the node's oldest stream began.
    pub connected_since: SystemTime,
    /// Whether [`AckStatus::is_settled`] holds for the node.
    pub settled: bool,
}

/// A resource that a node refused and was not sent again since.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RefusedResource {
    /// Its type.
    pub resource_type: ResourceType,
    /// Its name.
    pub name: Name,
    /// The version that was refused.
    pub version: ResourceVersion,
    /// The node's id.
    pub node: Name,
    /// The node's error message.
    pub message: Arc<str>,
}

/// A unit of the preflight that most nodes of a group refuse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedUnit {
    /// The group.
    pub group: Name,
    /// The unit's name.
    pub unit: Name,
    /// The version that is refused.
    pub version: ResourceVersion,
    /// The id of one node that refuses it.
    pub node: Name,
    /// That node's error message.
    pub message: Arc<str>,
    /// The number of addresses of nodes that refuse it.
    pub refusing: usize,
}

/// How many connected nodes of a group have one version of a resource. Each node counts once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AckProgress {
    /// Nodes that acknowledged it.
    pub acknowledged: usize,
    /// Nodes that refused it.
    pub refused: usize,
    /// Nodes that asked for the resource and have another version or none.
    pub pending: usize,
    /// Nodes that have not asked for it.
    pub unsubscribed: usize,
}

impl AckProgress {
    /// Whether all connected nodes have acknowledged it. True while no node is connected.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.refused + self.pending + self.unsubscribed == 0
    }

    /// The number of connected nodes.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.acknowledged + self.refused + self.pending + self.unsubscribed
    }
}

impl AckStatus {
    pub(super) fn new(shared: Arc<SnapshotState>) -> Self {
        let (changes, judgements) = (shared.changes.subscribe(), shared.judgements.subscribe());
        Self {
            shared,
            changes,
            judgements,
        }
    }

    /// Waits until [`Self::disapprovals`] may have changed.
    pub async fn judged(&mut self) {
        let _ = self.judgements.changed().await;
    }

    /// The published units that most connected nodes of a group refuse. Nodes that refuse everything do not count, and
    /// an address counts once.
    #[must_use]
    pub fn disapprovals(&self) -> Vec<RefusedUnit> {
        self.shared.cells().iter().flat_map(|cell| disapprovals(cell)).collect()
    }

    /// The number of addresses whose nodes have a say in what a group refuses.
    #[must_use]
    pub fn voting_addresses(&self, group: &str) -> usize {
        let streams = self.shared.find(group).map(|cell| cell.streams());
        let asked = streams.into_iter().flatten();
        let origins: BTreeSet<_> = asked
            .filter(|stream| stream.subscriber().has_a_say())
            .map(|stream| stream.origin)
            .collect();
        origins.len()
    }

    /// Whether a connected node of any group has accepted a unit as it is published.
    #[must_use]
    pub fn is_approved(&self, unit: &str) -> bool {
        self.shared.cells().iter().any(|cell| {
            let version = cell.group().units().get(unit).map(|unit| unit.version());
            let approves = |version| {
                cell.streams()
                    .iter()
                    .any(|stream| stream.subscriber().approves(unit, version))
            };
            version.is_some_and(approves)
        })
    }

    /// Waits for a change since the last call: of nodes, publications or answers. Several changes may be reported as
    /// one.
    pub async fn changed(&mut self) {
        // `shared` holds the sender, so the channel is open.
        let _ = self.changes.changed().await;
    }

    /// The number of nodes of each group that is published or has connected nodes.
    #[must_use]
    pub fn groups(&self) -> BTreeMap<Name, usize> {
        let cells = self.shared.cells().into_iter();
        cells
            .map(|cell| (Arc::clone(&cell.name), by_node(cell.streams()).len()))
            .collect()
    }

    /// How many connected nodes have each version of Envoy. Other nodes are not counted.
    #[must_use]
    pub fn versions(&self) -> BTreeMap<String, usize> {
        let mut versions = BTreeMap::new();
        for cell in self.shared.cells() {
            for streams in by_node(cell.streams()).into_values() {
                if let Some(version) = streams.iter().find_map(|stream| stream.version.clone()) {
                    *versions.entry(version).or_default() += 1;
                }
            }
        }
        versions
    }

    /// The number of connected nodes of a group.
    #[must_use]
    pub fn connected(&self, group: &str) -> usize {
        self.nodes_of(group).len()
    }

    /// The connected nodes of a group, by their ids.
    #[must_use]
    pub fn nodes(&self, group: &str) -> Vec<ConnectedNode> {
        let Some(cell) = self.shared.find(group) else {
            return Vec::new();
        };
        let node = |(id, streams): (Name, Vec<Arc<StreamConnection>>)| ConnectedNode {
            id,
            connected_since: streams
                .iter()
                .map(|stream| stream.since)
                .min()
                .unwrap_or(SystemTime::UNIX_EPOCH),
            settled: has_settled(&streams, &cell),
        };
        by_node(cell.streams()).into_iter().map(node).collect()
    }

    /// Whether every connected node has acknowledged everything that is published now. True while no node is connected;
    /// false while nothing is published.
    ///
    /// Everything includes resources that the node has not asked for yet, as routes before their listener. So a
    /// resource that nothing refers to is never acknowledged. A node that is served only filter configurations settles
    /// with those that it asked for.
    #[must_use]
    pub fn is_settled(&self, group: &str) -> bool {
        let Some(cell) = self.shared.find(group) else {
            return false;
        };
        cell.group().is_published()
            && by_node(cell.streams())
                .values()
                .all(|streams| has_settled(streams, &cell))
    }

    /// Counts the nodes that have one version of a resource.
    #[must_use]
    pub fn progress(
        &self,
        group: &str,
        resource_type: ResourceType,
        name: &str,
        version: ResourceVersion,
    ) -> AckProgress {
        let mut progress = AckProgress::default();
        for streams in self.nodes_of(group).values() {
            let mut standings = BTreeSet::new();
            for stream in streams {
                let subscriber = stream.subscriber();
                if subscriber.subscribes(resource_type, name) {
                    standings.insert(match subscriber.standing(resource_type, name) {
                        (_, Some((refused, _))) if refused == version => NodeState::Refused,
                        (Some(acknowledged), _) if acknowledged == version => NodeState::Acknowledged,
                        _ => NodeState::Pending,
                    });
                }
            }
            // The stream that is furthest behind counts.
            match standings.first() {
                Some(NodeState::Refused) => progress.refused += 1,
                Some(NodeState::Pending) => progress.pending += 1,
                Some(NodeState::Acknowledged) => progress.acknowledged += 1,
                None => progress.unsubscribed += 1,
            }
        }
        progress
    }

    /// The connected nodes that may use another version of a resource than this one: not those that have not asked for
    /// it, or refuse it and never had any.
    #[must_use]
    pub fn behind(&self, group: &str, resource_type: ResourceType, name: &str, version: ResourceVersion) -> Vec<Name> {
        let is_behind = |stream: &Arc<StreamConnection>| {
            let subscriber = stream.subscriber();
            if !subscriber.subscribes(resource_type, name) {
                return false;
            }
            match subscriber.standing(resource_type, name) {
                (_, Some((refused, _))) if refused == version => subscriber.may_have(resource_type, name),
                (acknowledged, _) => acknowledged != Some(version),
            }
        };
        let nodes = self.nodes_of(group).into_iter();
        let behind = nodes.filter(|(_, streams)| streams.iter().any(is_behind));
        behind.map(|(node, _)| node).collect()
    }

    /// The first `most` published resources that connected nodes of a group refuse, by type, name, version and node.
    #[must_use]
    pub fn refusals(&self, group: &str, most: usize) -> Vec<RefusedResource> {
        let mut refusals = BTreeSet::new();
        for (node, streams) in self.nodes_of(group) {
            for stream in streams {
                let subscriber = stream.subscriber();
                // The subscriber has the order of the set, so its first ones are enough.
                for (resource_type, name, version, message) in subscriber.refusals().take(most) {
                    refusals.insert(RefusedResource {
                        resource_type,
                        name: Arc::clone(name),
                        version,
                        node: Arc::clone(&node),
                        message: Arc::clone(message),
                    });
                }
            }
            while refusals.len() > most {
                refusals.pop_last();
            }
        }
        refusals.into_iter().collect()
    }

    /// The version of each resource that a node has acknowledged, by type and name.
    #[must_use]
    pub fn acknowledged(&self, group: &str, node: &str) -> BTreeMap<(ResourceType, Name), ResourceVersion> {
        let mut acknowledged = BTreeMap::new();
        for stream in self.nodes_of(group).get(node).into_iter().flatten() {
            let subscriber = stream.subscriber();
            let own = subscriber.acknowledged();
            acknowledged.extend(own.map(|(resource_type, name, version)| ((resource_type, Arc::clone(name)), version)));
        }
        acknowledged
    }

    fn nodes_of(&self, group: &str) -> BTreeMap<Name, Vec<Arc<StreamConnection>>> {
        let cell = self.shared.find(group);
        cell.map(|cell| by_node(cell.streams())).unwrap_or_default()
    }
}

fn disapprovals(cell: &GroupCell) -> Vec<RefusedUnit> {
    let mut refused = BTreeMap::new();
    for stream in cell.streams() {
        for (unit, version, message) in stream.subscriber().disapprovals() {
            let said = || (Arc::clone(&stream.node), Arc::clone(message));
            refused.entry((Arc::clone(unit), version)).or_insert_with(said);
        }
    }
    let units: Vec<_> = refused.keys().cloned().collect();
    let judged = refused.into_iter().zip(evaluate(cell, &units));
    let disapproval = |(((unit, version), (node, message)), judged): (_, GroupVerdict)| RefusedUnit {
        group: Arc::clone(&cell.name),
        unit,
        version,
        node,
        message,
        refusing: judged.refusing,
    };
    judged
        .filter(|(_, judged)| judged.vote == Some(UnitVote::Refuses))
        .map(disapproval)
        .collect()
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum NodeState {
    Refused,
    Pending,
    Acknowledged,
}

fn by_node(streams: Vec<Arc<StreamConnection>>) -> BTreeMap<Name, Vec<Arc<StreamConnection>>> {
    let mut nodes: BTreeMap<Name, Vec<Arc<StreamConnection>>> = BTreeMap::new();
    for stream in streams {
        nodes.entry(Arc::clone(&stream.node)).or_default().push(stream);
    }
    nodes
}

fn has_settled(streams: &[Arc<StreamConnection>], cell: &GroupCell) -> bool {
    if !streams.iter().all(|stream| stream.subscriber().is_idle(&cell.group())) {
        return false;
    }
    let mut aggregated = false;
    let mut asked = BTreeMap::new();
    for stream in streams {
        let subscriber = stream.subscriber();
        aggregated |= subscriber.is_aggregated();
        for each in ResourceType::ALL {
            *asked.entry(each).or_insert(0) += usize::from(subscriber.has_asked_for(each));
        }
    }
    let asked = |each| asked.get(&each).copied().unwrap_or(0);
    let settled = |each| {
        if each == ResourceType::VirtualHost {
            // A node has them with their route configurations.
            return true;
        }
        if asked(each) == 0 {
            return if aggregated {
                cell.group().catalogue(each).iter().next().is_none()
            } else {
                each != ResourceType::ExtensionConfig
            };
        }
        // Each of several streams asks for a part.
        let in_parts = !aggregated || each == ResourceType::ExtensionConfig && asked(each) > 1;
        streams.iter().all(|stream| {
            let subscriber = stream.subscriber();
            if in_parts {
                return !subscriber.asks_for_more(each, &cell.group());
            }
            !subscriber.has_asked_for(each) || subscriber.asks_for_all(each)
        })
    };
    ResourceType::ALL.into_iter().all(settled)
}

#[cfg(test)]
mod tests;
