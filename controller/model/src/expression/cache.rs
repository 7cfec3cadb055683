//! What texts were translated to. Everything is built again after a change, mostly with expressions of the last build.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use super::Expression;

/// The maximum of texts in each generation.
const MOST: usize = 16_384;
/// The maximum of the bytes of texts and translations.
const MOST_BYTES: usize = 8 << 20;

type Translation = Result<Expression, String>;

/// Two generations: when the younger one is full, it replaces the older one. So what is used stays, and what is not
/// used goes, without a list to keep in order.
#[derive(Default)]
pub(super) struct Cache {
    young: HashMap<Box<str>, Translation>,
    young_bytes: usize,
    old: HashMap<Box<str>, Translation>,
}

impl Cache {
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

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);

/// The translation of `text`, made by `translate` if it is not known.
pub(super) fn get(text: &str, translate: impl FnOnce() -> Translation) -> Translation {
    if text.len() > Expression::MOST_BYTES {
        return translate();
    }
    // A panic while it is locked cannot leave it half changed in a way that matters.
    let lock = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().get(text) {
        return known;
    }
    let translation = translate();
    lock().insert(text, translation.clone());
    translation
}
