//! The name that the command has on its command line.

use std::path::Path;

/// The name of the file by which kubectl finds the command.
pub(crate) const PLUGIN: &str = "kubectl-limpet";

/// What a person types in front of the arguments.
pub(crate) fn own_name() -> &'static str {
    match own_file_name() {
        PLUGIN => "kubectl limpet",
        other => other,
    }
}

/// The name of the program in a shell.
pub(crate) fn own_file_name() -> &'static str {
    let program = std::env::args_os().next().unwrap_or_default();
    let is_plugin = Path::new(&program).file_name().is_some_and(|name| name == PLUGIN);
    if is_plugin { PLUGIN } else { "limpet" }
}
