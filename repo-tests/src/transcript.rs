//! Transcripts of commands and their output. `…` stands for anything within a line, or on its own line for any lines.

use crate::Block;

/// A command and its expected output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its line in the page, from 1.
    pub line: usize,
    /// The command, perhaps in several lines.
    pub command: String,
    /// The output.
    pub output: Vec<String>,
    /// The exit code, from a line `[exit code 1]`, or 0.
    pub code: i32,
}

/// The commands of a block, behind `$ `.
///
/// # Errors
/// If text precedes the first command, or an exit code is no number.
pub fn steps(block: &Block) -> Result<Vec<Step>, String> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continues = false;
    for (at, text) in (block.line + 1..).zip(block.text.lines()) {
        match steps.last_mut() {
            Some(step) if continues => {
                step.command.push('\n');
                step.command.push_str(text);
            }
            _ if text.starts_with("$ ") => steps.push(Step {
                line: at,
                command: text.trim_start_matches("$ ").to_owned(),
                output: Vec::new(),
                code: 0,
            }),
            Some(step) => match text.strip_prefix("[exit code ").and_then(|rest| rest.strip_suffix(']')) {
                Some(code) => step.code = code.parse().map_err(|_| format!("line {at}: {code} is no exit code"))?,
                None => step.output.push(text.to_owned()),
            },
            None => return Err(format!("line {at}: no command in front of it")),
        }
        let is_command = continues || text.starts_with("$ ");
        continues = is_command && text.ends_with('\\');
    }
    Ok(steps)
}

/// Whether the output is as expected.
#[must_use]
pub fn fits<T: AsRef<str>>(expected: &[T], found: &[&str]) -> bool {
    let Some((first, rest)) = expected.split_first() else {
        return found.is_empty();
    };
    if first.as_ref() == "…" {
        return (0..=found.len()).any(|skipped| found.get(skipped..).is_some_and(|found| fits(rest, found)));
    }
    found
        .split_first()
        .is_some_and(|(line, others)| line_fits(first.as_ref(), line) && fits(rest, others))
}

fn line_fits(expected: &str, found: &str) -> bool {
    let mut parts = expected.split('…');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = found.strip_prefix(first) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else {
        return rest.is_empty();
    };
    for part in between {
        let Some((_, behind)) = rest.split_once(part) else {
            return false;
        };
        rest = behind;
    }
    rest.ends_with(last)
}
