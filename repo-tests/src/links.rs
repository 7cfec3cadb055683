//! Checks links between pages.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::{Link, Page, markdown_files};

/// A message for each broken link in Markdown below `root`, without links to other sites.
///
/// # Errors
/// If a file cannot be read.
pub fn broken_links(root: &Path) -> io::Result<Vec<String>> {
    let mut pages = BTreeMap::new();
    for path in markdown_files(root)? {
        let page = Page::parse(&fs::read_to_string(root.join(&path))?);
        pages.insert(path, page);
    }
    let mut problems = Vec::new();
    for (path, page) in &pages {
        for link in &page.links {
            if let Some(problem) = problem(root, &pages, path, link) {
                let Link { line, target } = link;
                problems.push(format!("{}:{line}: {target}: {problem}", path.display()));
            }
        }
    }
    Ok(problems)
}

fn problem(root: &Path, pages: &BTreeMap<PathBuf, Page>, from: &Path, link: &Link) -> Option<String> {
    if is_elsewhere(&link.target) {
        return None;
    }
    let (file, anchor) = link.target.split_once('#').unwrap_or((&link.target, ""));
    let Some(to) = resolved(from, file) else {
        return Some("leads out of the repository".to_owned());
    };
    if !root.join(&to).exists() {
        return Some(format!("there is no {}", to.display()));
    }
    if anchor.is_empty() {
        return None;
    }
    match pages.get(&to) {
        None => Some(format!("{} is no page, so it has no anchors", to.display())),
        Some(page) if page.anchors.contains(anchor) => None,
        Some(_) => Some(format!("{} has no heading #{anchor}", to.display())),
    }
}

fn is_elsewhere(target: &str) -> bool {
    let Some((scheme, _)) = target.split_once(':') else {
        return false;
    };
    scheme
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || "+-.".contains(character))
}

/// A link's file below the root; `None` if it is outside.
fn resolved(from: &Path, file: &str) -> Option<PathBuf> {
    if file.is_empty() {
        return Some(from.to_owned());
    }
    let mut path = from.parent()?.to_owned();
    for component in Path::new(file).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}
