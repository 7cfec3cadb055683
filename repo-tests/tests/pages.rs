//! The pages of the repository: README.md, `docs/`, `design/` and all others.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use limpet_repo_tests::{Page, broken_links, checkout, files, markdown_files, with_tested_blocks};

fn read(path: &str) -> String {
    fs::read_to_string(checkout().join(path)).unwrap()
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let problems = broken_links(&checkout()).unwrap();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn broken_links_are_found_with_page_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "README.md",
        "# Here\n\n[a](docs/a.md) [b](docs/b.md)\n[site](https://example.com/none#x)\n",
    );
    write(
        "docs/a.md",
        "# A\n\n[up](../README.md#here) [self](#a) [no](#b)\n\n\
        [no](../README.md#there) [out](../../x.md) [no](x.yaml#l)\n",
    );
    write("docs/x.yaml", "x: 1\n");
    let expected = [
        "README.md:3: docs/b.md: there is no docs/b.md",
        "docs/a.md:3: #b: docs/a.md has no heading #b",
        "docs/a.md:5: ../README.md#there: README.md has no heading #there",
        "docs/a.md:5: ../../x.md: leads out of the repository",
        "docs/a.md:5: x.yaml#l: docs/x.yaml is no page, so it has no anchors",
    ];
    assert_eq!(broken_links(folder.path()).unwrap(), expected);
}

/// The pages that a text names, such as `docs/reference/token.md` or `design/measurements.md`.
fn named_pages(text: &str) -> Vec<&str> {
    let starts = ["docs/", "design/"]
        .into_iter()
        .flat_map(|folder| text.match_indices(folder));
    let behind = starts.filter_map(|(at, _)| text.get(at..));
    let paths = behind.map(|rest| {
        let is_part = |character: char| character.is_ascii_alphanumeric() || "/._-".contains(character);
        let end = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
        rest.get(..end).unwrap_or_default().trim_end_matches('.')
    });
    let is_page = |path: &&str| Path::new(path).extension().is_some_and(|extension| extension == "md");
    paths.filter(is_page).collect()
}

