//! `limpet install`.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::InstallArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};

/// Both builds of the filter.
const FILTERS: [&str; 2] = ["limpet.wasm", "liblimpet.so"];

pub(crate) fn run(args: &InstallArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let command =
        std::env::current_exe().map_err(|error| CommandFailure(format!("cannot find this command: {error}")))?;
    let filters = FILTERS.map(|name| (args.from.join(name), name, 0o644));
    let files: Vec<_> = [(command, "limpet", 0o755)].into_iter().chain(filters).collect();
    // All are opened before any is written: what is there stays as it is where one is missing.
    let mut opened = Vec::new();
    for (from, name, mode) in files {
        opened.push((open(&from)?, from, args.to.join(name), mode));
    }
    fs::create_dir_all(&args.to)
        .map_err(|error| CommandFailure(format!("{}: cannot be made: {error}", args.to.display())))?;
    let mut installed = Vec::new();
    for (mut file, from, to, mode) in opened {
        let bytes = copy(&mut file, &to, mode).map_err(|error| {
            CommandFailure(format!(
                "{}: cannot be copied to {}: {error}",
                from.display(),
                to.display()
            ))
        })?;
        installed.push((from, to, bytes));
    }
    report(&installed, form)?;
    Ok(CommandVerdict::Good)
}

fn open(from: &Path) -> Result<File, CommandFailure> {
    let failed = |error: String| CommandFailure(format!("{}: cannot be read: {error}", from.display()));
    let file = File::open(from).map_err(|error| failed(error.to_string()))?;
    let metadata = file.metadata().map_err(|error| failed(error.to_string()))?;
    if !metadata.is_file() {
        return Err(failed("expected a file".to_owned()));
    }
    Ok(file)
}

/// The file appears in one step: an Envoy or a preStop hook may have the old one open.
fn copy(from: &mut File, to: &Path, mode: u32) -> io::Result<u64> {
    let folder = to.parent().unwrap_or(Path::new("."));
    let permissions = Permissions::from_mode(mode);
    let mut new = tempfile::Builder::new().tempfile_in(folder)?;
    let bytes = io::copy(from, &mut new)?;
    // After it was made, so that no umask takes a bit away.
    new.as_file().set_permissions(permissions)?;
    new.persist(to).map_err(|error| error.error)?;
    Ok(bytes)
}

fn report(installed: &[(PathBuf, PathBuf, u64)], form: Output) -> Result<(), CommandFailure> {
    match form {
        Output::Text { .. } => {
            let line = |(from, to, bytes): &(PathBuf, PathBuf, u64)| {
                format!("{}: {bytes} bytes, as {}\n", to.display(), from.display())
            };
            output::print(&installed.iter().map(line).collect::<String>())
        }
        Output::Document(format) => {
            let file = |(from, to, bytes): &(PathBuf, PathBuf, u64)| json!({"file": to, "from": from, "bytes": bytes});
            output::print_document(
                format,
                &json!({"installed": installed.iter().map(file).collect::<Vec<_>>()}),
            )
        }
    }
}
