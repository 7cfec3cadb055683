//! Sentences that stop readers: none in pages for users, in messages and in comments outside tests.

use std::path::Path;
use std::{fs, io};

use limpet_repo_tests::{checkout, files};

/// A pattern, and what to write in its place.
struct Pattern {
    name: &'static str,
    is_in: fn(&str) -> usize,
    instead: &'static str,
}

const PATTERNS: [Pattern; 7] = [
    Pattern {
        name: "a sentence that begins with Who or Whoever",
        is_in: |text| {
            sentences(text)
                .filter(|words| begins(words, &["who", "whoever"]))
                .count()
        },
        instead: "name them: \"A client without a token goes …\" in place of \"Who has no token goes …\"",
    },
    Pattern {
        name: "is what",
        is_in: |text| phrases(text, &[&["is", "what"], &["are", "what"]]),
        instead: "the noun: \"A namespace in turn …\" in place of \"What is in turn is what a namespace has\"",
    },
    Pattern {
        name: "is told",
        is_in: |text| {
            phrases(
                text,
                &[&["is", "told"], &["are", "told"], &["was", "told"], &["be", "told"]],
            )
        },
        instead: "who does it: \"Envoy learns\", \"the controller sends\"",
    },
    Pattern {
        name: "anew",
        is_in: |text| phrases(text, &[&["anew"]]),
        instead: "again, or a verb: \"rebuilt\", \"restarts\"",
    },
    Pattern {
        name: "nobody, somebody, everybody, whoever",
        is_in: |text| phrases(text, &[&["nobody"], &["somebody"], &["everybody"], &["whoever"]]),
        instead: "name them: \"no client\", \"another controller\", \"each replica\"",
    },
    Pattern {
        name: "alone for only",
        is_in: |text| phrases(text, &[&["alone"]]),
        instead: "only, in front of what it is about",
    },
    Pattern {
        name: "that of, those of",
        is_in: |text| phrases(text, &[&["that", "of"], &["those", "of"]]),
        instead: "the noun again: \"the Gateway's limit\" in place of \"that of the Gateway\"",
    },
];

fn sentences(text: &str) -> impl Iterator<Item = Vec<String>> {
    let ends = |c: char| matches!(c, '.' | '!' | '?' | ':' | '|');
    let text = text.replace("\n\n", ".").replace("\n- ", ".");
    let all: Vec<Vec<String>> = text.split(ends).map(|sentence| words(sentence).collect()).collect();
    all.into_iter()
}

fn words(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

fn begins(words: &[String], with: &[&str]) -> bool {
    words.first().is_some_and(|first| with.contains(&first.as_str()))
}

fn phrases(text: &str, phrases: &[&[&str]]) -> usize {
    let words: Vec<String> = words(text).collect();
    let count = |phrase: &&[&str]| words.windows(phrase.len()).filter(|window| window == phrase).count();
    phrases.iter().map(count).sum()
}

/// The head of a table of such sentences, with better ones.
const EXAMPLES: &str = "| Not | But |";

/// The prose of a page, without code and quotations.
fn prose_of_page(text: &str) -> String {
    let (mut in_fence, mut in_examples) = (false, false);
    let lines = text.lines().filter(|line| {
        let borders = line.trim_start().starts_with("```");
        in_fence ^= borders;
        in_examples = line.starts_with('|') && (in_examples || *line == EXAMPLES);
        !in_fence && !borders && !in_examples && !line.starts_with('>')
    });
    let prose: Vec<&str> = lines.collect();
    let prose = prose.join("\n");
    let parts = prose.split('`').enumerate();
    parts
        .filter(|(index, _)| index % 2 == 0)
        .map(|(_, part)| part)
        .collect()
}

fn comments(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    let lines = lines.map(|line| line.trim_start_matches(['/', '!']));
    lines.collect::<Vec<_>>().join("\n")
}

/// The texts of a file, without those of its tests: string literals of several words.
fn messages(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = lines.map(str::trim).collect::<Vec<_>>().join("\n");
    // No quotation mark begins or ends a text in these.
    let code = code.replace("'\"'", "").replace("\\\\", "").replace("\\\"", "");
    let texts = code.split('"').enumerate().filter(|(index, _)| index % 2 == 1);
    let texts = texts
        .map(|(_, text)| text.replace("\\\n", ""))
        .filter(|text| text.contains(' '));
    texts.collect::<Vec<_>>().join(".\n")
}

fn is_for_users(path: &Path) -> bool {
    let first_pages = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md"];
    let is_page = path.extension().is_some_and(|extension| extension == "md");
    is_page && (path.starts_with("docs") || first_pages.iter().any(|page| path == Path::new(page)))
}

fn is_source(path: &Path) -> bool {
    let is_test = path
        .iter()
        .any(|part| part == "tests" || part == "tests.rs" || part == "e2e" || part == "repo-tests");
    path.extension().is_some_and(|extension| extension == "rs") && !is_test
}

/// A line for each pattern that the prose of these files has.
fn problems(is_read: fn(&Path) -> bool, prose: fn(&str) -> String, least_words: usize) -> io::Result<Vec<String>> {
    let root = checkout();
    let (mut problems, mut words_in_all) = (Vec::new(), 0);
    for path in files(&root)?.into_iter().filter(|path| is_read(path)) {
        let prose = prose(&fs::read_to_string(root.join(&path))?);
        words_in_all += words(&prose).count();
        for pattern in &PATTERNS {
            let count = (pattern.is_in)(&prose);
            if count > 0 {
                let (name, instead) = (pattern.name, pattern.instead);
                problems.push(format!("{}: {name}, {count} times; write {instead}", path.display()));
            }
        }
    }
    assert!(words_in_all > least_words, "only {words_in_all} words were found");
    Ok(problems)
}

#[test]
fn pages_for_users_have_sentences_that_stop_readers() {
    let problems = problems(is_for_users, prose_of_page, 30_000).unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn messages_have_sentences_that_stop_readers() {
    let problems = problems(is_source, messages, 10_000).unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn comments_have_sentences_that_stop_readers() {
    let problems = problems(is_source, comments, 50_000).unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn patterns_are_found_in_prose_only() {
    let page =
        "Who asks.\n\nThis is what it is. `is told` and\n```sh\nwho\n```\n> anew\nIt stands alone: whoever comes.\n";
    let prose = prose_of_page(page);
    let found: Vec<usize> = PATTERNS.iter().map(|pattern| (pattern.is_in)(&prose)).collect();
    assert_eq!(found, [2, 1, 0, 0, 1, 1, 0]);
    let source = "//! Those of all.\nlet who = 1;\n    // is told\n#[cfg(test)]\nmod tests {\n// anew\n}\n";
    let comments = comments(source);
    let found: Vec<usize> = PATTERNS.iter().map(|pattern| (pattern.is_in)(&comments)).collect();
    assert_eq!(found, [0, 0, 1, 0, 0, 0, 1]);
    let source = "/// Is told \"is told\".\nsay(\"It is \\\n     told\", '\"', \"anew\", \"all \\\"anew\\\"\");\n// \"Stands alone\"\n";
    let messages = messages(source);
    let found: Vec<usize> = PATTERNS.iter().map(|pattern| (pattern.is_in)(&messages)).collect();
    assert_eq!(found, [0, 0, 1, 1, 0, 0, 0]);
}
