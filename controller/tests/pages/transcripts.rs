//! Transcripts that can be run (`console,run`): a page's are one session in a copy of the checkout, with what was built
//! in its place.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use limpet_repo_tests::{Page, Step, fits, steps};

use crate::{LIMPET, assert_none, copy_of_the_checkout, pages};

fn problems(path: &str, page: &Page) -> Vec<String> {
    let blocks = page.blocks.iter().filter(|block| block.language == "console,run");
    let steps: Vec<Step> = blocks.flat_map(|block| steps(block).unwrap()).collect();
    if steps.is_empty() {
        return Vec::new();
    }
    let folder = copy_of_the_checkout();
    let out = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("dist")).unwrap();
    symlink(LIMPET, folder.path().join("dist/limpet")).unwrap();
    let script = steps.iter().map(|Step { line, command, .. }| {
        // In braces, so that variables stay.
        let to = out.path().join(line.to_string());
        let to = to.display();
        format!("{{\n{command}\n}} >'{to}' 2>&1\necho $? >'{to}.code'")
    });
    let script = script.collect::<Vec<_>>().join("\n");
    let mut shell = Command::new("bash");
    shell.args(["-c", &script]).current_dir(folder.path());
    let dist = folder.path().join("dist");
    shell.env("PATH", format!("{}:{}", dist.display(), std::env::var("PATH").unwrap()));
    for name in ["LIMPET_KEY", "LIMPET_KEK_1"] {
        shell.env_remove(name);
    }
    shell.output().unwrap();
    let wrong = steps.iter().filter_map(|step| {
        let read =
            |suffix: &str| fs::read_to_string(out.path().join(format!("{}{suffix}", step.line))).unwrap_or_default();
        let (said, code) = (seconds_as_now(&read("")), read(".code"));
        let lines: Vec<&str> = said.lines().collect();
        let is_right = code.trim() == step.code.to_string() && fits(&step.output, &lines);
        (!is_right).then(|| {
            let Step { line, command, .. } = step;
            format!(
                "{path}:{line}: {command}\nprints, with exit code {}:\n{said}",
                code.trim()
            )
        })
    });
    wrong.collect()
}

/// On a busy machine, `now` is some seconds ago when the next command prints it.
fn seconds_as_now(said: &str) -> String {
    (1..10).fold(said.to_owned(), |said, seconds| {
        said.replace(&format!(" {seconds}s ago"), " now")
    })
}

#[test]
fn transcripts_print_what_their_pages_say() {
    let problems: Vec<_> = pages().iter().flat_map(|(path, page)| problems(path, page)).collect();
    assert_none(&problems);
}

#[test]
fn some_seconds_are_now() {
    assert_eq!(seconds_as_now("a 3s ago, b 9s ago\nc"), "a now, b now\nc");
    for same in ["a 3m ago", "a 13s ago", "items ago"] {
        assert_eq!(seconds_as_now(same), same);
    }
}

#[test]
fn a_transcript_with_other_output_is_found() {
    let of = |text: &str| problems("page.md", &Page::parse(&format!("```console,run\n{text}\n```\n")));
    let good = "$ a=1 && \\\n    echo $a\n1\n$ printf 'x y\\nz'\nx …\n…\n$ printf 'a\\nb'; false\n…\nb\n[exit code 1]";
    assert_eq!(of(good), Vec::<String>::new());
    for wrong in [
        "$ echo a\nb",
        "$ echo a",
        "$ false",
        "$ echo a b\na…c",
        "$ true\n[exit code 1]",
    ] {
        assert_eq!(of(wrong).len(), 1, "{wrong}");
    }
}
