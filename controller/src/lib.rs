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

use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use cli::{
    CheckArgs, CompleteArgs, CompletionsArgs, EnvoyCommand, InstallArgs, ManArgs, TokenCommand, WaitDrainedArgs,
    own_name,
};
use cluster::ClusterCommand;
use exit::{CommandFailure, CommandVerdict, FAILURE};
use output::Output;
use tools::{check, complete, completions, drain, install, man, token, wait_drained};

/// Signed session persistence for Envoy: check configurations, inspect tokens, manage keys, run the controller
///
/// As `kubectl-limpet` on the PATH, it is a plugin of kubectl: `kubectl limpet COMMAND`.
#[derive(Debug, Parser)]
#[command(name = "limpet", version, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// The form of the output. `wide` is for `sessions`, `explain` and `keys list`
    #[arg(
        long,
        short,
        value_enum,
        global = true,
        default_value = "text",
        value_name = "FORMAT"
    )]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(CheckArgs),
    #[command(flatten)]
    Cluster(ClusterCommand),
    /// Inspect tokens, and issue tokens for tests
    #[command(subcommand)]
    Token(TokenCommand),
    /// Drain the Envoy of this machine
    #[command(subcommand)]
    Envoy(EnvoyCommand),
    WaitDrained(WaitDrainedArgs),
    Install(InstallArgs),
    Completions(CompletionsArgs),
    #[command(name = "__complete", hide = true)]
    Complete(CompleteArgs),
    Man(ManArgs),
}

/// The command line, with examples and exit codes in the help of each command.
#[must_use]
pub fn command_line() -> clap::Command {
    cli::with_help(Cli::command().bin_name(own_name()))
}

/// Runs what the command line asks for.
#[must_use]
pub fn run() -> ExitCode {
    let Cli { command, output } = match parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    let verdict = command.run(output);
    match verdict {
        Ok(verdict) => ExitCode::from(verdict.code()),
        Err(failure) => {
            output::print_failure(output, &failure.to_string());
            ExitCode::from(FAILURE)
        }
    }
}

fn parse() -> Result<Cli, clap::Error> {
    let mut command = command_line();
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    let cli = Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
    if cli.output.is_wide() && !cli.command.has_wide_table() {
        let message = "-o wide: expected text, json or yaml: this command has no wider table";
        return Err(command.error(ErrorKind::InvalidValue, message));
    }
    Ok(cli)
}

impl Command {
    fn run(&self, form: Output) -> Result<CommandVerdict, CommandFailure> {
        match self {
            Self::Check(args) => check::run(args, form),
            Self::Cluster(command) => command.run(form),
            Self::Token(TokenCommand::Inspect(args)) => token::inspect::run(args, form),
            Self::Token(TokenCommand::Issue(args)) => token::issue::run(args, form),
            Self::Envoy(EnvoyCommand::Drain(args)) => drain::run(args, form),
            Self::WaitDrained(args) => wait_drained::run(args, form),
            Self::Install(args) => install::run(args, form),
            Self::Completions(args) => completions::run(args, command_line()),
            Self::Complete(args) => complete::run(args, &command_line()),
            Self::Man(args) => man::run(args, command_line()),
        }
    }

    fn has_wide_table(&self) -> bool {
        match self {
            Self::Cluster(command) => command.has_wide_table(),
            _ => false,
        }
    }
}

/// Says what is wrong with the arguments, or prints the help.
fn misused(error: &clap::Error) -> ExitCode {
    // A closed pipe is no failure.
    error.print().unwrap_or_default();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let arguments: Vec<String> = std::env::args_os()
        .map(|argument| argument.to_string_lossy().into_owned())
        .collect();
    output::print_failure_document(Output::of_arguments(&arguments), &in_one_line(&error.to_string()));
    ExitCode::from(FAILURE)
}

/// The first paragraph of an error of clap's: what is wrong, and a list of arguments or values below it.
fn in_one_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let rest: Vec<&str> = lines.collect();
    if rest.is_empty() {
        first.to_owned()
    } else {
        format!("{first} {}", rest.join(", "))
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_consistent() {
        super::command_line().debug_assert();
    }
}
