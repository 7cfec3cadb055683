//! Islands: members that are built together.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::links::{IslandLink, IslandLinks, IslandMember, LinkKind};
use crate::few::FewMap;

/// The number of an island. None gets the number of a former one.
pub(super) type Island = u64;

#[derive(Debug, Default)]
pub(super) struct Partition {
    members: HashMap<Arc<IslandMember>, MemberState>,
    links: HashMap<Arc<IslandLink>, LinkMembers>,
    islands: HashMap<Island, Vec<Arc<IslandMember>>>,
    next: Island,
    loose: BTreeSet<Arc<IslandMember>>,
    /// Links that members have come to join, or join no more. Their holders are looked at once for all.
    regrouped: HashSet<Arc<IslandLink>>,
    /// Changed links that members join.
    changed: HashSet<Arc<IslandLink>>,
    /// Islands that may fall apart.
    stale: BTreeSet<Island>,
    dirty: BTreeSet<Arc<IslandMember>>,
}

#[derive(Debug)]
struct MemberState {
    links: Vec<(Arc<IslandLink>, LinkKind)>,
    /// `None`: in none yet.
    island: Option<Island>,
}

#[derive(Debug, Default)]
struct LinkMembers {
    all: FewMap<Arc<IslandMember>, LinkKind>,
    /// The number of those that join.
    joining: usize,
}

impl LinkMembers {
    fn all(&self) -> impl Iterator<Item = (&Arc<IslandMember>, &LinkKind)> {
        self.all.iter().inspect(|_| {
            #[cfg(test)]
            crate::looked::at_one();
        })
    }

    /// Members that are built together if any joins.
    fn joined(&self) -> impl Iterator<Item = &Arc<IslandMember>> {
        let all = self.all().filter(|(_, hold)| **hold != LinkKind::Reads);
        all.map(|(member, _)| member)
    }
}

#[derive(Debug, Default)]
pub(super) struct SettledIslands {
    pub(super) removed: BTreeSet<Island>,
    pub(super) dirty: BTreeSet<Island>,
}

impl SettledIslands {
    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.dirty.is_empty()
    }
}

impl Partition {
    /// `links`: those that the member has now; `None`: it is no more.
    pub(super) fn set(&mut self, member: IslandMember, links: Option<IslandLinks>) {
        let (member, known) = match self.members.remove_entry(&member) {
            Some((member, state)) => (member, Some(state)),
            None if links.is_none() => return,
            None => (Arc::new(member), None),
        };
        let MemberState { links: former, island } = known.unwrap_or(MemberState {
            links: Vec::new(),
            island: None,
        });
        let is_same = |links: &IslandLinks| {
            let former = former.iter().map(|(link, hold)| (&**link, *hold));
            former.eq(links.iter().map(|(link, hold)| (link, *hold)))
        };
        if island.is_some() && links.as_ref().is_some_and(is_same) {
            let joined = former.iter().filter(|(_, hold)| *hold == LinkKind::Joins);
            self.changed.extend(joined.map(|(link, _)| Arc::clone(link)));
            self.dirty.insert(Arc::clone(&member));
            let links = former;
            self.members.insert(member, MemberState { links, island });
            return;
        }
        self.stale.extend(island);
        for (link, hold) in &former {
            self.leave(&member, link, *hold);
        }
        self.loose.remove(&member);
        self.dirty.remove(&member);
        if let Some(links) = links {
            let links = links.into_iter();
            let links = links.map(|(link, hold)| (self.enter(&member, link, hold), hold));
            let mut links: Vec<_> = links.collect();
            // It was collected in the room of the links themselves.
            links.shrink_to_fit();
            self.loose.insert(Arc::clone(&member));
            self.members.insert(member, MemberState { links, island });
        }
    }

    fn leave(&mut self, member: &Arc<IslandMember>, link: &Arc<IslandLink>, hold: LinkKind) {
        let Some(holders) = self.links.get_mut(link) else {
            return;
        };
        holders.all.remove(member);
        if hold == LinkKind::Joins {
            holders.joining -= 1;
            self.regrouped.insert(Arc::clone(link));
        }
        if holders.all.is_empty() {
            self.links.remove(link);
        }
    }

