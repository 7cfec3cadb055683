//! Files of YAML or JSON.

use std::fmt;
use std::fs::Permissions;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::Path;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use tempfile::NamedTempFile;

use crate::exit::CommandFailure;

/// The name for standard input.
pub(crate) const STDIN: &str = "-";

/// No configuration is nearly as large; a larger file was named by mistake.
const MAX_LEN: u64 = 64 * 1024 * 1024;

/// Reads a file; `-` is standard input.
///
/// # Errors
/// If the file cannot be read, or is neither YAML nor JSON.
pub(crate) fn read(file: &str) -> Result<Value, CommandFailure> {
    read_with_text(file).map(|(_, value)| value)
}

/// The documents of a file: one of JSON, or all of YAML that are not empty.
///
/// # Errors
/// If the file cannot be read, or is neither YAML nor JSON.
pub(crate) fn read_all(file: &str) -> Result<Vec<Value>, CommandFailure> {
    documents(file, &read_text(file)?)
}

/// Reads a file, with its text.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_with_text(file: &str) -> Result<(String, Value), CommandFailure> {
    let text = read_text(file)?;
    parse(file, &text).map(|value| (text, value))
}

/// Reads a file as text; `-` is standard input.
///
/// # Errors
/// If the file cannot be read, is too large, or is not UTF-8.
pub(crate) fn read_text(file: &str) -> Result<String, CommandFailure> {
    let failed = |error: &dyn std::fmt::Display| CommandFailure(format!("{file}: {error}"));
    let mut bytes = Vec::new();
    let mut limited = |reader: &mut dyn std::io::Read| reader.take(MAX_LEN + 1).read_to_end(&mut bytes);
    let read = if file == STDIN {
        limited(&mut std::io::stdin().lock())
    } else {
        std::fs::File::open(file).and_then(|mut opened| limited(&mut opened))
    };
    read.map_err(|error| failed(&format!("cannot be read: {error}")))?;
    if bytes.len() as u64 > MAX_LEN {
        return Err(failed(&"larger than 64 MiB, which no configuration is"));
    }
    String::from_utf8(bytes).map_err(|_| failed(&"neither YAML nor JSON: not UTF-8"))
}

/// Parses the text of a file, whose name says whether it is JSON.
///
/// # Errors
/// If the text is empty, has several documents, or is neither YAML nor JSON.
pub(crate) fn parse(file: &str, text: &str) -> Result<Value, CommandFailure> {
    let documents = documents(file, text)?;
    let found = documents.len();
    let mut documents = documents.into_iter();
    match (documents.next(), documents.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(CommandFailure(format!("{file}: empty"))),
        _ => Err(CommandFailure(format!("{file}: expected one document, found {found}"))),
    }
}

fn documents(file: &str, text: &str) -> Result<Vec<Value>, CommandFailure> {
    let values = if is_json(file) {
        let unique = serde_json::from_str(text).map(|UniqueNames(value)| vec![value]);
        unique.map_err(|error| format!("not JSON: {error}"))
    } else {
        yaml(text)
    };
    let mut values = values.map_err(|error| CommandFailure(format!("{file}: {error}")))?;
    values.retain(|value| !value.is_null());
    Ok(values)
}

/// Writes a new file, for its owner only.
///
/// # Errors
/// If the file exists, or cannot be written.
pub(crate) fn create(file: &str, text: &str) -> Result<(), CommandFailure> {
    let new = written(Path::new(file), text, None).map_err(|error| unwritable(file, &error))?;
    new.persist_noclobber(file).map_err(|error| match error.error {
        error if error.kind() == ErrorKind::AlreadyExists => CommandFailure(format!(
            "{file}: expected the name of a new file: this one exists, and is not overwritten"
        )),
        error => unwritable(file, &error),
    })?;
    Ok(())
}

