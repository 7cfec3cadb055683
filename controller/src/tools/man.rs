//! `limpet man`.

use std::path::Path;

use clap::Command;
use clap_mangen::Man;

use crate::cli::ManArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output;

/// Writes a page of each command; `command`: the whole command line.
pub(crate) fn run(args: &ManArgs, command: Command) -> Result<CommandVerdict, CommandFailure> {
    // A page for `help` would say nothing that `limpet help` does not.
    let mut command = command.disable_help_subcommand(true);
    // Names subcommands as their pages are named: limpet-keys-list.
    command.build();
    let source = format!("limpet {}", command.get_version().unwrap_or_default());
    write_pages(&command, &source, Path::new(&args.write))?;
    Ok(CommandVerdict::Good)
}

fn write_pages(command: &Command, source: &str, folder: &Path) -> Result<(), CommandFailure> {
    for subcommand in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        write_pages(subcommand, source, folder)?;
    }
    let page = Man::new(command.clone()).source(source).manual("Limpet");
    let file = folder.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text)
        .map_err(|error| CommandFailure(format!("{}: {error}", file.display())))?;
    output::write_file(&file, &String::from_utf8_lossy(&text), false)
}
