//! The values of annotations, and how they are read.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use limpet_core::config::Problem;

const NONE: &str = "none";
/// The most bytes of a YAML text: each build reads all of them.
const MAX_YAML: usize = 4096;

#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldValues {
    /// One of these words.
    Words(&'static [&'static str]),
    /// Values that the text describes, with at least two valid examples for the tests.
    #[cfg_attr(not(test), expect(dead_code, reason = "nothing but tests needs examples"))]
    Like(&'static str, &'static [&'static str]),
    /// A text for nothing, or YAML of a field of the filter's policy. The first example is for messages.
    Yaml(&'static str, &'static [&'static str]),
}

pub(super) const FLAG: FieldValues = FieldValues::Words(&["true", "false"]);
pub(super) const DURATION: FieldValues = FieldValues::Like("a duration like 30m, 1h30m or 500ms", &["1h30m", "2s"]);

pub(super) const fn or_none(examples: &'static [&'static str]) -> FieldValues {
    FieldValues::Yaml(NONE, examples)
}

impl FieldValues {
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Like(text, _) => text.to_owned(),
            Self::Words(words) => match words {
                [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
                words => words.concat(),
            },
            Self::Yaml(nothing, examples) => {
                format!("{nothing}, or YAML like {}", examples.first().unwrap_or(&nothing))
            }
        }
    }

    pub(super) fn may_be(self, text: &str) -> bool {
        match self {
            Self::Words(words) => words.contains(&text),
            Self::Like(..) | Self::Yaml(..) => true,
        }
    }

    /// Valid values that differ. For words, all of them.
    #[cfg(test)]
    pub(crate) fn examples(self) -> &'static [&'static str] {
        match self {
            Self::Words(examples) | Self::Like(_, examples) | Self::Yaml(_, examples) => examples,
        }
    }
}

/// A field that can also say that there is nothing, whatever others say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueOrNone<T>(pub Option<T>);

impl<T: Serialize> Serialize for ValueOrNone<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_str(NONE),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for ValueOrNone<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if value == NONE {
            return Ok(Self(None));
        }
        read(&value).map(|value| Self(Some(value))).map_err(D::Error::custom)
    }
}

/// A problem of a text, beyond that it is not what was expected.
pub(super) type ValueError = Option<String>;

/// Reads a word or flag as the filter's configuration does.
pub(super) fn word<T: DeserializeOwned>(text: &str) -> Result<T, ValueError> {
    let flag = text.parse().map(Value::Bool);
    let value = flag.unwrap_or_else(|_| Value::String(text.to_owned()));
    serde_json::from_value(value).map_err(|_| None)
}

pub(super) fn status(text: &str) -> Result<u16, ValueError> {
    let is_number = text.bytes().all(|b| b.is_ascii_digit());
    let status = text.parse().ok().filter(|_| is_number);
    status.filter(|status| (400..=599).contains(status)).ok_or(None)
}

pub(super) fn non_empty(text: &str) -> Result<String, ValueError> {
    if text.is_empty() {
        return Err(None);
    }
    Ok(text.to_owned())
}

/// Reads a field as the filter's configuration has it.
pub(super) fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, ValueError> {
    let length = text.len();
    if length > MAX_YAML {
        return Err(Some(format!("{length} bytes, expected at most {MAX_YAML}")));
    }
    let options = serde_saphyr::options! {
        with_snippet: false,
        // A name like `on` is a text.
        strict_booleans: true,
        // An annotation could otherwise make a million values of a few bytes.
        budget: serde_saphyr::budget! { max_anchors: 0, max_aliases: 0 },
    };
    let value: Value = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let message = error.to_string();
        let is_anchor = ["Anchors", "Aliases"]
            .iter()
            .any(|what| message.contains(&format!("breached: {what}")));
        Some(if is_anchor {
            "no anchors and aliases expected".to_owned()
        } else {
            message
        })
    })?;
    read(&value).map_err(Some)
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    limpet_core::config::read(value.to_string().as_bytes(), "").map_err(|error| {
        let told = error.problems.into_iter().map(|Problem { field, message }| {
            let of = if field.is_empty() { "" } else { ": " };
            format!("{field}{of}{message}")
        });
        told.collect::<Vec<_>>().join("; ")
    })
}

pub(super) fn yaml_or_none<T: DeserializeOwned>(text: &str) -> Result<ValueOrNone<T>, ValueError> {
    if text == NONE {
        return Ok(ValueOrNone(None));
    }
    yaml(text).map(|value| ValueOrNone(Some(value)))
}
