//! When a session begins and ends. Unset fields: the rules of [`super::policy`].

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IgnoredAny, MapAccess, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

#[cfg(feature = "schema")]
use super::constraints::{METHOD, TOKEN, cookie_and_header, cookie_header_or_methods, exactly_one};

/// When a session begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum BeginConfig {
    /// One of these words.
    Word(BeginWordConfig),
    /// Only with what this says.
    When(BeginWhenConfig),
}

impl Default for BeginConfig {
    fn default() -> Self {
        Self::Word(BeginWordConfig::Always)
    }
}

impl BeginConfig {
    /// Whether every response to a client without a session begins one.
    #[must_use]
    pub fn is_always(&self) -> bool {
        *self == Self::default()
    }
}

/// When a session begins, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum BeginWordConfig {
    /// With the first response.
    Always,
}

/// What a session begins with. At least one field; `cookie` or `header`, not both.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(extend("anyOf" = cookie_header_or_methods(), "not" = cookie_and_header()))
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BeginWhenConfig {
    /// A response in which the application sets this cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub cookie: Option<String>,
    /// A response in which the application sets this header. Case does not matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub header: Option<String>,
    /// A response to a request with one of these methods. An empty list means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(
        feature = "schema",
        schemars(inner(regex(pattern = METHOD)), extend("default" = [], "uniqueItems" = true))
    )]
    pub methods: Vec<String>,
}

/// When the application ends the session: `cookie` or `header`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(extend("oneOf" = exactly_one(&["cookie", "header"]))))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EndConfig {
    /// With a response in which it deletes this cookie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub cookie: Option<String>,
    /// With a response in which it sets this header. Case does not matter. `Clear-Site-Data` must name `"cookies"` or
    /// `"*"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = TOKEN)))]
    pub header: Option<String>,
}

// serde's untagged enums do not say which field is wrong.
impl<'de> Deserialize<'de> for BeginConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrObject;

        impl<'de> Visitor<'de> for WordOrObject {
            type Value = BeginConfig;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("always, or an object with cookie, header or methods")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<BeginConfig, E> {
                match text {
                    "always" => Ok(BeginConfig::default()),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }

            // serde's own error, but after the whole list was read, so that `place` finds the list and not its first
            // element.
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<BeginConfig, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Err(A::Error::invalid_type(Unexpected::Seq, &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<BeginConfig, A::Error> {
                BeginWhenConfig::deserialize(MapAccessDeserializer::new(map)).map(BeginConfig::When)
            }
        }

        deserializer.deserialize_any(WordOrObject)
    }
}
