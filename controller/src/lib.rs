//! The `limpet` command: it checks configurations, inspects and issues tokens, makes and rotates keys, and runs the controller.
//!
//! It adds nothing to what a session is: every check and every verdict is the filter's own, from `limpet_core`.
//!
//! From the top down, and no import runs upwards:
//!
//! - `cluster`: `limpet controller` and `limpet render`. The only part that knows Kubernetes, and the only one that a build without the feature
//!   `controller` lacks.
//! - `tools`: `limpet check`, `limpet token`, `limpet keys`.
//! - `envoy_config`: configuration files, and the filter in them.
//! - `cli`, `output`, `time_format`: the command line, the two forms of output, and times for people.

mod cli;
#[cfg_attr(not(feature = "controller"), path = "tools_only.rs")]
pub mod cluster;
mod envoy_config;
mod exit;
mod output;
mod time_format;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use cli::{CheckArgs, KeysCommand, TokenCommand};
use cluster::ClusterCommand;
use exit::EXIT_CODES;

pub(crate) use exit::{Failure, Verdict};
use output::Output;
use tools::{check, keys, token};

/// Signed sessions for Envoy: check configurations, look into tokens, make and change keys.
#[derive(Debug, Parser)]
#[command(name = "limpet", version, after_help = EXIT_CODES, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The form of the output
    #[arg(long, value_enum, global = true, default_value = "text", value_name = "FORM")]
    format: Output,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(CheckArgs),
    #[command(flatten)]
    Cluster(ClusterCommand),
    /// Looks into tokens, and makes some for tests
    #[command(subcommand)]
    Token(TokenCommand),
    /// Makes keys, changes them in three phases, and wraps them for configurations
    #[command(subcommand)]
    Keys(KeysCommand),
}

/// Does what the command line asks for.
#[must_use]
pub fn run() -> ExitCode {
    let Cli { command, format } = Cli::parse();
    let verdict = match command {
        Command::Check(args) => check::run(&args, format),
        Command::Cluster(command) => cluster::run(&command, format),
        Command::Token(TokenCommand::Inspect(args)) => token::inspect::run(&args, format),
        Command::Token(TokenCommand::Issue(args)) => token::issue::run(&args, format),
        Command::Keys(KeysCommand::Generate(args)) => keys::generate::run(&args, format),
        Command::Keys(KeysCommand::List(args)) => keys::list::run(&args, format),
        Command::Keys(KeysCommand::Rotate(args)) => keys::rotate::run(&args, format),
        Command::Keys(KeysCommand::Wrap(args)) => keys::wrap::run(&args, format),
    };
    match verdict {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::from(1),
        Err(failure) => {
            output::complain(&format!("error: {failure}\n"));
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
