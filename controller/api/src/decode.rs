use serde::Deserialize as _;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{DecodeError, Meta, Object};

/// Reads an object whose content is under `spec`.
///
/// # Errors
/// If `metadata` or `spec` does not have the shape of the kind. Objects from the API server rarely fail, since it
/// checks their schema; objects from files have no schema.
pub fn object<S: DeserializeOwned + Default>(value: &Value) -> Result<Object<S>, DecodeError> {
    let meta = value.get("metadata").unwrap_or(&Value::Null);
    let meta: Meta = serde_path_to_error::deserialize(meta).map_err(|error| at("metadata", &error))?;
    let mut unread = Vec::new();
    let spec = match value.get("spec") {
        None => S::default(),
        Some(spec) => {
            let mut track = serde_path_to_error::Track::new();
            let tracked = serde_path_to_error::Deserializer::new(spec, &mut track);
            let read = serde_ignored::deserialize(tracked, |path| unread.push(path_text(&path)));
            read.map_err(|source| {
                let error = serde_path_to_error::Error::new(track.path(), source);
                at("spec", &error)
            })?
        }
    };
    Ok(Object {
        meta,
        spec,
        unread,
        malformed: None,
    })
}

/// The `spec` of a kind.
pub trait Spec: DeserializeOwned + Default {
    /// The part of a malformed `spec` that says whose object it is and what it is attached to, so that its status can
    /// be written. The rest is left out, since half of a `spec` may mean something else.
    #[must_use]
    fn readable(_spec: &Value) -> Self {
        Self::default()
    }
}

/// Reads an object as [`object`] does. Of a malformed object, it returns [`Spec::readable`] and the error.
#[must_use]
pub fn readable<S: Spec>(value: &Value) -> Object<S> {
    object(value).unwrap_or_else(|error| {
        let part = |name: &str| value.get(name).unwrap_or(&Value::Null);
        Object {
            meta: Meta::deserialize(part("metadata")).unwrap_or_default(),
            spec: S::readable(part("spec")),
            unread: Vec::new(),
            malformed: Some(error),
        }
    })
}

/// The text of this field; empty if the field is missing.
pub(super) fn text(spec: &Value, name: &str) -> String {
    let text = spec.get(name).and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// The items of this list that can be read.
pub(super) fn items<T: DeserializeOwned>(spec: &Value, name: &str) -> Vec<T> {
    let list = spec.get(name).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(|item| T::deserialize(item).ok())
        .collect()
}

fn at(root: &str, error: &serde_path_to_error::Error<serde_json::Error>) -> DecodeError {
    let path = error.path().to_string();
    let field = match path.as_str() {
        "." => root.to_owned(),
        path if path.starts_with('[') => format!("{root}{path}"),
        path => format!("{root}.{path}"),
    };
    DecodeError {
        field,
        message: plain(&error.inner().to_string()),
    }
}

/// The message with the API's words for types instead of Rust's.
fn plain(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once("expected ") else {
        return message.to_owned();
    };
    let expected = match expected {
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "i64" => "a whole number",
        "a sequence" => "a list",
        "a map" => "an object",
        expected if expected.starts_with("struct ") => "an object",
        expected => expected,
    };
    format!("{found}expected {expected}")
}

/// `spec.rules[0].retry`, where `serde_ignored` writes `rules.0.retry`.
fn path_text(path: &serde_ignored::Path<'_>) -> String {
    use serde_ignored::Path;
    match path {
        Path::Root => "spec".to_owned(),
        Path::Seq { parent, index } => format!("{}[{index}]", path_text(parent)),
        Path::Map { parent, key } => format!("{}.{key}", path_text(parent)),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => path_text(parent),
    }
}
