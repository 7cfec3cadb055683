//! What the nodes of a group say together to a unit of the preflight.
//!
//! A refused unit is taken from all nodes of the group, so a refusal counts if more than half of the group's nodes
//! refuse. An address has one vote, the one of most of its nodes: the name of a node is its own word. Nodes that have
//! not answered yet are waited for as long as live routes wait. Half is not enough: to take a unit away would harm the
//! nodes that can serve it, and a node that refuses it loses no more than its virtual hosts, if it takes them one by
//! one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::peer::Origin;
use super::snapshots::{GroupCell, lock};
use super::subscriber::{OverruledUnits, UnitVote};
use limpet_resources::{Name, ResourceVersion};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GroupVerdict {
    /// `None`: no node is asked.
    pub(super) vote: Option<UnitVote>,
    /// The number of addresses that refuse.
    pub(super) refusing: usize,
}

pub(super) fn evaluate(cell: &GroupCell, units: &[(Name, ResourceVersion)]) -> Vec<GroupVerdict> {
    let mut said: BTreeMap<Origin, BTreeMap<Name, Vec<Option<UnitVote>>>> = BTreeMap::new();
    for stream in cell.streams() {
        let subscriber = stream.subscriber();
        let votes = units.iter().map(|(unit, version)| subscriber.vote(unit, *version));
        let nodes = said.entry(stream.origin).or_default();
        let of_node = nodes
            .entry(stream.node.clone())
            .or_insert_with(|| vec![None; units.len()]);
        for (known, vote) in of_node.iter_mut().zip(votes) {
            *known = [*known, vote].into_iter().flatten().min();
        }
    }
    let of_unit = |index: usize| {
        let of_origin = |nodes: &BTreeMap<Name, Vec<Option<UnitVote>>>| {
            let votes = nodes.values().filter_map(|votes| votes.get(index).copied().flatten());
            majority(votes)
        };
        let votes: Vec<UnitVote> = said.values().filter_map(of_origin).collect();
        GroupVerdict {
            vote: majority(votes.iter().copied()),
            refusing: votes.iter().filter(|vote| **vote == UnitVote::Refuses).count(),
        }
    };
    (0..units.len()).map(of_unit).collect()
}

/// Units that nodes of a group refuse and most accept. They are looked up once after each change, not by each stream.
pub(super) fn overruled(cell: &GroupCell) -> OverruledUnits {
    let mut known = lock(&cell.overruled);
    let changes = *cell.judgements.borrow();
    if known.0 != changes {
        *known = (changes, Arc::new(look_up_overruled(cell)));
    }
    Arc::clone(&known.1)
}

fn look_up_overruled(cell: &GroupCell) -> BTreeSet<(Name, ResourceVersion)> {
    let mut refused = BTreeSet::new();
    for stream in cell.streams() {
        let subscriber = stream.subscriber();
        let disapprovals = subscriber.disapprovals();
        refused.extend(disapprovals.map(|(name, version, _)| (Arc::clone(name), version)));
    }
    let refused: Vec<_> = refused.into_iter().collect();
    let judged = evaluate(cell, &refused);
    let judged = refused.into_iter().zip(judged);
    let accepted = judged.filter(|(_, judged)| judged.vote == Some(UnitVote::Accepts));
    accepted.map(|(unit, _)| unit).collect()
}

/// The vote that is certain, whatever the missing answers are.
fn majority(votes: impl Iterator<Item = UnitVote>) -> Option<UnitVote> {
    let (mut all, mut refuse, mut accept) = (0, 0, 0);
    for vote in votes {
        all += 1;
        refuse += usize::from(vote == UnitVote::Refuses);
        accept += usize::from(vote == UnitVote::Accepts);
    }
    match all {
        0 => None,
        _ if 2 * refuse > all => Some(UnitVote::Refuses),
        _ if 2 * accept >= all => Some(UnitVote::Accepts),
        _ => Some(UnitVote::Pending),
    }
}

#[cfg(test)]
mod tests;
