use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::{Ran, folder, limpet};

fn filters() -> TempDir {
    let folder = folder();
    for name in ["limpet.wasm", "liblimpet.so"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    folder
}

fn install(from: &Path, to: &Path) -> Ran {
    let (from, to) = (from.to_str().unwrap(), to.to_str().unwrap());
    limpet(&["install", "--from", from, "--to", to, "-o", "json"]).run()
}

fn listed(folder: &Path) -> Vec<(String, u32)> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        (entry.file_name().into_string().unwrap(), mode)
    });
    let mut listed: Vec<_> = entries.collect();
    listed.sort();
    listed
}

#[test]
fn what_is_installed_is_what_it_was_made_of() {
    let (from, parent) = (filters(), folder());
    let to = parent.path().join("etc/limpet");
    // The second run finds the first one's files, a file of another release, and a running command.
    for _ in 0..2 {
        let said = install(from.path(), &to).code(0).json();
        let files = said["installed"].as_array().unwrap();
        assert_eq!(files.len(), 3, "{said}");
        for file in files {
            let [from, to] = ["from", "file"].map(|end| fs::read(file[end].as_str().unwrap()).unwrap());
            assert!(from == to && file["bytes"] == to.len(), "{file}");
        }
        let modes = [("liblimpet.so", 0o644), ("limpet", 0o755), ("limpet.wasm", 0o644)];
        let modes = modes.map(|(name, mode)| (name.to_owned(), mode));
        assert_eq!(listed(&to), modes, "or something is left over");
        fs::write(to.join("limpet.wasm"), "of another release").unwrap();
    }
    let version = Command::new(to.join("limpet")).arg("--version").status().unwrap();
    assert!(version.success(), "the copy does not run");
}

#[test]
fn nothing_is_installed_where_a_filter_is_missing() {
    let (from, to) = (filters(), folder());
    let missing = from.path().join("liblimpet.so");
    for directory in [false, true] {
        fs::remove_file(&missing).ok();
        if directory {
            fs::create_dir(&missing).unwrap();
        }
        let ran = install(from.path(), to.path()).code(3);
        ran.complains(missing.to_str().unwrap());
        assert_eq!(listed(to.path()), []);
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named() {
    let (from, file) = (filters(), crate::file(".txt", ""));
    let ran = install(from.path(), file.path()).code(3);
    ran.complains(&format!("{}: cannot be made", file.path().display()));
    // The place of a file is taken.
    let to = folder();
    fs::create_dir(to.path().join("limpet")).unwrap();
    let ran = install(from.path(), to.path()).code(3);
    ran.complains(&format!("cannot be copied to {}", to.path().join("limpet").display()));
    assert_eq!(listed(to.path()).len(), 1, "something is left over");
}
