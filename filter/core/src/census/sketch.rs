use std::collections::HashSet;
use std::mem;

use cardinality_estimator_safe as estimator;
use serde::{Deserialize, Serialize};

/// Bits of a register's index and of its rank.
const INDEX: usize = 12;
const RANK: usize = 6;
const REGISTERS: usize = 1 << INDEX;
/// One more than the bits of a hash (64) that the index leaves.
const MAX_RANK: u32 = 53;
/// Two numbers computed from the registers, the registers, and three spare words.
const LEN: usize = 2 + REGISTERS * RANK / 32 + 3;
/// Elements of the sparse forms.
const SPARSE: std::ops::RangeInclusive<usize> = 3..=128;

/// Counts distinct sessions: exactly up to 128, then within about 1.6 % (one standard deviation of a `HyperLogLog` with
/// 4,096 registers), in 8 bytes to 3 KB. Cloudflare's own crate needs 64-bit pointers, which wasm lacks.
#[derive(Debug, Clone, Default)]
pub struct Sketch(estimator::Sketch<INDEX, RANK>);

/// How the crate writes a sketch.
#[derive(Serialize, Deserialize)]
enum SerializedSketch {
    /// Up to two elements.
    Small(u64),
    Sparse(Vec<u32>),
    /// Number of zero registers, sum of 2^-rank as the bits of an `f32`, registers.
    Registers(Vec<u32>),
}

impl Sketch {
    /// Counts a session by its hash.
    pub fn insert(&mut self, hash: u64) {
        self.0.insert(estimator::Element::from_hashed(hash));
    }

    /// The number of sessions, at most 2^32, as there are nonces.
    #[must_use]
    pub fn estimate(&self) -> usize {
        let sessions = u32::try_from(self.0.estimate()).unwrap_or(u32::MAX);
        usize::try_from(sessions).unwrap_or(usize::MAX)
    }

    /// The union of sketches from any source, computed again from the registers: merged made-up ones can have rounding
    /// errors that take the estimate to zero.
    #[must_use]
    pub fn union<'s>(sketches: impl IntoIterator<Item = &'s Self>) -> Self {
        let mut all = Self::default();
        sketches.into_iter().for_each(|sketch| all.merge(sketch));
        Self::from_bytes(&all.to_bytes()).unwrap_or(all)
    }

    /// Merges a sketch of this Envoy. For others, see [`Self::union`].
    pub(super) fn merge(&mut self, other: &Self) {
        self.0.merge(&other.0);
    }

    /// Its form in reports.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        // Numbers can all be written.
        postcard::to_allocvec(&self.0).unwrap_or_default()
    }

    /// Reads a sketch that sessions can make. Numbers that follow from its registers are computed again.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut written: SerializedSketch = postcard::from_bytes(bytes).ok()?;
        written.check()?;
        let bytes = postcard::to_allocvec(&written).ok()?;
        postcard::from_bytes(&bytes).ok().map(Self)
    }
}

impl SerializedSketch {
    /// Whether hashes can make it. Computes what follows from the registers.
    fn check(&mut self) -> Option<()> {
        let is_element = |element: u32| (1..=MAX_RANK).contains(&(element & ((1 << RANK) - 1)));
        let is_sketch = match self {
            Self::Small(pair) => {
                let elements = [*pair >> 2, *pair >> 33].map(|bits| (bits & 0x7fff_ffff) as u32);
                elements.iter().all(|element| *element == 0 || is_element(*element))
            }
            Self::Sparse(elements) => {
                let distinct: HashSet<u32> = elements
                    .iter()
                    .copied()
                    .filter(|element| is_element(*element))
                    .collect();
                SPARSE.contains(&elements.len()) && distinct.len() == elements.len()
            }
            Self::Registers(words) => {
                let [zeros, sum, registers @ ..] = words.as_mut_slice() else {
                    return None;
                };
                if registers.len() + 2 != LEN {
                    return None;
                }
                let mut by_rank = [0_u32; 1 << RANK];
                for rank in ranks(registers) {
                    *by_rank.get_mut(rank)? += 1;
                }
                let terms = (0..)
                    .zip(by_rank)
                    .map(|(rank, count)| f64::from(count) * 0.5_f64.powi(rank));
                #[expect(clippy::cast_possible_truncation, reason = "the crate's type")]
                let exact = terms.sum::<f64>() as f32;
                *sum = exact.to_bits();
                *zeros = by_rank[0];
                (0..).zip(by_rank).all(|(rank, count)| rank <= MAX_RANK || count == 0)
            }
        };
        is_sketch.then_some(())
    }
}

