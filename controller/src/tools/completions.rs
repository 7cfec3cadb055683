//! `limpet completions`.

use clap::Command;
use clap_complete::Shell;

use crate::cli::{CompletionScript, CompletionsArgs, PLUGIN, own_file_name};
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output;

/// Prints the script; `command`: the whole command line.
pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> Result<CommandVerdict, CommandFailure> {
    let shell = match args.shell {
        CompletionScript::Bash => Shell::Bash,
        CompletionScript::Elvish => Shell::Elvish,
        CompletionScript::Fish => Shell::Fish,
        CompletionScript::Powershell => Shell::PowerShell,
        CompletionScript::Zsh => Shell::Zsh,
        CompletionScript::Kubectl => {
            let script = format!(
                "#!/bin/sh\n# kubectl runs this as kubectl_complete-limpet.\nexec {PLUGIN} __complete \"$@\"\n"
            );
            output::print_exactly(&script)?;
            return Ok(CommandVerdict::Good);
        }
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, own_file_name(), &mut script);
    output::print_exactly(&String::from_utf8_lossy(&script))?;
    Ok(CommandVerdict::Good)
}
