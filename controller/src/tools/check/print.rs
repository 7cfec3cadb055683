//! The output of a check.

use serde_json::{Value, json};

use super::report::{Finding, Report, Severity};
use crate::exit::Failure;
use crate::output;

/// Prints errors and warnings to stderr, everything else to stdout.
pub(super) fn text(report: &Report, files: &[&str]) -> Result<(), Failure> {
    for file in files {
        let (mut said, mut complaints) = (String::new(), String::new());
        for finding in report.of_file(file) {
            match finding.severity {
                Severity::Note => said += &finding_text(finding),
                _ => complaints += &finding_text(finding),
            }
        }
        output::complain(&complaints);
        output::print(&format!("{said}{file}: {}\n", summary(report, file)))?;
    }
    Ok(())
}

fn finding_text(finding: &Finding) -> String {
    let label = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
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
    format!("{label:7}  {location}\n         {field}{message}\n")
}

fn summary(report: &Report, file: &str) -> String {
    let count = |severity, word: &str| {
        let count = report
            .of_file(file)
            .filter(|finding| finding.severity == severity)
            .count();
        (count > 0).then(|| plural(count, word))
    };
    let problems: Vec<String> = [count(Severity::Error, "error"), count(Severity::Warning, "warning")]
        .into_iter()
        .flatten()
        .collect();
    let checked: Vec<String> = report
        .checked
        .iter()
        .filter(|checked| checked.file == file)
        .map(|checked| {
            let keys = match &checked.keys {
                Some(ids) => plural(ids.len(), "key"),
                None => "keys not known here".to_owned(),
            };
            format!("{keys} and {}", policies(&checked.policies))
        })
        .collect();
    let outcome = if problems.is_empty() {
        "ok".to_owned()
    } else {
        problems.join(", ")
    };
    if checked.is_empty() {
        outcome
    } else {
        format!("{outcome} ({})", checked.join("; "))
    }
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

pub(super) fn json(report: &Report, files: &[&str]) -> Result<(), Failure> {
    let file = |file: &&str| -> Value {
        json!({
            "file": file,
            "filters": report.checked.iter().filter(|checked| checked.file == **file).collect::<Vec<_>>(),
            "findings": report.of_file(file).collect::<Vec<_>>(),
        })
    };
    output::print_json(&json!({
        "errors": report.count(Severity::Error),
        "warnings": report.count(Severity::Warning),
        "files": files.iter().map(file).collect::<Vec<_>>(),
    }))
}
