use clap::Args;
use clap_complete::Shell;

use crate::exit::EXIT_CODES;

/// Print a script that completes this command in a shell
///
/// To complete in the present session of bash, run: `source <(limpet completions bash)`
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// Write the manual pages: limpet.1, and one of each subcommand
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ManArgs {
    /// The directory to write to, for example ~/.local/share/man/man1
    #[arg(long, value_name = "DIR")]
    pub(crate) to: String,
}
