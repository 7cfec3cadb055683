//! The place in a JSON document where serde stopped.
//!
//! `serde_json` says a line and a column, and a scan up to there finds the field. `serde_path_to_error` follows each
//! field while it is read, and its code for every type of the configuration made the wasm filter 6 % larger.

/// A part of the path to a field.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Step {
    Field(String),
    Element(usize),
}

/// The path to the value that an error of [`serde_json::from_slice`] is about; empty for the document itself.
pub(super) fn place(json: &[u8], error: &serde_json::Error) -> Vec<Step> {
    let lines = json.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    // What is no JSON is behind the byte of its column, and a wrong value before it.
    let end = before + error.column().saturating_sub(usize::from(!error.is_data()));
    let read = json.get(..end).unwrap_or(json).trim_ascii_end();
    let mut scan = Scan::default();
    scan.read(read);
    let mut path: Vec<Step> = scan.open.into_iter().filter_map(|(_, step)| step).collect();
    // serde reads to the end of an object or list before it says that the last value in it has the wrong meaning.
    let is_closed = matches!(read.last(), Some(b'}' | b']'));
    if error.is_data() && is_closed && !is_about_the_whole(error) {
        path.extend(scan.last);
    }
    path
}

/// Whether an error is about an object or a list, and not about a value in it.
fn is_about_the_whole(error: &serde_json::Error) -> bool {
    let text = error.to_string();
    let whole = [
        "missing field",
        "invalid length",
        "invalid type: sequence",
        "invalid type: map",
    ];
    whole.iter().any(|start| text.starts_with(start))
}

/// What the beginning of a document has.
#[derive(Default)]
struct Scan {
    /// The objects and lists that are open at its end: whether it is an object, and the field or element in it.
    open: Vec<(bool, Option<Step>)>,
    /// The last field or element of what was closed last.
    last: Option<Step>,
}

impl Scan {
    fn read(&mut self, mut json: &[u8]) {
        while let Some((first, mut rest)) = json.split_first() {
            match (first, self.open.last_mut()) {
                (b'"', innermost) => {
                    let text;
                    (text, rest) = split_text(json);
                    if let Some((true, name @ None)) = innermost {
                        *name = serde_json::from_slice(text).ok().map(Step::Field);
                    }
                }
                (b'{', _) => self.open.push((true, None)),
                (b'[', _) => self.open.push((false, Some(Step::Element(0)))),
                (b',', Some((_, Some(Step::Element(index))))) => *index += 1,
                (b',', Some((_, field))) => *field = None,
                (b'}' | b']', _) => self.last = self.open.pop().and_then(|(_, step)| step),
                _ => {}
            }
            json = rest;
        }
    }
}

/// The text in quotation marks that JSON begins with, and what follows it.
fn split_text(json: &[u8]) -> (&[u8], &[u8]) {
    let mut is_escaped = true;
    let end = json.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = !is_escaped && *byte == b'\\';
        ends
    });
    json.split_at(end.map_or(json.len(), |end| end + 1))
}
