//! Tests of the repository itself, in `tests/`, and what they share.

mod links;
mod page;
mod transcript;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use links::broken_links;
pub use page::{Block, Link, Page};
pub use transcript::{Step, fits, steps};

/// The root of the repository.
#[must_use]
pub fn checkout() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().unwrap_or(root)
}

/// The pages with tested blocks: README.md, `docs/`, `design/` and `envoy-configs/`.
///
/// # Errors
/// If a folder cannot be read.
pub fn with_tested_blocks() -> io::Result<Vec<PathBuf>> {
    let mut pages = markdown_files(&checkout())?;
    let folders = ["docs", "design", "envoy-configs"];
    pages.retain(|page| page == Path::new("README.md") || folders.iter().any(|folder| page.starts_with(folder)));
    Ok(pages)
}

/// Every Markdown file below `root`, as sorted relative paths, without hidden folders and build output.
///
/// # Errors
/// If a folder cannot be read.
pub fn markdown_files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = files(root)?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    Ok(files)
}

/// Every file below `root`, as [`markdown_files`].
///
/// # Errors
/// If a folder cannot be read.
pub fn files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name();
            let path = folder.join(&name);
            let is_built = folder.as_os_str().is_empty() && (name == "target" || name == "dist");
            if name.to_string_lossy().starts_with('.') || is_built {
                continue;
            }
            if entry.file_type()?.is_dir() {
                if name != "target" {
                    folders.push(path);
                }
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
