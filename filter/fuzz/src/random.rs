use std::time::{SystemTime, UNIX_EPOCH};

/// The `SplitMix64` generator.
pub struct Random(u64);

impl Random {
    /// Makes the same choices for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Seeded by `LIMPET_FUZZ_SEED`, or by the clock. Prints the seed.
    ///
    /// # Panics
    /// If the variable is not a number.
    pub fn seeded() -> Self {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let seed = match std::env::var("LIMPET_FUZZ_SEED") {
            Ok(text) => text.parse().expect("LIMPET_FUZZ_SEED is a number"),
            Err(_) => clock.subsec_nanos().into(),
        };
        println!("LIMPET_FUZZ_SEED={seed}");
        Self(seed)
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below this one; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.number() % bound.max(1) as u64).unwrap_or(0)
    }

    /// Any byte.
    pub fn byte(&mut self) -> u8 {
        self.number().to_le_bytes()[0]
    }

    /// Any bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// One of these, of which there must be one.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// `least` to `most` of what `make` makes.
    pub fn some(&mut self, least: usize, most: usize, mut make: impl FnMut(&mut Self) -> String) -> Vec<String> {
        let count = least + self.below(most + 1 - least);
        (0..count).map(|_| make(self)).collect()
    }
}
