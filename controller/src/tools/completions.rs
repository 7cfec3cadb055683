//! `limpet completions`.

use clap::Command;

use crate::cli::CompletionsArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output;

/// Prints the script; `command`: the whole command line.
pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> Result<CommandVerdict, CommandFailure> {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut script);
    output::print_exactly(&String::from_utf8_lossy(&script))?;
    Ok(CommandVerdict::Good)
}
