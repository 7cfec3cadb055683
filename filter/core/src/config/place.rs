//! The place in a JSON document where serde stopped, by the line and column of `serde_json`. `serde_path_to_error` made
//! the wasm filter 6 % larger.

#[derive(Clone, PartialEq, Eq)]
pub(super) enum PathStep {
    Field(String),
    Element(usize),
}

/// The path to the value of an error; empty for the document itself.
pub(super) fn place(json: &[u8], error: &serde_json::Error) -> Vec<PathStep> {
    let lines = json.split_inclusive(|byte| *byte == b'\n');
    let before: usize = lines.take(error.line().saturating_sub(1)).map(<[u8]>::len).sum();
    // A syntax error is behind the byte of its column, a wrong value before it.
    let end = before + error.column().saturating_sub(usize::from(!error.is_data()));
    let read = json.get(..end).unwrap_or(json).trim_ascii_end();
    let mut scan = PositionScan::default();
    scan.read(read);
    let mut path: Vec<PathStep> = scan.open.into_iter().filter_map(|(_, step)| step).collect();
    // serde reads an object or list to its end before it reports a wrong meaning of its last value.
    let is_closed = matches!(read.last(), Some(b'}' | b']'));
    if error.is_data() && is_closed && !is_about_the_whole(error) {
        path.extend(scan.last);
    }
    path
}

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

#[derive(Default)]
struct PositionScan {
    /// Open objects (`true`) and lists, with the current field or element.
    open: Vec<(bool, Option<PathStep>)>,
    last: Option<PathStep>,
}

impl PositionScan {
    fn read(&mut self, mut json: &[u8]) {
        while let Some((first, mut rest)) = json.split_first() {
            match (first, self.open.last_mut()) {
                (b'"', innermost) => {
                    let text;
                    (text, rest) = split_text(json);
                    if let Some((true, name @ None)) = innermost {
                        *name = serde_json::from_slice(text).ok().map(PathStep::Field);
                    }
                }
                (b'{', _) => self.open.push((true, None)),
                (b'[', _) => self.open.push((false, Some(PathStep::Element(0)))),
                (b',', Some((_, Some(PathStep::Element(index))))) => *index += 1,
                (b',', Some((_, field))) => *field = None,
                (b'}' | b']', _) => self.last = self.open.pop().and_then(|(_, step)| step),
                _ => {}
            }
            json = rest;
        }
    }
}

fn split_text(json: &[u8]) -> (&[u8], &[u8]) {
    let mut is_escaped = true;
    let end = json.iter().position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = !is_escaped && *byte == b'\\';
        ends
    });
    json.split_at(end.map_or(json.len(), |end| end + 1))
}
