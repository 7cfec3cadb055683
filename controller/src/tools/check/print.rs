//! The output of a check.

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};

use super::UnreadableFile;
use super::report::{CheckReport, CheckedFilter, Finding, Severity};
use crate::exit::CommandFailure;
use crate::output::{self, DocumentFormat};

const ERROR: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const NOTE: Style = AnsiColor::Cyan.on_default();
const OK: Style = AnsiColor::Green.on_default().bold();

/// Prints what is worst first, and one verdict for each file last.
///
/// Quiet, it prints neither notes nor the verdict of a file without errors and warnings.
pub(super) fn text(report: &CheckReport, files: &[&str], quiet: bool) -> Result<(), CommandFailure> {
    let mut text = String::new();
    for severity in [Severity::Error, Severity::Warning, Severity::Note] {
        let found = report.findings.iter().filter(|finding| finding.severity == severity);
        text.extend(found.map(finding_text));
    }
    for file in files {
        let verdict = FileVerdict::of(report, file);
        if !(quiet && verdict.problems.is_empty()) {
            text += &verdict.text(file);
        }
    }
    output::print_styled(&text)
}

fn finding_text(finding: &Finding) -> String {
    let (label, style) = match finding.severity {
        Severity::Error => ("error", ERROR),
        Severity::Warning => ("warning", WARNING),
        Severity::Note => ("note", NOTE),
    };
    let Finding {
        file,
        path,
        field,
        message,
        ..
    } = finding;
    let field = field.as_ref().map(|field| format!("{field}: ")).unwrap_or_default();
    let location = if path.is_empty() {
        file.clone()
    } else {
        format!("{file}: {path}")
    };
    format!("{style}{label:7}{style:#}  {location}\n         {field}{message}\n")
}

/// What a check makes of one file.
struct FileVerdict {
    /// `2 errors`, `1 warning`.
    problems: Vec<String>,
    style: Style,
    notes: usize,
    /// The filters in it, as `1 key and the policy web`.
    checked: Vec<String>,
}

impl FileVerdict {
    fn of(report: &CheckReport, file: &str) -> Self {
        let count = |severity| {
            let findings = report.of_file(file);
            findings.filter(|finding| finding.severity == severity).count()
        };
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let problems = [(errors, "error"), (warnings, "warning")].into_iter();
        let problems = problems.filter(|(count, _)| *count > 0);
        let checked = report.checked.iter().filter(|checked| checked.file == file);
        Self {
            problems: problems.map(|(count, word)| plural(count, word)).collect(),
            style: match (errors, warnings) {
                (0, 0) => OK,
                (0, _) => WARNING,
                _ => ERROR,
            },
            notes: count(Severity::Note),
            checked: checked.map(filter_text).collect(),
        }
    }

    fn text(&self, file: &str) -> String {
        let style = self.style;
        let outcome = if self.problems.is_empty() {
            "ok".to_owned()
        } else {
            self.problems.join(", ")
        };
        let checked = if self.checked.is_empty() {
            String::new()
        } else {
            format!(" ({})", self.checked.join("; "))
        };
        let notes = match self.notes {
            0 => String::new(),
            notes => format!(", {}", plural(notes, "note")),
        };
        format!("{file}: {style}{outcome}{style:#}{notes}{checked}\n")
    }
}

fn filter_text(checked: &CheckedFilter) -> String {
    let keys = match &checked.keys {
        Some(ids) => plural(ids.len(), "key"),
        None => "keys not known here".to_owned(),
    };
    format!("{keys} and {}", policies(&checked.policies))
}

fn plural(count: usize, word: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {word}{ending}")
}

fn policies(names: &[String]) -> String {
    match names {
        [] => "no policy".to_owned(),
        [name] => format!("the policy {name}"),
        [names @ .., last] if names.len() < 8 => format!("the policies {} and {last}", names.join(", ")),
        names => plural(names.len(), "policy").replace("policys", "policies"),
    }
}

pub(super) fn json(
    format: DocumentFormat,
    report: &CheckReport,
    files: &[&str],
    unreadable: &[UnreadableFile<'_>],
) -> Result<(), CommandFailure> {
    let file = |file: &&str| -> Value {
        json!({
            "file": file,
            "filters": report.checked.iter().filter(|checked| checked.file == **file).collect::<Vec<_>>(),
            "findings": report.of_file(file).collect::<Vec<_>>(),
        })
    };
    let unread = unreadable.iter().map(|unread| {
        let finding = json!({"severity": Severity::Error, "path": "", "message": unread.why});
        json!({"file": unread.file, "filters": [], "findings": [finding]})
    });
    output::print_document(
        format,
        &json!({
            "errors": report.count(Severity::Error) + unreadable.len(),
            "warnings": report.count(Severity::Warning),
            "files": files.iter().map(file).chain(unread).collect::<Vec<_>>(),
        }),
    )
}