/// Replaces a file in one step: no reader sees half of it, and Envoy, which watches for moves, notices it. The file
/// keeps its permissions; a `secret` one is for its owner only.
///
/// # Errors
/// If the file does not exist, or cannot be written.
pub(crate) fn replace(file: &str, text: &str, secret: bool) -> Result<(), CommandFailure> {
    let replaced = || {
        // A link stays one.
        let path = Path::new(file).canonicalize()?;
        let permissions = path.metadata()?.permissions();
        let new = written(&path, text, (!secret).then_some(permissions))?;
        new.persist(&path).map_err(|error| error.error)
    };
    replaced().map(drop).map_err(|error| unwritable(file, &error))
}

fn unwritable(file: &str, error: &io::Error) -> CommandFailure {
    CommandFailure(format!("{file}: cannot be written: {error}"))
}

/// A temporary file with this text beside `path`.
fn written(path: &Path, text: &str, permissions: Option<Permissions>) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut new = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    if let Some(permissions) = permissions {
        new.as_file().set_permissions(permissions)?;
    }
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    Ok(new)
}

/// By the extension. JSON is also YAML, but a file of JSON is read as strict JSON.
pub(crate) fn is_json(file: &str) -> bool {
    let extension = Path::new(file).extension();
    extension.is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
}

fn yaml(text: &str) -> Result<Vec<Value>, String> {
    serde_saphyr::from_multiple_with_options(text, yaml_options()).map_err(|error| yaml_error(&error))
}

fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        // Errors show no snippet of the file, which may hold a key.
        with_snippet: false,
        // The largest files have some millions of nodes.
        budget: serde_saphyr::budget! { max_nodes: 8_000_000, max_events: 16_000_000 },
        // A few hundred bytes of aliases can stand for any number of nodes, at a thousand times the cost of others.
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 20_000 },
    }
}

fn yaml_error(error: &serde_saphyr::Error) -> String {
    let message = error.to_string();
    if ["budget breached", "alias replay"]
        .iter()
        .any(|limit| message.contains(limit))
    {
        return format!("larger or deeper than any configuration ({message})");
    }
    format!("neither YAML nor JSON: {message}")
}

/// JSON whose objects have each name once. JSON leaves open which of two values counts, and `Value` takes the last.
struct UniqueNames(Value);

impl<'de> Deserialize<'de> for UniqueNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(UniqueNames(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(list.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, UniqueNames(value))) = fields.next_entry::<String, UniqueNames>()? {
            if object.contains_key(&name) {
                return Err(Error::custom(format!("expected each name once, found {name:?} again")));
            }
            object.insert(name, value);
        }
        Ok(object.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn aliases_and_merge_keys_are_resolved() {
        let text = "a: &x {b: 1, c: 2}\nd: *x\ne: {<<: *x, c: 3}\n";
        let expected = json!({"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 2}, "e": {"b": 1, "c": 3}});
        assert_eq!(yaml(text).unwrap(), [expected]);
    }

    #[test]
    fn json_with_tabs_is_yaml_enough() {
        assert_eq!(
            yaml("{\n\t\"a\": [1,\n\t2],\"b\":\"x\\u00e9\"}").unwrap(),
            [json!({"a": [1, 2], "b": "xé"})]
        );
    }

    #[test]
    fn bad_input_is_refused_with_its_place() {
        let error = yaml("a: 1\nb: [1\nc: 2\n").unwrap_err();
        assert!(error.contains("line"), "{error}");
        let error = yaml("a: 1\na: 2\n").unwrap_err();
        assert!(error.contains("duplicate"), "{error}");
    }

    #[test]
    fn what_expands_without_end_is_refused() {
        let text = (1..12).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, i| {
            let aliases = vec![format!("*a{}", i - 1); 9].join(", ");
            text + &format!("a{i}: &a{i} [{aliases}]\n")
        });
        assert!(yaml(&text).is_err());
        assert!(yaml(&"[".repeat(100_000)).is_err());
    }
}