/// The ranks, which are packed into words from the lowest bits on.
fn ranks(words: &[u32]) -> impl Iterator<Item = usize> {
    let (mut bits, mut len, mut words) = (0_u64, 0, words.iter());
    (0..REGISTERS).map_while(move |_| {
        if len < RANK {
            bits |= u64::from(*words.next()?) << len;
            len += 32;
        }
        len -= RANK;
        let rest = bits >> RANK;
        let rank = mem::replace(&mut bits, rest) & ((1 << RANK) - 1);
        usize::try_from(rank).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::census::backend_tally::spread;

    fn sketch(sessions: std::ops::Range<u64>) -> Sketch {
        let mut sketch = Sketch::default();
        for session in sessions {
            sketch.insert(spread(session));
        }
        sketch
    }

    fn written(sketch: &Sketch) -> SerializedSketch {
        postcard::from_bytes(&sketch.to_bytes()).unwrap()
    }

    fn read(written: &SerializedSketch) -> Option<Sketch> {
        Sketch::from_bytes(&postcard::to_allocvec(written).unwrap())
    }

    fn of_rank(rank: u32) -> Sketch {
        let mut registers = vec![0; LEN - 2];
        for at in 0..REGISTERS {
            let bits = u64::from(rank) << (at * RANK % 32);
            registers[at * RANK / 32] |= u32::try_from(bits & u64::from(u32::MAX)).unwrap();
            registers[at * RANK / 32 + 1] |= u32::try_from(bits >> 32).unwrap();
        }
        let exact = 4096.0 * 0.5_f32.powi(rank.cast_signed());
        let mut words = vec![0, exact.to_bits()];
        words.extend(registers);
        postcard::from_bytes(&postcard::to_allocvec(&SerializedSketch::Registers(words)).unwrap())
            .map(Sketch)
            .unwrap()
    }

    #[test]
    fn a_sketch_is_what_was_written() {
        for sessions in [0, 1, 2, 3, 100, 128, 129, 5_000, 200_000] {
            let sketch = sketch(0..sessions);
            let read = Sketch::from_bytes(&sketch.to_bytes()).unwrap();
            assert_eq!(read.0, sketch.0, "{sessions}");
            // Its numbers are exact, where the crate adds and subtracts.
            let [read, before] = [read, sketch].map(|sketch| sketch.estimate());
            assert!(read.abs_diff(before) * 1000 <= before, "{read} of {before}");
        }
    }

    #[test]
    fn the_numbers_of_a_sketch_follow_from_its_registers() {
        let honest = sketch(0..5_000);
        for (zeros, sum) in [(0, f32::NAN), (0, f32::INFINITY), (4096, -1.0), (0, 0.0), (7, 1e30)] {
            let SerializedSketch::Registers(mut words) = written(&honest) else {
                panic!("registers");
            };
            (words[0], words[1]) = (zeros, sum.to_bits());
            let read = read(&SerializedSketch::Registers(words)).unwrap();
            assert!(read.estimate().abs_diff(5_000) < 250, "{}", read.estimate());
        }
    }

    #[test]
    fn what_no_session_makes_is_no_sketch() {
        let rank = |rank: u32| (5 << RANK) | rank;
        assert!(read(&SerializedSketch::Small(u64::from(rank(53)) << 2)).is_some());
        assert!(read(&SerializedSketch::Small(u64::from(rank(54)) << 2)).is_none());
        assert!(read(&SerializedSketch::Small(u64::from(rank(0)) << 33)).is_none());
        let three = |last| SerializedSketch::Sparse(vec![rank(1), rank(2), last]);
        assert!(read(&three(rank(3))).is_some());
        for last in [rank(2), rank(0), rank(63)] {
            assert!(read(&three(last)).is_none(), "{last}");
        }
        assert!(read(&SerializedSketch::Registers(vec![0; LEN - 1])).is_none());
        assert!(Sketch::from_bytes(&of_rank(53).to_bytes()).is_some());
        assert!(Sketch::from_bytes(&of_rank(54).to_bytes()).is_none());
        assert!(Sketch::from_bytes(b"").is_none());
    }

    #[test]
    fn nobody_takes_the_sessions_of_others_away() {
        let mut all = sketch(0..2_000);
        for rank in [13, 20, 53] {
            let before = all.estimate();
            all = Sketch::union([&all, &Sketch::from_bytes(&of_rank(rank).to_bytes()).unwrap()]);
            assert!(all.estimate() >= before, "{rank}: {} after {before}", all.estimate());
        }
        assert!(u32::try_from(all.estimate()).is_ok());
        let [honest, made_up, more] = [sketch(0..200), of_rank(13), of_rank(53)];
        for made_up in [vec![&made_up], vec![&made_up, &more]] {
            let all = Sketch::union(std::iter::once(&honest).chain(made_up));
            assert!(all.estimate() >= honest.estimate(), "{}", all.estimate());
        }
    }
}
