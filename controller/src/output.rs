//! What a command writes: text for people or JSON for programs on stdout, complaints on stderr, and files.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde_json::{Value, json};

use crate::exit::CommandFailure;

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// For people; `is_wide`: with all that a table has.
    Text { is_wide: bool },
    /// For programs.
    Document(DocumentFormat),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DocumentFormat {
    Json,
    Yaml,
}

impl Output {
    const TEXT: Self = Self::Text { is_wide: false };
    const WIDE: Self = Self::Text { is_wide: true };

    pub(crate) fn is_wide(self) -> bool {
        self == Self::WIDE
    }

    /// The form that these arguments ask for, as far as they can be understood: clap knows it only of arguments that
    /// are right.
    pub(crate) fn of_arguments(arguments: &[String]) -> Self {
        let mut arguments = arguments.iter().map(String::as_str);
        let mut found = Self::TEXT;
        while let Some(argument) = arguments.next() {
            let value = match argument {
                "-o" | "--output" => arguments.next(),
                _ => argument
                    .strip_prefix("--output=")
                    .or_else(|| argument.strip_prefix("-o").map(|value| value.trim_start_matches('='))),
            };
            found = value
                .and_then(|value| Self::from_str(value, false).ok())
                .unwrap_or(found);
        }
        found
    }
}

impl ValueEnum for Output {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::TEXT,
            Self::WIDE,
            Self::Document(DocumentFormat::Json),
            Self::Document(DocumentFormat::Yaml),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match *self {
            Self::TEXT => PossibleValue::new("text").help("For people"),
            Self::Text { .. } => PossibleValue::new("wide").help("For people, with more columns or rows"),
            Self::Document(DocumentFormat::Json) => PossibleValue::new("json").help("For programs"),
            Self::Document(DocumentFormat::Yaml) => PossibleValue::new("yaml").help("The same document in YAML"),
        })
    }
}

/// Writes lines for people to stdout, without what would change a terminal. A reader that closes the pipe early
/// (`| head`) causes no failure.
pub(crate) fn print(text: &str) -> Result<(), CommandFailure> {
    print_exactly(&shown(text, is_layout))
}

/// The same for programs: exactly these characters.
pub(crate) fn print_exactly(text: &str) -> Result<(), CommandFailure> {
    print_to(io::stdout(), text)
}

/// Writes lines with colours to stdout. They are left out where stdout is no terminal, or `NO_COLOR` is set.
pub(crate) fn print_styled(text: &str) -> Result<(), CommandFailure> {
    let mut rest = text;
    let mut safe = String::with_capacity(text.len());
    while let Some(start) = rest.find(ESCAPE) {
        let (before, sequence) = rest.split_at(start);
        safe += &shown(before, is_layout);
        let (style, behind) = sequence.split_at(style_len(sequence));
        safe += style;
        rest = behind;
        if style.is_empty() {
            let (escape, behind) = sequence.split_at(ESCAPE.len_utf8());
            safe += &shown(escape, is_layout);
            rest = behind;
        }
    }
    safe += &shown(rest, is_layout);
    print_to(anstream::stdout(), &safe)
}

const ESCAPE: char = '\u{1b}';

/// The length of the sequence that begins here, if it sets colours; else 0.
fn style_len(text: &str) -> usize {
    let Some(codes) = text.strip_prefix("\u{1b}[") else {
        return 0;
    };
    let end = codes.find(|character: char| !character.is_ascii_digit() && character != ';');
    let is_style = |end: &usize| codes.get(*end..).is_some_and(|rest| rest.starts_with('m'));
    end.filter(is_style).map_or(0, |end| end + "\u{1b}[m".len())
}

/// One value of what users wrote, without what would change a terminal, and without an end of its line.
#[allow(dead_code, reason = "a build without the controller shows no such values")]
pub(crate) fn printable(text: &str) -> String {
    shown(text, |_| false)
}

fn is_layout(character: char) -> bool {
    matches!(character, '\n' | '\t')
}

/// Whether a character changes more than its place: it controls the terminal, or the order in which others are shown.
fn is_unsafe(character: char) -> bool {
    let is_bidi = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character.is_control() || is_bidi
}