    fn enter(&mut self, member: &Arc<IslandMember>, link: IslandLink, hold: LinkKind) -> Arc<IslandLink> {
        let link = match self.links.get_key_value(&link) {
            Some((known, _)) => Arc::clone(known),
            None => Arc::new(link),
        };
        let holders = self.links.entry(Arc::clone(&link)).or_default();
        if hold == LinkKind::Joins {
            holders.joining += 1;
            self.regrouped.insert(Arc::clone(&link));
        }
        holders.all.insert(Arc::clone(member), hold);
        link
    }

    pub(super) fn mark_dirty(&mut self, link: &IslandLink) {
        let holders: Vec<_> = self.holders(link).cloned().collect();
        self.dirty.extend(holders);
    }

    pub(super) fn mark_island_dirty(&mut self, island: Island) {
        self.dirty.extend(self.members(island).first().cloned());
    }

    pub(super) fn holders(&self, link: &IslandLink) -> impl Iterator<Item = &Arc<IslandMember>> {
        self.links.get(link).into_iter().flat_map(|holders| holders.all.keys())
    }

    pub(super) fn links_of(&self, member: &IslandMember) -> impl Iterator<Item = &IslandLink> {
        let state = self.members.get(member);
        state
            .into_iter()
            .flat_map(|state| &state.links)
            .map(|(link, _)| &**link)
    }

    pub(super) fn members(&self, island: Island) -> &[Arc<IslandMember>] {
        self.islands.get(&island).map(Vec::as_slice).unwrap_or_default()
    }

    /// Finds the islands of all members that have changed. Looks at no islands but theirs.
    pub(super) fn settle(&mut self) -> SettledIslands {
        let mut settled = SettledIslands::default();
        self.look_at_links();
        let loose = std::mem::take(&mut self.loose);
        self.stale
            .extend(loose.iter().filter_map(|member| self.members.get(member)?.island));
        let stale = std::mem::take(&mut self.stale);
        let of_stale = stale.iter().flat_map(|island| self.members(*island)).cloned();
        let starts: Vec<_> = loose.iter().cloned().chain(of_stale).collect();
        settled.removed.extend(stale);
        let mut seen = HashSet::new();
        for start in starts {
            if seen.contains(&start) || !self.members.contains_key(&start) {
                continue;
            }
            let island = self.component(start, &mut seen);
            let number = self.next;
            self.next += 1;
            for member in &island {
                if let Some(state) = self.members.get_mut(member) {
                    settled.removed.extend(state.island.replace(number));
                }
            }
            self.islands.insert(number, island);
            settled.dirty.insert(number);
        }
        for island in &settled.removed {
            self.islands.remove(island);
        }
        let dirty = std::mem::take(&mut self.dirty);
        settled
            .dirty
            .extend(dirty.iter().filter_map(|member| self.members.get(member)?.island));
        settled
    }

    /// Finds members that others' changes move to another island, or cause to be built.
    fn look_at_links(&mut self) {
        for link in std::mem::take(&mut self.regrouped) {
            if let Some(holders) = self.links.get(&link) {
                self.loose.extend(holders.joined().cloned());
                self.dirty.extend(holders.all().map(|(member, _)| Arc::clone(member)));
            }
        }
        for link in std::mem::take(&mut self.changed) {
            if let Some(holders) = self.links.get(&link) {
                let readers = holders.all().filter(|(_, hold)| **hold == LinkKind::Reads);
                self.dirty.extend(readers.map(|(member, _)| Arc::clone(member)));
            }
        }
    }

    fn component(&self, start: Arc<IslandMember>, seen: &mut HashSet<Arc<IslandMember>>) -> Vec<Arc<IslandMember>> {
        seen.insert(Arc::clone(&start));
        let mut found = vec![start];
        let mut followed: HashSet<&IslandLink> = HashSet::new();
        let mut next = 0;
        while let Some(member) = found.get(next) {
            next += 1;
            let links = self.members.get(member).into_iter().flat_map(|state| &state.links);
            let links = links.filter(|(link, hold)| *hold != LinkKind::Reads && followed.insert(link));
            let holders = links.filter_map(|(link, _)| self.links.get(link));
            let joined: Vec<_> = holders
                .filter(|holders| holders.joining > 0)
                .flat_map(LinkMembers::joined)
                .filter(|member| seen.insert(Arc::clone(member)))
                .cloned()
                .collect();
            found.extend(joined);
        }
        found
    }
}
