use clap::{Args, ValueEnum};

/// Print a script that completes this command in a shell
///
/// For `kubectl limpet`, kubectl runs a program `kubectl_complete-limpet` on the PATH: `limpet completions kubectl`
/// prints it.
#[derive(Debug, Args)]
#[command(after_help = "\
  source <(limpet completions bash)
  limpet completions kubectl > ~/.local/bin/kubectl_complete-limpet && chmod +x ~/.local/bin/kubectl_complete-limpet
  limpet completions zsh > ~/.zfunc/_limpet")]
pub(crate) struct CompletionsArgs {
    /// The shell, or `kubectl`
    #[arg(value_enum)]
    pub(crate) shell: CompletionScript,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompletionScript {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
    Kubectl,
}

/// Complete a command line as kubectl asks for it
#[derive(Debug, Args)]
pub(crate) struct CompleteArgs {
    /// The words behind the name of the command; the last one is not complete
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

/// Write the manual pages: limpet.1, and one of each command
#[derive(Debug, Args)]
#[command(after_help = "limpet man --write ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The directory to write to; it is made if it is missing
    #[arg(long, value_name = "DIR")]
    pub(crate) write: String,
}
