//! Targets of `make help` run without a person, or design/testing.md says when to run them. Their processes end with
//! make.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use limpet_repo_tests::checkout;

/// The targets that CI and a release run.
const RUN: [&str; 4] = ["check", "test", "test-all", "e2e-node"];
const PAGE: &str = "design/testing.md";
const BY_HAND: &str = "## By hand";

/// All targets with their text, and those in `make help`.
fn targets(makefile: &str) -> (BTreeMap<&str, String>, BTreeSet<&str>) {
    let mut targets: BTreeMap<&str, String> = BTreeMap::new();
    let (mut listed, mut current) = (BTreeSet::new(), Vec::new());
    for line in makefile.lines() {
        if line.starts_with('\t') {
            for target in &current {
                targets.entry(*target).or_default().extend([line, "\n"]);
            }
        } else if let Some((names, rest)) = line.split_once(':').filter(|(_, rest)| !rest.starts_with('=')) {
            current = names.split(' ').collect();
            let (needs, words) = rest.split_once("## ").unwrap_or((rest, ""));
            for target in &current {
                targets.entry(*target).or_default().extend([needs, "\n"]);
                listed.extend((!words.is_empty()).then_some(*target));
            }
        } else {
            current.clear();
        }
    }
    (targets, listed)
}

/// The targets for a person.
fn left_out(makefile: &str) -> Option<BTreeSet<&str>> {
    let parts = makefile.lines().find_map(|line| line.strip_prefix("parts :="))?;
    let (targets, listed) = targets(makefile);
    let is_named = |text: &str, target: &str| {
        let text = text.replace("$(parts)", parts);
        // As a part, a call of make, or a prerequisite.
        let mut calls = [": ", "$(MAKE) "].map(|before| format!("{before}{target}")).into_iter();
        let ends = |after: &str| after.chars().next().is_none_or(|next| " \"\n".contains(next));
        let needs = text.lines().next().unwrap_or_default();
        calls.any(|call| text.split(&call).skip(1).any(ends)) || needs.split(' ').any(|need| need == target)
    };
    let mut reached = BTreeSet::from(RUN);
    loop {
        let more: Vec<&str> = targets
            .keys()
            .filter(|target| !reached.contains(*target))
            .filter(|target| {
                reached
                    .iter()
                    .any(|by| targets.get(by).is_some_and(|text| is_named(text, target)))
            })
            .copied()
            .collect();
        if more.is_empty() {
            break;
        }
        reached.extend(more);
    }
    Some(listed.into_iter().filter(|target| !reached.contains(target)).collect())
}

#[test]
fn a_target_that_no_run_covers_rots() {
    let makefile = fs::read_to_string(checkout().join("Makefile"))
        .unwrap()
        .replace("\\\n", " ");
    let left_out = left_out(&makefile).unwrap();
    let page = fs::read_to_string(checkout().join(PAGE)).unwrap();
    let (_, list) = page.split_once(BY_HAND).unwrap();
    let list = list.split("\n## ").next().unwrap_or_default();
    let by_hand = list
        .lines()
        .filter_map(|line| line.strip_prefix("| `make ")?.split('`').next());
    assert_eq!(
        left_out,
        by_hand.collect(),
        "left: targets that no run covers; right: those that design/testing.md lists"
    );
}

#[test]
fn what_a_run_names_is_covered() {
    let makefile = "parts := \"one: a X=1\"\n\
                    a: b ## A\n\tsay\nb: ## B\n\t$(MAKE) c\nc: ## C\nd: ## D\n\tsay c\n\
                    test:\n\tparts.sh $(parts)\n";
    assert_eq!(left_out(makefile), Some(BTreeSet::from(["d"])));
}

/// A checkout with tools that do nothing, or write a server's process id to `started` and stay, and with `programs` for
/// recipes.
fn stand_ins(folder: &Path) -> io::Result<()> {
    let tools = checkout().join("e2e/tools");
    let (ours, programs) = (folder.join("e2e/tools"), folder.join("programs"));
    fs::create_dir_all(&ours)?;
    fs::create_dir(&programs)?;
    fs::copy(checkout().join("Makefile"), folder.join("Makefile"))?;
    let write = |file: &Path, script: &str| {
        fs::write(file, format!("#!/bin/bash\n{script}\n"))?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o755))
    };
    for entry in fs::read_dir(&tools)? {
        let name = entry?.file_name();
        let file = ours.join(&name);
        match name.to_str().unwrap_or_default() {
            "parts.sh" => fs::copy(tools.join(&name), file).map(drop)?,
            "with-envoy.sh" | "test-named.sh" => write(&file, "echo $$ >started\nexec sleep 60")?,
            _ if file.extension().is_some_and(|extension| extension == "sh") => write(&file, "")?,
            _ => {}
        }
    }
    let called = ["cargo", "cp", "h2load", "python3"];
    called.iter().try_for_each(|name| write(&programs.join(name), ""))
}

fn soon<T>(mut check: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        let found = check();
        if found.is_some() || started.elapsed() > Duration::from_secs(10) {
            return found;
        }
        sleep(Duration::from_millis(10));
    }
}

/// What is wrong, if the target's processes outlive a SIGTERM to make.
fn outlives_make(target: &str) -> io::Result<Option<String>> {
    let folder = tempfile::tempdir()?;
    stand_ins(folder.path())?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut make = Command::new("make");
    // A make may run this test.
    for variable in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CARGO_TARGET_DIR"] {
        make.env_remove(variable);
    }
    make.env("PATH", format!("{}/programs:{path}", folder.path().display()));
    make.arg(target).current_dir(folder.path());
    let mut make = make.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let file = folder.path().join("started");
    let Some(server) = soon(|| fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok()) else {
        make.kill()?;
        return Ok(Some(format!("make {target} starts nothing: {}", make.wait()?)));
    };
    let send = |signal: &str, to: u32| Command::new("kill").args([signal, &to.to_string()]).status();
    send("-TERM", make.id())?;
    make.wait()?;
    // An ended process has no arguments, but exists until its parent waits.
    let arguments = || fs::read(format!("/proc/{server}/cmdline")).unwrap_or_default();
    if soon(|| arguments().is_empty().then_some(())).is_some() {
        return Ok(None);
    }
    send("-KILL", server)?;
    Ok(Some(format!("make {target} leaves what it started")))
}

#[test]
fn what_make_starts_outlives_a_sigterm_to_make() {
    let makefile = fs::read_to_string(checkout().join("Makefile")).unwrap();
    let (targets, _) = targets(&makefile);
    let starts = |text: &str| ["with_envoy", "with-envoy.sh"].iter().any(|name| text.contains(name));
    let starting = targets
        .iter()
        .filter(|(_, text)| starts(text))
        .map(|(target, _)| *target);
    // These start servers differently, or call make.
    let others = [
        "e2e-images",
        "e2e-kube-wasm",
        "e2e-matrix",
        "e2e-oldest",
        "test",
        "test-all",
    ];
    let found = starting
        .chain(others)
        .filter_map(|target| outlives_make(target).unwrap());
    assert_eq!(found.collect::<Vec<_>>(), Vec::<String>::new());
}
