//! Cargo.toml says the version of everything, and where it is published. These tests take a tenth of a second.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use limpet_repo_tests::{checkout, files};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn read(path: &str) -> String {
    fs::read_to_string(checkout().join(path)).unwrap()
}

/// The value of a key in Cargo.toml, as `e2e/tools/stamp.sh` reads it.
fn value(key: &str) -> String {
    let manifest = read("Cargo.toml");
    let line = manifest
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{key} = \"")));
    line.unwrap().trim_end_matches('"').to_owned()
}

#[test]
fn a_file_names_another_registry_or_owner_than_cargo_toml() {
    let (registry, repository) = (value("registry"), value("repository"));
    let owner = repository.rsplit('/').nth(1).unwrap();
    let image = format!("{registry}/limpet");
    let released = format!("{image}:{VERSION}");
    let chart = format!("oci://{registry}/charts/limpet");
    let workflow = format!("{repository}/.github/workflows/release.yml@refs/tags/v{VERSION}");
    let named = [
        (
            "controller/deploy/chart/values.yaml",
            format!("  repository: {image}\n"),
        ),
        ("controller/deploy/chart/Chart.yaml", format!("home: {repository}\n")),
        (
            "controller/deploy/chart/Chart.yaml",
            format!("    - name: limpet\n      image: {released}\n"),
        ),
        (
            "controller/deploy/chart/README.md",
            format!("{chart} --version {VERSION} "),
        ),
        ("controller/deploy/artifacthub-repo.yml", format!("- name: {owner}\n")),
        (
            "controller/outputs/src/envoy/managed.rs",
            format!("concat!(\"{image}:\", env!(\"CARGO_PKG_VERSION\"))"),
        ),
        ("controller/deploy/controller.yaml", format!("image: {released}\n")),
        ("docs/how-to/verify-a-release.md", format!("identity={workflow}\n")),
        (
            "docs/how-to/operate-the-controller.md",
            format!("{chart} --version {VERSION} "),
        ),
        ("docs/how-to/rollouts.md", format!("image: {released}\n")),
        (".github/CODEOWNERS", format!("@{owner}/maintainers\n")),
        (
            "CHANGELOG.md",
            format!("[{VERSION}]: {repository}/releases/tag/v{VERSION}\n"),
        ),
    ];
    let missing = named.iter().filter(|(file, text)| !read(file).contains(text));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&(&str, String)>::new());

    // No other name is left anywhere.
    let host = registry.split('/').next().unwrap();
    let mut problems = Vec::new();
    for path in files(&checkout()).unwrap() {
        let is_foreign = path.components().any(|part| part.as_os_str() == "conformance");
        let text = fs::read_to_string(checkout().join(&path)).unwrap_or_default();
        let is_wrong = |line: &&str| {
            let image = line.contains(&format!("{host}/")) && line.contains("/limpet") && !line.contains(&registry);
            let page = line.contains("github.com/") && line.contains("/limpet/") && !line.contains(&repository);
            image || page
        };
        if !is_foreign && path != Path::new("repo-tests/tests/published.rs") {
            problems.extend(
                text.lines()
                    .filter(is_wrong)
                    .map(|line| format!("{}: {line}", path.display())),
            );
        }
    }
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn the_chart_names_another_envoy_than_the_controller_runs() {
    let source = read("controller/outputs/src/envoy/managed.rs");
    let (_, rest) = source.split_once("envoy_image: \"").unwrap();
    let envoy = rest.split('"').next().unwrap();
    let listed = format!("    - name: envoy\n      image: docker.io/{envoy}\n");
    let chart = read("controller/deploy/chart/Chart.yaml");
    assert!(chart.contains(&listed), "expected {listed}in\n{chart}");
}