fn shown(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_unsafe(character) && !stays(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// JSON for programs, which changes no terminal either.
fn json(value: &Value) -> String {
    let mut text = String::new();
    // Outside of strings there are only ends of lines, and JSON escapes those that are within.
    for character in format!("{value:#}\n").chars() {
        if is_unsafe(character) && character != '\n' {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                // Writing to a String cannot fail.
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(character);
        }
    }
    text
}

fn print_to(mut stdout: impl Write, text: &str) -> Result<(), CommandFailure> {
    match stdout.write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CommandFailure(format!("cannot write the output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes lines for people to stderr.
pub(crate) fn print_error(text: &str) {
    // If even that fails, nothing is left to do.
    let _ = io::stderr().write_all(shown(text, is_layout).as_bytes());
}

/// Prints a value for programs.
///
/// # Errors
/// If it cannot be written.
pub(crate) fn print_document(format: DocumentFormat, value: &Value) -> Result<(), CommandFailure> {
    print_exactly(&document(format, value)?)
}

/// Prints a value of several, each as soon as it is known.
///
/// # Errors
/// If it cannot be written.
#[allow(dead_code, reason = "the tools print one value")]
pub(crate) fn print_next_document(format: DocumentFormat, value: &Value) -> Result<(), CommandFailure> {
    match format {
        DocumentFormat::Json => print_document(format, value),
        DocumentFormat::Yaml => print_exactly(&format!("---\n{}", document(format, value)?)),
    }
}

pub(crate) fn document(format: DocumentFormat, value: &Value) -> Result<String, CommandFailure> {
    match format {
        DocumentFormat::Json => Ok(json(value)),
        DocumentFormat::Yaml => {
            let text = yaml(value)?;
            // JSON is YAML, and escapes what would change a terminal.
            let is_safe = text
                .chars()
                .all(|character| is_layout(character) || !is_unsafe(character));
            Ok(if is_safe { text } else { json(value) })
        }
    }
}

/// YAML as programs read it.
///
/// # Errors
/// If there is no such YAML.
pub(crate) fn yaml(value: &Value) -> Result<String, CommandFailure> {
    serde_saphyr::to_string(value).map_err(|error| CommandFailure(format!("cannot write YAML: {error}")))
}

/// Says why a command ends: on stderr, and for programs also in the form that they read.
pub(crate) fn print_failure(form: Output, message: &str) {
    print_error(&format!("error: {message}\n"));
    print_failure_document(form, message);
}

/// For programs: every outcome is a document.
pub(crate) fn print_failure_document(form: Output, message: &str) {
    if let Output::Document(format) = form {
        // It is on stderr as well.
        print_document(format, &json!({"error": message})).unwrap_or_default();
    }
}

/// Writes a file and the directories around it. The file appears in one step, since an Envoy may be watching it; a
/// `secret` one is for its owner only.
///
/// # Errors
/// If the file or a directory cannot be written.
pub(crate) fn write_file(file: &Path, text: &str, secret: bool) -> Result<(), CommandFailure> {
    let written = || {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let permissions = Permissions::from_mode(if secret { 0o600 } else { 0o644 });
        let mut new = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
        new.write_all(text.as_bytes())?;
        new.persist(file).map_err(|error| error.error).map(drop)
    };
    written().map_err(|error: io::Error| CommandFailure(format!("{}: cannot be written: {error}", file.display())))
}

/// Rows of a label and a text, in two aligned columns.
#[derive(Debug, Default)]
pub(crate) struct Rows(Vec<(&'static str, String)>);

impl Rows {
    pub(crate) fn add(&mut self, label: &'static str, text: impl Into<String>) {
        self.0.push((label, text.into()));
    }

    pub(crate) fn text(&self) -> String {
        let width = self.0.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
        let line = |(label, text): &(&str, String)| format!("{label:width$}  {text}\n");
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_users_wrote_cannot_change_a_terminal() {
        let written = "a\u{1b}]0;b\u{7}\r\n\tc\u{9b}2J \u{202e}d\u{2066} é 日";
        assert_eq!(
            shown(written, is_layout),
            "a\\u{1b}]0;b\\u{7}\\r\n\tc\\u{9b}2J \\u{202e}d\\u{2066} é 日"
        );
        assert_eq!(printable("a\nb\tc"), "a\\nb\\tc");
    }

    #[test]
    fn colours_stay_and_other_sequences_do_not() {
        assert_eq!(style_len("\u{1b}[1;31mred"), 7);
        assert_eq!(style_len("\u{1b}[m"), 3);
        for other in ["\u{1b}[2J", "\u{1b}]0;title\u{7}", "\u{1b}[31", "\u{1b}", "[31m"] {
            assert_eq!(style_len(other), 0, "{other:?}");
        }
    }

    #[test]
    fn json_says_the_same_without_what_would_change_a_terminal() {
        let value = json!({"a\u{9b}": "\u{1b}[2J\u{7f}\u{202e} é 日\n", "b": [1, "\u{2028}"]});
        let text = json(&value);
        assert!(
            !text.chars().any(|character| is_unsafe(character) && character != '\n'),
            "{text:?}"
        );
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn yaml_is_the_same_document_and_changes_no_terminal() {
        let value = json!({"a": "é 日: yes\nand", "b": [1, {"c": null}], "d": {}});
        let text = document(DocumentFormat::Yaml, &value).unwrap();
        assert!(text.starts_with("a: "), "{text}");
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value);
        let value = json!({"a\u{9b}": "\u{1b}[2J\u{202e}"});
        let text = document(DocumentFormat::Yaml, &value).unwrap();
        assert!(
            text.chars()
                .all(|character| is_layout(character) || !is_unsafe(character)),
            "{text:?}"
        );
        assert_eq!(serde_saphyr::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn the_form_of_wrong_arguments_is_known() {
        let of = |line: &str| Output::of_arguments(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        for line in [
            "x -o json",
            "-ojson x",
            "-o=json",
            "x --output json y",
            "--output=json",
            "-o yaml -o json",
        ] {
            assert_eq!(of(line), Output::Document(DocumentFormat::Json), "{line}");
        }
        for line in ["x", "json", "-o xml", "-o", "x -o text"] {
            assert_eq!(of(line), Output::TEXT, "{line}");
        }
    }
}
