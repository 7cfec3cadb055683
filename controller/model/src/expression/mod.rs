//! Regular expressions. Envoy refuses a whole route table for one that RE2 does not read or that is too large. So
//! Rust's parser reads it, and it is printed in a small syntax that every RE2 reads alike, with a known size. See
//! `design/regular-expressions.md`.
//!
//! Envoy matches whole values, so groups capture nothing and lazy repetitions are greedy ones.
//!
//! Envoy's RE2 reads characters (UTF-8) before Envoy 1.39 and bytes (Latin-1) since then. The printed expression means
//! the same to both in valid UTF-8, with one exception: a class of all characters beyond ASCII, like `.`, takes one of
//! them or one byte of them. So `.{3}` counts bytes since Envoy 1.39.

mod cache;
mod class;
mod part;
mod translate;

/// A regular expression that every Envoy reads alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression {
    text: String,
    instructions: u32,
}

impl Expression {
    /// The longest text that is read, in bytes, as for a header's value in the Gateway API.
    pub const MOST_BYTES: usize = 4096;
    /// The limit of RE2's program, as Envoy has it (`re2.max_program_size.error_level`).
    ///
    /// A repetition counts as often as it repeats, so this also keeps expressions below RE2's limit of 1000 repetitions
    /// within each other.
    pub const MOST_INSTRUCTIONS: u32 = 1000;
    /// RE2's instructions to fail, to match, and to search for the beginning.
    const FRAME: u32 = 5;

    /// Translates an expression.
    ///
    /// # Errors
    /// If RE2 does not read it or reads it otherwise than Rust, if releases of Envoy read it differently, or if it is
    /// too large. The message has what was expected, whose limit it is, and what was found.
    pub fn parse(text: &str) -> Result<Self, String> {
        cache::get(text, || Self::translate(text))
    }

    fn translate(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Err(unreadable("it is empty"));
        }
        if text.len() > Self::MOST_BYTES {
            let (most, found) = (Self::MOST_BYTES, text.len());
            return Err(over_limit(&format!("expected at most {most} bytes, found {found}")));
        }
        let part = translate::translated(text)?.without_outer_anchors();
        let instructions = part.size().saturating_add(Self::FRAME);
        if instructions > Self::MOST_INSTRUCTIONS {
            let most = Self::MOST_INSTRUCTIONS;
            return Err(over_limit(&format!(
                "expected a program of at most {most} instructions, found {instructions}"
            )));
        }
        Ok(Self {
            text: part.text(),
            instructions,
        })
    }

    /// The expression in the small syntax.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The size of RE2's program, at most.
    #[must_use]
    pub fn instructions(&self) -> u32 {
        self.instructions
    }

    /// A text that matches only itself, as a part of an expression.
    pub(crate) fn escape(text: &str) -> String {
        text.chars().map(part::literal).collect()
    }

    pub(crate) fn as_part(&self) -> String {
        if self.text.contains('|') {
            part::group(&self.text)
        } else {
            self.text.clone()
        }
    }
}

fn unreadable(message: &str) -> String {
    format!("expected a regular expression that RE2 and Rust read alike: {message}")
}

/// RE2 may well read it.
fn over_limit(message: &str) -> String {
    format!("expected a regular expression within Limpet's limits: {message}")
}

#[cfg(test)]
mod tests;