/// Images with a tag, such as `limpet-wasm:0.1.0`.
fn tags(text: &str) -> Vec<&str> {
    let names = [
        "limpet:",
        "limpet-wasm:",
        "limpet-wasm-compat:",
        "charts/limpet --version ",
    ];
    let found = names
        .iter()
        .flat_map(|name| text.match_indices(name).map(|(at, name)| (at, name.len())));
    let tags = found.filter_map(|(at, length)| {
        let tag = text.get(at + length..)?;
        let end = tag.find(|c: char| !c.is_ascii_alphanumeric() && !".-+".contains(c));
        let tag = tag.get(..end.unwrap_or(tag.len()))?.trim_end_matches('.');
        (tag.starts_with(|c: char| c.is_ascii_digit()) && tag.contains('.')).then_some(tag)
    });
    tags.collect()
}

#[test]
fn a_page_or_a_manifest_has_another_version() {
    let mut problems = Vec::new();
    let mut seen = 0;
    for path in files(&checkout()).unwrap() {
        let is_read = |end: &str| path.extension().is_some_and(|extension| extension == end);
        let is_made = path.components().any(|part| part.as_os_str() == "golden");
        if is_made || !["md", "yaml"].into_iter().any(is_read) {
            continue;
        }
        let text = fs::read_to_string(checkout().join(&path)).unwrap_or_default();
        for tag in tags(&text) {
            seen += 1;
            if tag != VERSION {
                problems.push(format!("{}: {tag}", path.display()));
            }
        }
    }
    assert_eq!(problems, Vec::<String>::new());
    assert!(seen > 10, "{seen}");
}

#[test]
fn tags_are_found_in_names_of_images() {
    let text = "a/limpet:0.2.0, limpet-wasm:1.0.0-rc.1 and limpet:http, limpet:1";
    assert_eq!(tags(text), ["0.2.0", "1.0.0-rc.1"]);
}

fn notes(tag: &str, repository: &str) -> Output {
    Command::new(checkout().join("e2e/tools/release-notes.sh"))
        .arg(tag)
        .env("GITHUB_REPOSITORY", repository)
        .output()
        .unwrap()
}

#[test]
fn a_tag_that_is_not_the_version_made_a_release() {
    let repository = value("repository");
    let path = repository.strip_prefix("https://github.com/").unwrap();
    let output = notes(&format!("v{VERSION}"), path);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The whole section, and nothing of others.
    let changelog = read("CHANGELOG.md");
    let (_, section) = changelog.split_once(&format!("\n## [{VERSION}]")).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let bullets = |text: &str| text.lines().filter(|line| line.starts_with("- ")).count();
    assert_eq!(bullets(&text), bullets(section));
    assert!(bullets(&text) > 1 && !text.contains("## ["), "{text}");
    // GitHub takes no more.
    assert!(text.len() < 125_000, "{}", text.len());

    for (tag, repository) in [
        ("v0.0.9", path),
        (VERSION, path),
        (&format!("v{VERSION}"), "another/limpet"),
    ] {
        let output = notes(tag, repository);
        assert!(
            !output.status.success() && output.stdout.is_empty(),
            "{tag} {repository}"
        );
    }
}

/// The workflows, without the folders that `files` leaves out.
fn workflows() -> Vec<PathBuf> {
    let entries = fs::read_dir(checkout().join(".github/workflows")).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_workflow_runs_an_action_that_can_change() {
    let mut uses = 0;
    for path in workflows() {
        for line in fs::read_to_string(&path).unwrap().lines() {
            let Some((_, action)) = line.split_once("uses: ") else {
                continue;
            };
            uses += 1;
            let (_, commit) = action.split_once('@').unwrap_or_default();
            let (commit, version) = commit.split_once(" # v").unwrap_or_default();
            let is_commit = commit.len() == 40 && commit.chars().all(|c| c.is_ascii_hexdigit());
            assert!(is_commit && !version.is_empty(), "{}: {line}", path.display());
        }
    }
    assert!(uses > 10, "{uses}");
}
