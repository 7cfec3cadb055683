use std::fs::Permissions;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::Failure;

/// Writes a file in one step, since an Envoy may be watching it. If `secret`, only the owner may read it.
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
    written().map_err(|error: std::io::Error| Failure(format!("{}: cannot be written: {error}", file.display())))
}
