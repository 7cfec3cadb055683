//! Writing the files that an Envoy reads.

use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::Failure;

/// Whole files, each at once: an Envoy may be watching them. Those with a private key are their owner's alone.
pub(crate) fn write_file(file: &Path, text: &str, secret: bool) -> Result<(), Failure> {
    let written = || {
        let folder = file
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let permissions = Permissions::from_mode(if secret { 0o600 } else { 0o644 });
        let mut new = tempfile::Builder::new().permissions(permissions).tempfile_in(folder)?;
        new.write_all(text.as_bytes())?;
        new.persist(file).map_err(|error| error.error).map(drop)
    };
    written().map_err(|error: std::io::Error| Failure(format!("{}: can not be written: {error}", file.display())))
}
