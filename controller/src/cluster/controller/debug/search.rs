//! The search of the page.

use crate::cluster::reconcile::status::shortened;

/// Limits of a query.
const MOST_BYTES: usize = 256;
const MOST_WORDS: usize = 8;

/// A match has each of the words in some text, in any case.
#[derive(Debug, Default)]
pub(super) struct SearchWords {
    words: Vec<String>,
}

/// A bit for each word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MatchedWords(u8);

impl SearchWords {
    pub(super) fn new(query: &str) -> Self {
        let words = shortened(query, MOST_BYTES).split_whitespace().take(MOST_WORDS);
        Self {
            words: words.map(str::to_lowercase).collect(),
        }
    }

    /// Whether everything matches.
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn words(&self) -> &[String] {
        &self.words
    }

    pub(super) fn match_words<T: AsRef<str>>(&self, texts: impl IntoIterator<Item = T>) -> MatchedWords {
        let mut found = MatchedWords::default();
        if self.words.is_empty() {
            return found;
        }
        for text in texts {
            let text = text.as_ref().to_lowercase();
            for (index, word) in self.words.iter().enumerate() {
                found.0 |= u8::from(text.contains(word)) << index;
            }
        }
        found
    }

    pub(super) fn is_whole(&self, found: MatchedWords) -> bool {
        found.0.count_ones() as usize == self.words.len()
    }
}

impl MatchedWords {
    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn is_nothing(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_must_be_found_somewhere() {
        let search = SearchWords::new("  Shop cart ");
        assert_eq!(search.words(), ["shop", "cart"]);
        let route = search.match_words(["default/SHOP", "shop.example"]);
        let service = search.match_words(["default/cart-v2"]);
        assert!(!search.is_whole(route) && !search.is_whole(service));
        assert!(search.is_whole(route.or(service)));
        assert!(search.match_words(["other"]).is_nothing());
        let all = SearchWords::new(" ");
        assert!(all.is_empty() && all.is_whole(all.match_words(["anything"])));
    }

    #[test]
    fn a_long_query_is_cut_and_does_not_overflow() {
        let many = "ä ".repeat(1000);
        let search = SearchWords::new(&many);
        assert_eq!(search.words().len(), MOST_WORDS);
        assert!(search.is_whole(search.match_words(["Ä"])));
        assert_eq!(SearchWords::new(&"ä".repeat(1000)).words().concat().len(), MOST_BYTES);
    }
}
