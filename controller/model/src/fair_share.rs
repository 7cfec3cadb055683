use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// The share of each of several parties of `room`: the rest of a party's equal part is for the others. [`usize::MAX`]
/// if there is room for everything.
#[must_use]
pub fn fair_share(wanted: impl IntoIterator<Item = usize>, room: usize) -> usize {
    let mut all = WantedSizes::default();
    for size in wanted {
        all.change(0, size);
    }
    all.share(room)
}

/// How many parties want how much. Finding their share looks at each smaller size: at most `√(2 × room)`, since these
/// differ and fit into the room together.
#[derive(Debug, Default)]
pub struct WantedSizes {
    parties: usize,
    /// The number of parties, by size.
    by_size: BTreeMap<usize, usize>,
}

impl WantedSizes {
    /// Changes what one party wants. One that wants nothing is none.
    pub fn change(&mut self, was: usize, is: usize) {
        if was == is {
            return;
        }
        if let Entry::Occupied(mut parties) = self.by_size.entry(was) {
            self.parties -= 1;
            *parties.get_mut() -= 1;
            if *parties.get() == 0 {
                parties.remove();
            }
        }
        if is > 0 {
            self.parties += 1;
            *self.by_size.entry(is).or_default() += 1;
        }
    }

    /// See [`fair_share`].
    #[must_use]
    pub fn share(&self, room: usize) -> usize {
        let (mut left, mut others) = (room, self.parties);
        for (size, parties) in &self.by_size {
            #[cfg(test)]
            crate::looked::at_one();
            let part = left.checked_div(others).unwrap_or_default();
            if *size > part {
                return part;
            }
            left -= size * parties;
            others -= parties;
        }
        usize::MAX
    }
}

/// The least of what each of several parties has beyond its share of `room` ([`fair_share`]).
#[must_use]
pub fn beyond_share<K, T: Ord>(all: BTreeMap<K, Vec<T>>, room: usize) -> Vec<T> {
    let share = fair_share(all.values().map(Vec::len), room);
    let least = all.into_values().flat_map(|mut of| {
        let excess = of.len().saturating_sub(share);
        if excess > 0 {
            of.sort_unstable();
        }
        of.truncate(excess);
        of
    });
    least.collect()
}

/// The first of what each of several parties has, with its size, within its share of `room` ([`fair_share`]).
#[must_use]
pub fn within_share<K, T>(all: BTreeMap<K, Vec<(T, usize)>>, room: usize) -> Vec<T> {
    let sizes = all.values().map(|of| of.iter().map(|(_, size)| size).sum());
    let share = fair_share(sizes, room);
    let kept = all.into_values().flat_map(|of| {
        let mut left = share;
        of.into_iter().map_while(move |(one, size)| {
            left = left.checked_sub(size)?;
            Some(one)
        })
    });
    kept.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_one_leaves_is_for_the_others() {
        for (wanted, room, share) in [
            (&[][..], 0, usize::MAX),
            (&[3, 4], 7, usize::MAX),
            (&[3, 4], 6, 3),
            (&[1, 9, 9], 11, 5),
            (&[9, 1, 9], 12, 5),
            (&[2, 2], 1, 0),
        ] {
            assert_eq!(fair_share(wanted.iter().copied(), room), share, "{wanted:?} {room}");
        }
    }

    #[test]
    fn of_what_is_more_than_a_share_the_first_stays() {
        let all = BTreeMap::from([
            ("a", vec![("one", 3), ("two", 3), ("three", 1)]),
            ("b", vec![("four", 2)]),
        ]);
        assert_eq!(within_share(all.clone(), 9), ["one", "two", "three", "four"]);
        assert_eq!(within_share(all.clone(), 8), ["one", "two", "four"]);
        assert_eq!(within_share(all, 5), ["one", "four"]);
    }

    #[test]
    fn a_share_was_found_by_a_look_at_all_parties() {
        const ROOM: usize = 500_000;
        let mut wanted = WantedSizes::default();
        (1..=100_000).for_each(|size| wanted.change(0, size));
        crate::looked::take();
        assert_eq!(wanted.share(ROOM), 5);
        (1..=100_000).for_each(|size| wanted.change(size, size % 950));
        assert_eq!(wanted.share(ROOM), 5);
        (951..=100_000).for_each(|size| wanted.change(size % 950, 0));
        assert_eq!(wanted.share(ROOM), usize::MAX, "those of all sizes up to 949");
        assert!((940..=1000).contains(&crate::looked::take()));
    }

    proptest! {
        #[test]
        fn changes_of_sizes_count(
            changes in prop::collection::vec((0..8_usize, 0..100_usize), 0..30),
            room in 0..500_usize,
        ) {
            let (mut sizes, mut wanted) = ([0; 8], WantedSizes::default());
            for (party, size) in changes {
                wanted.change(std::mem::replace(&mut sizes[party], size), size);
            }
            prop_assert_eq!(wanted.share(room), fair_share(sizes, room));
        }

        #[test]
        fn shares_fill_the_room_and_no_more(
            wanted in prop::collection::vec(0..100_usize, 0..20),
            room in 0..500_usize,
        ) {
            let share = fair_share(wanted.iter().copied(), room);
            let sum: usize = wanted.iter().map(|size| *size.min(&share)).sum();
            prop_assert!(sum <= room);
            let cut = wanted.iter().filter(|size| **size > share).count();
            prop_assert!(cut == 0 || room - sum < cut, "room for one more each");
        }
    }
}
