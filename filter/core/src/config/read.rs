//! Reads a JSON document and finds every mistake: serde stops at the first, so it is read again without that.

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::error::Category;
use zeroize::Zeroize;

use super::place::{PathStep, place};
use super::{ConfigError, Problem};

/// Further mistakes are not listed.
const MAX_PROBLEMS: usize = 50;

pub(super) struct ReadFailure<T> {
    /// At least one.
    pub(super) problems: Vec<Problem>,
    pub(super) rest: Option<T>,
    /// Objects and lists with removals, as `policies.web`; the document itself is empty.
    pub(super) broken: Vec<String>,
}

impl<T> From<ReadFailure<T>> for ConfigError {
    fn from(unread: ReadFailure<T>) -> Self {
        Self {
            problems: unread.problems,
        }
    }
}

/// `whole` names the document in errors; `secret` says whether a field may hold a key.
pub(super) fn read_json<T: DeserializeOwned>(
    json: &[u8],
    whole: &str,
    secret: impl Fn(&str) -> bool,
) -> Result<T, ReadFailure<T>> {
    let mut mistake = match read(json) {
        Ok(value) => return Ok(value),
        Err(mistake) => mistake,
    };
    let mut repair = DocumentRepair::new(json);
    let mut problems = Vec::new();
    let mut rest = None;
    while problems.len() < MAX_PROBLEMS {
        if !repair.explains(&mistake) {
            let field = field(&repair.original(&mistake.path));
            problems.push(Problem {
                // The whole document may be a key by mistake.
                message: mistake.message(field.is_empty() || secret(&field)),
                field: if field.is_empty() { whole.to_owned() } else { field },
            });
        }
        if !repair.remove(&mistake.path) {
            break;
        }
        match repair.read() {
            Ok(value) => {
                rest = Some(value);
                break;
            }
            Err(next) => mistake = next,
        }
    }
    let broken = repair.broken.iter().map(|path| field(path)).collect();
    Err(ReadFailure { problems, rest, broken })
}

struct DocumentError {
    path: Vec<PathStep>,
    text: String,
}

impl DocumentError {
    fn new(path: Vec<PathStep>, error: &serde_json::Error) -> Self {
        let (line, column) = (error.line(), error.column());
        let whole = error.to_string();
        let text = whole.split(" at line ").next().unwrap_or_default();
        let text = match (error.classify(), text.strip_prefix("EOF while parsing ")) {
            (Category::Eof, Some(within)) => format!("the text ends within {within}, at line {line} column {column}"),
            (Category::Syntax | Category::Eof, _) => format!("{text} at line {line} column {column}"),
            // Without the position: Envoy may have made the JSON from the operator's text.
            _ => text.to_owned(),
        };
        Self { path, text }
    }

    fn message(&self, secret: bool) -> String {
        match self.text.rsplit_once("expected ") {
            // serde repeats the value that it found.
            Some((_, expected)) if secret => format!("expected {}", plain(expected)),
            Some((found, expected)) => format!("{found}expected {}", plain(expected)),
            None => plain(&self.text).to_owned(),
        }
    }
}

/// Words of JSON for serde's words.
fn plain(text: &str) -> &str {
    match text {
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number, 0 or more",
        "a sequence" => "a list",
        "a map" => "an object",
        "invalid socket address syntax" => "expected an IP address and a port, as 127.0.0.1:18000",
        "invalid IP address syntax" => "expected an IP address, as 192.0.2.1",
        _ if text.starts_with("struct ") => "an object",
        _ => text,
    }
}

fn read<T: DeserializeOwned>(json: &[u8]) -> Result<T, DocumentError> {
    serde_json::from_slice(json).map_err(|error| DocumentError::new(place(json, &error), &error))
}

/// A path as `keys[0].id`.
fn field(steps: &[PathStep]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            PathStep::Field(name) if text.is_empty() => text += name,
            PathStep::Field(name) => text.extend([".", name]),
            PathStep::Element(index) => text.extend(["[", &index.to_string(), "]"]),
        }
    }
    text
}

/// A document that loses its mistakes one by one. It is wiped, because it may hold keys.
struct DocumentRepair {
    document: Value,
    /// Removed elements of lists, in order. Each shifts those behind it.
    elements: Vec<(Vec<PathStep>, usize)>,
    /// The objects and lists with removals, by their original places.
    broken: Vec<Vec<PathStep>>,
}

impl DocumentRepair {
    fn new(json: &[u8]) -> Self {
        Self {
            // From a text that is not JSON, nothing can be removed.
            document: serde_json::from_slice(json).unwrap_or_default(),
            elements: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Whether a mistake follows from a removal: a field is missing where one had a wrong name.
    fn explains(&self, mistake: &DocumentError) -> bool {
        mistake.text.starts_with("missing field") && self.broken.contains(&self.original(&mistake.path))
    }

    fn remove(&mut self, path: &[PathStep]) -> bool {
        let Some((last, parent)) = path.split_last() else {
            return false;
        };
        self.broken.push(self.original(parent));
        let within = parent.iter().try_fold(&mut self.document, |value, step| match step {
            PathStep::Field(name) => value.get_mut(name),
            PathStep::Element(index) => value.get_mut(index),
        });
        let removed = match (within, last) {
            (Some(Value::Object(fields)), PathStep::Field(name)) => fields.remove(name),
            (Some(Value::Array(elements)), PathStep::Element(index)) if *index < elements.len() => {
                self.elements.push((parent.to_vec(), *index));
                Some(elements.remove(*index))
            }
            _ => None,
        };
        removed.map(|mut value| wipe(&mut value)).is_some()
    }

    fn read<T: DeserializeOwned>(&self) -> Result<T, DocumentError> {
        let mut json = self.document.to_string().into_bytes();
        let value = read(&json);
        json.zeroize();
        value
    }

    /// The place in the original document.
    fn original(&self, path: &[PathStep]) -> Vec<PathStep> {
        let mut path = path.to_vec();
        for (list, removed) in self.elements.iter().rev() {
            if !path.starts_with(list) {
                continue;
            }
            if let Some(PathStep::Element(index)) = path.get_mut(list.len())
                && *index >= *removed
            {
                *index += 1;
            }
        }
        path
    }
}

impl Drop for DocumentRepair {
    fn drop(&mut self) {
        wipe(&mut self.document);
    }
}

fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(elements) => elements.iter_mut().for_each(wipe),
        Value::Object(fields) => fields.values_mut().for_each(wipe),
        _ => {}
    }
}
