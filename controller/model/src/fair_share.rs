use std::collections::BTreeMap;

/// How much each of several parties may have, so that all have `room` in common: what one leaves of its equal part is
/// for the others. [`usize::MAX`] if there is room for everything.
#[must_use]
pub fn fair_share(wanted: impl IntoIterator<Item = usize>, room: usize) -> usize {
    let mut wanted: Vec<usize> = wanted.into_iter().collect();
    wanted.sort_unstable();
    let (mut left, mut others) = (room, wanted.len());
    for size in wanted {
        let part = left.checked_div(others).unwrap_or_default();
        if size > part {
            return part;
        }
        left -= size;
        others -= 1;
    }
    usize::MAX
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

    proptest! {
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