#[test]
fn pages_that_code_and_comments_name_exist() {
    let root = checkout();
    let mut problems = Vec::new();
    let mut named = 0;
    for path in files(&root).unwrap() {
        // Pages' links are checked above; files without text name nothing.
        let is_page = path.extension().is_some_and(|extension| extension == "md");
        if is_page || path.starts_with("repo-tests") {
            continue;
        }
        let text = fs::read_to_string(root.join(&path)).unwrap_or_default();
        for page in named_pages(&text) {
            named += 1;
            if !root.join(page).exists() {
                problems.push(format!("{}: there is no {page}", path.display()));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    assert!(named > 10, "{named}");
}

#[test]
fn the_summary_has_every_page_of_docs_once() {
    let summary = Page::parse(&read("docs/SUMMARY.md"));
    let mut listed: Vec<PathBuf> = summary.links.iter().map(|link| PathBuf::from(&link.target)).collect();
    listed.sort();
    let there = markdown_files(&checkout().join("docs")).unwrap();
    let there: Vec<PathBuf> = there
        .into_iter()
        .filter(|path| path != Path::new("SUMMARY.md"))
        .collect();
    assert_eq!(listed, there);
}

#[test]
fn the_index_of_docs_names_every_page() {
    let index = Page::parse(&read("docs/README.md"));
    let named: BTreeSet<&str> = index.links.iter().map(|link| link.target.as_str()).collect();
    for link in Page::parse(&read("docs/SUMMARY.md")).links {
        let named = named.contains(link.target.as_str()) || link.target == "README.md";
        assert!(named, "docs/README.md does not name {}", link.target);
    }
}

#[test]
fn the_index_of_design_names_every_page_once() {
    let index = Page::parse(&read("design/README.md"));
    let is_design = |target: &&str| !target.starts_with("../");
    let mut named: Vec<&str> = index
        .links
        .iter()
        .map(|link| link.target.as_str())
        .filter(is_design)
        .collect();
    named.sort_unstable();
    let there = markdown_files(&checkout().join("design")).unwrap();
    let there: Vec<&str> = there.iter().filter_map(|path| path.to_str()).collect();
    let there: Vec<&str> = there.into_iter().filter(|path| *path != "README.md").collect();
    assert_eq!(named, there);
}

/// `controller/tests/pages` runs or checks each block by its language.
#[test]
fn every_block_says_what_it_is() {
    let known = ["console", "console,run", "json", "sh", "text", "yaml", "yaml,excerpt"];
    let mut problems = Vec::new();
    for path in with_tested_blocks().unwrap() {
        let blocks = Page::parse(&fs::read_to_string(checkout().join(&path)).unwrap()).blocks;
        let unknown = blocks.iter().filter(|block| !known.contains(&block.language.as_str()));
        problems.extend(unknown.map(|block| format!("{}:{}: {:?}", path.display(), block.line, block.language)));
    }
    assert!(
        problems.is_empty(),
        "expected a fence with one of {known:?}:\n{}",
        problems.join("\n")
    );
}

#[test]
fn a_page_that_people_begin_with_has_over_150_lines() {
    for page in ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let lines = read(page).lines().count();
        assert!(lines <= 150, "{page} has {lines} lines");
    }
}

/// The words in code of a page, without blocks.
fn code_words(page: &str) -> BTreeSet<&str> {
    let mut in_block = false;
    let prose = page.lines().filter(|line| {
        let is_fence = line.starts_with("```");
        in_block ^= is_fence;
        !in_block && !is_fence
    });
    prose.flat_map(|line| line.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn architecture_names_a_type_that_is_gone() {
    let page = read("ARCHITECTURE.md");
    let (_, terms) = page.split_once("\n## Terms\n").unwrap();
    let terms = terms.split("\n## ").next().unwrap();
    let is_type = |word: &&str| {
        word.starts_with(|first: char| first.is_ascii_uppercase())
            && word.chars().all(|character| character.is_ascii_alphanumeric())
    };
    let named: BTreeSet<&str> = code_words(terms).into_iter().filter(is_type).collect();
    assert!(named.len() > 50, "{named:?}");
    let root = checkout();
    let mut defined = BTreeSet::new();
    for path in files(&root).unwrap() {
        let is_source = path.starts_with("filter") || path.starts_with("controller");
        if !is_source || path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let source = fs::read_to_string(root.join(&path)).unwrap();
        for kind in ["struct ", "enum ", "trait ", "type "] {
            for (at, _) in source.match_indices(kind) {
                let name = source.get(at + kind.len()..).unwrap_or_default();
                let end = name.find(|character: char| !character.is_ascii_alphanumeric());
                defined.extend(end.and_then(|end| name.get(..end)).map(str::to_owned));
            }
        }
    }
    let gone: Vec<&str> = named.into_iter().filter(|name| !defined.contains(*name)).collect();
    assert!(gone.is_empty(), "no type has the name {gone:?}");
}

#[test]
fn a_page_for_engineers_names_a_file_that_is_gone() {
    let root = checkout();
    let folders: BTreeSet<PathBuf> = files(&root)
        .unwrap()
        .iter()
        .filter_map(|path| path.iter().next().map(PathBuf::from))
        .collect();
    let mut gone = Vec::new();
    let mut named = 0;
    for name in [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "design/recipes.md",
        "design/good-first-issues.md",
    ] {
        let page = read(name);
        for word in code_words(&page) {
            // Words with angle brackets and asterisks stand for several files.
            let is_one = !word.contains(['<', ' ', '*']) && word.contains('/');
            let is_ours = is_one
                && Path::new(word)
                    .iter()
                    .next()
                    .is_some_and(|first| folders.contains(Path::new(first)));
            named += usize::from(is_ours);
            if is_ours && !root.join(word).exists() {
                gone.push(format!("{name}: {word}"));
            }
        }
    }
    assert!(gone.is_empty(), "{gone:#?}");
    assert!(named > 80, "only {named} files were found");
}

/// End-to-end tests hold that page to the real products.
#[test]
fn the_readme_compares_as_the_comparison_does() {
    let rows = |text: &str| -> Vec<String> {
        let rows = text.lines().skip_while(|line| !line.starts_with("| | Envoy"));
        rows.take_while(|line| line.starts_with('|'))
            .map(str::to_owned)
            .collect()
    };
    let all = rows(&read("docs/background/comparison.md"));
    let of_readme = rows(&read("README.md"));
    assert!(of_readme.len() > 5, "{of_readme:?}");
    for row in of_readme {
        assert!(all.contains(&row), "not in docs/background/comparison.md: {row}");
    }
}

/// The rows of tables whose last column is "Seen by".
fn rows_with_tests(page: &str) -> impl Iterator<Item = &str> {
    let mut seen_by = false;
    page.lines().filter(move |line| {
        let is_head = line.ends_with("| Seen by |");
        seen_by = is_head || seen_by && line.starts_with('|');
        seen_by && !is_head && !line.starts_with("|---")
    })
}

/// The tests in a row's last column.
fn named_tests(row: &str) -> Vec<&str> {
    let last = row.trim_end_matches([' ', '|']).rsplit(" | ").next();
    let words = last.into_iter().flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words.filter(|word| word.contains('_')).collect()
}

#[test]
fn the_tests_that_pages_name_exist() {
    let root = checkout();
    let is_rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    let in_tests = |path: &PathBuf| path.iter().any(|part| part == "tests" || part == "tests.rs");
    let sources: Vec<String> = files(&root)
        .unwrap()
        .into_iter()
        .filter(is_rust)
        .filter_map(|path| {
            let source = read(path.to_str().unwrap());
            (in_tests(&path) || source.contains("#[test]")).then_some(source)
        })
        .collect();
    let exists = |name: &str| {
        ["\nfn ", " fn "].iter().any(|begin| {
            let test = format!("{begin}{name}(");
            sources.iter().any(|source| source.contains(&test))
        })
    };
    for page in ["design/reliability.md", "design/security-decisions.md"] {
        let page = read(page);
        let rows: Vec<&str> = rows_with_tests(&page).collect();
        assert!(rows.len() > 20, "{rows:#?}");
        for row in rows {
            let named = named_tests(row);
            assert!(!named.is_empty(), "no test shows what is promised: {row}");
            let missing: Vec<&str> = named.into_iter().filter(|name| !exists(name)).collect();
            assert!(missing.is_empty(), "there is no test {missing:?}");
        }
    }
}
