//! Translations by their texts. A build after a change mostly has expressions of the last build.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::Expression;

const MOST: usize = 16_384;
/// The most bytes of texts and translations.
const MOST_BYTES: usize = 8 << 20;

type Translation = Result<Expression, String>;

/// When the younger generation is full, it replaces the older one. So used texts stay without a list to keep in order.
#[derive(Default)]
pub(super) struct TranslationCache {
    young: HashMap<Box<str>, Translation>,
    young_bytes: usize,
    old: HashMap<Box<str>, Translation>,
}

impl TranslationCache {
    pub(super) fn get(&mut self, text: &str) -> Option<Translation> {
        if let Some(found) = self.young.get(text) {
            return Some(found.clone());
        }
        let found = self.old.remove(text)?;
        self.insert(text, found.clone());
        Some(found)
    }

    pub(super) fn insert(&mut self, text: &str, translation: Translation) {
        let printed = match &translation {
            Ok(expression) => &expression.text,
            Err(message) => message,
        };
        self.young_bytes += text.len() + printed.len();
        if self.young.len() >= MOST || self.young_bytes > MOST_BYTES {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = text.len() + printed.len();
        }
        self.young.insert(text.into(), translation);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

static CACHE: LazyLock<Mutex<TranslationCache>> = LazyLock::new(Mutex::default);

pub(super) fn get(text: &str, translate: impl FnOnce() -> Translation) -> Translation {
    if text.len() > Expression::MOST_BYTES {
        return translate();
    }
    // A panic while it is locked leaves no half change that matters.
    let lock = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().get(text) {
        return known;
    }
    let translation = translate();
    lock().insert(text, translation.clone());
    translation
}
