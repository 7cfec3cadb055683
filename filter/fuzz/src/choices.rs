//! The content of fuzzed objects, chosen by bytes.

use serde_json::Value;

/// Bytes as a row of choices. When they end, all choices are the first one.
pub struct Choices<'d>(pub &'d [u8]);

const WORDS: [&str; 32] = [
    "a",
    "/",
    "/shop",
    "*",
    "+",
    "?",
    "[a-c]",
    "[^/]",
    "(",
    ")",
    "|",
    "{2}",
    "{1000}",
    ".",
    ".*",
    r"\d",
    r"\p{Letter}",
    "[[:foo:]]",
    "(?i)",
    "^",
    "$",
    "#",
    "%",
    "é",
    "\n",
    "\u{0}",
    "//",
    r"\",
    "é-ü",
    "https://*.a",
    "%REQ(x)%",
    "1s",
];

impl Choices<'_> {
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    pub fn pick(&mut self, items: &[&str]) -> String {
        items
            .get(self.below(items.len()))
            .map(|item| (*item).to_owned())
            .unwrap_or_default()
    }

    /// Up to `most` of what `make` makes.
    pub fn some(&mut self, most: usize, make: impl Fn(&mut Self) -> Value) -> Value {
        (0..self.below(most + 1)).map(|_| make(self)).collect()
    }

    pub fn text(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..=self.below(6) {
            if self.below(8) == 7 {
                let (raw, rest) = self.0.split_at(self.0.len().min(5));
                self.0 = rest;
                text.push_str(&String::from_utf8_lossy(raw));
            } else {
                let word = self.pick(&WORDS);
                text.push_str(&word.repeat(if self.below(32) == 31 { 300 } else { 1 }));
            }
        }
        text
    }

    /// Mostly a good one, because an object is refused for a single bad one.
    pub fn mostly(&mut self, good: &[&str]) -> String {
        if self.below(8) == 7 {
            self.text()
        } else {
            self.pick(good)
        }
    }
}
