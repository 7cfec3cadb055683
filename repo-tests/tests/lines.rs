//! Markdown and comments have at most 120 columns.

use std::fs;
use std::path::Path;

use limpet_repo_tests::{checkout, files};

const LONGEST: usize = 120;
/// The length from which a word, such as a URL, may exceed a line.
const WORD: usize = 80;

/// Folders of generated or foreign files.
const MADE: [&str; 3] = ["golden", "conformance", "vectors"];

/// The start of a file's comments. `None`: nothing is for people. Empty: everything is.
fn comment(path: &Path) -> Option<&'static str> {
    let name = path.file_name()?.to_str()?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => Some(""),
        Some("rs" | "go") => Some("//"),
        Some("yaml" | "yml" | "sh" | "toml" | "tpl" | "py") => Some("#"),
        _ => (name == "Makefile").then_some("#"),
    }
}

fn too_long(text: &str, comment: &str) -> Vec<usize> {
    let mut in_fence = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let start = line.trim_start();
        let borders_code = comment.is_empty() && start.starts_with("```");
        in_fence ^= borders_code;
        let is_table = comment.is_empty() && start.starts_with('|');
        // A template's variables cannot be broken.
        let is_prose = start.starts_with(comment) && !in_fence && !is_table && !start.contains("{{");
        let has_long_word = line.split_whitespace().any(|word| word.chars().count() >= WORD);
        if is_prose && !has_long_word && line.chars().count() > LONGEST {
            found.push(index + 1);
        }
    }
    found
}

#[test]
fn prose_and_comments_have_at_most_120_columns() {
    let root = checkout();
    let mut problems = Vec::new();
    let mut checked = 0;
    for path in files(&root).unwrap() {
        let is_made = path.iter().any(|part| MADE.iter().any(|made| part == *made));
        let Some(comment) = comment(&path).filter(|_| !is_made) else {
            continue;
        };
        checked += 1;
        let text = fs::read_to_string(root.join(&path)).unwrap();
        let lines = too_long(&text, comment);
        problems.extend(lines.into_iter().map(|line| format!("{}:{line}", path.display())));
    }
    assert!(
        problems.is_empty(),
        "more than {LONGEST} columns:\n{}",
        problems.join("\n")
    );
    assert!(checked > 500, "only {checked} files were found");
}

#[test]
fn tables_code_and_long_words_may_be_longer() {
    let long = "word ".repeat(30);
    let page = format!("{long}\n| {long} |\n```text\n{long}\n```\n{}{long}\n", "x".repeat(80));
    assert_eq!(too_long(&page, ""), [1]);
    let code = format!("let x = \"{long}\";\n    /// {long}\n# {long}\n");
    assert_eq!(too_long(&code, "//"), [2]);
    assert_eq!(too_long(&code, "#"), [3]);
}
