//! The `limpet` command. It checks configurations, inspects and issues tokens, makes and rotates keys, and runs the
//! controller.
//!
//! It has no rules of its own for sessions: every check and every verdict is the filter's, from `limpet_core`.
//!
//! From the top down; no import runs upwards:
//!
//! - `cluster`: `limpet controller`, `limpet render` and what else is about a cluster. The only part that knows
//!   Kubernetes, and the only one that a build without the feature `controller` lacks.
//! - `tools`: all other commands.
//! - `envoy_config`: configuration files, and the filter in them.
//! - `cli`, `output`, `time_format`, `settling`, `exit`: the command line, what commands write, times for people, when
//!   counts of sessions can be relied on, and exit codes.

mod cli;
#[cfg_attr(not(feature = "controller"), path = "tools_only.rs")]
pub mod cluster;
mod envoy_config;
mod exit;
mod output;
mod settling;
mod time_format;
mod tools;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use cli::{CheckArgs, CompletionsArgs, DrainedArgs, InstallArgs, KeysCommand, ManArgs, TokenCommand};
use cluster::ClusterCommand;
use exit::{CommandVerdict, EXIT_CODES};
use output::Output;
use tools::{check, completions, drained, install, keys, man, token};

/// Signed session persistence for Envoy: check configurations, inspect tokens, manage keys, run the controller
#[derive(Debug, Parser)]
#[command(name = "limpet", version, after_help = EXIT_CODES, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The format of the output
    #[arg(long, value_enum, global = true, default_value = "text", value_name = "FORMAT")]
    format: Output,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(CheckArgs),
    #[command(flatten)]
    Cluster(ClusterCommand),
    /// Inspect tokens, and issue tokens for tests
    #[command(subcommand)]
    Token(TokenCommand),
    /// Generate, rotate and wrap keys
    #[command(subcommand)]
    Keys(KeysCommand),
    Drained(DrainedArgs),
    Install(InstallArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Runs what the command line asks for.
#[must_use]
pub fn run() -> ExitCode {
    let Cli { command, format } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    let verdict = match command {
        Command::Check(args) => check::run(&args, format),
        Command::Cluster(command) => command.run(format),
        Command::Token(TokenCommand::Inspect(args)) => token::inspect::run(&args, format),
        Command::Token(TokenCommand::Issue(args)) => token::issue::run(&args, format),
        Command::Keys(KeysCommand::Count(args)) => keys::count::run(&args, format),
        Command::Keys(KeysCommand::Generate(args)) => keys::generate::run(&args, format),
        Command::Keys(KeysCommand::List(args)) => keys::list::run(&args, format),
        Command::Keys(KeysCommand::Revoke(args)) => keys::revoke::run(&args, format),
        Command::Keys(KeysCommand::Rotate(args)) => keys::rotate::run(&args, format),
        Command::Keys(KeysCommand::Wrap(args)) => keys::wrap::run(&args, format),
        Command::Drained(args) => drained::run(&args, format),
        Command::Install(args) => install::run(&args, format),
        Command::Completions(args) => completions::run(&args, Cli::command()),
        Command::Man(args) => man::run(&args, Cli::command()),
    };
    match verdict {
        Ok(CommandVerdict::Good) => ExitCode::SUCCESS,
        Ok(CommandVerdict::Bad) => ExitCode::from(1),
        Ok(CommandVerdict::Partial) => ExitCode::from(2),
        Err(failure) => {
            output::print_error(&format!("error: {failure}\n"));
            if format == Output::Json {
                print_error(&failure.to_string());
            }
            ExitCode::from(2)
        }
    }
}

/// Says what is wrong with the arguments, or prints the help. clap knows the format only of arguments that are right.
fn misused(error: &clap::Error) -> ExitCode {
    // A closed pipe is no failure.
    error.print().unwrap_or_default();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args().collect();
    let is_json = |pair: &[String]| matches!(pair, [name, value] if name == "--format" && value == "json");
    if arguments.windows(2).any(is_json) || arguments.iter().any(|argument| argument == "--format=json") {
        let text = error.to_string();
        let message = text.lines().next().unwrap_or_default();
        print_error(message.strip_prefix("error: ").unwrap_or(message));
    }
    ExitCode::from(2)
}

/// For programs: every outcome is JSON.
fn print_error(message: &str) {
    // It was said on stderr, too.
    output::print_json(&serde_json::json!({"error": message})).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
