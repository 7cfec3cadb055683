//! The `limpet` command: checks configurations, inspects and issues tokens, makes and changes keys.
//!
//! It adds nothing to what a session is: every check and every verdict is the filter's own, from `limpet_core`.
//!
//! - `check`: a configuration of the filter, or one of Envoy with the filter inside, and the chain around it.
//! - `token`: what a token says, and tokens for tests.
//! - `keys`: new keys, keyring files and their rotation, wrapped keyrings, and files of keys.
//! - `find`: the filter in a configuration of Envoy. `embedded`: in objects of other control planes.
//! - `document`, `node`: files of YAML or JSON, and values in them together with their paths.
//! - `moment`, `output`: times for people, and the two forms of output.
//! - `xds`: the server that Envoys take their configuration from.
//! - `keyring`, `fences`: what the cluster keeps for the filter's configuration. `carried`: whether Envoys have it.
//! - `replicas`: what replicas tell each other of their Envoys.
//! - `apply`: objects of our own in a cluster, for another control plane.
//! - `sources`, `status`, `run`: what needs a cluster. `limpet controller` begins in `run`.

#[cfg(feature = "controller")]
pub mod api;
#[cfg(feature = "controller")]
mod apply;
#[cfg(feature = "controller")]
mod carried;
mod check;
mod cli;
mod document;
mod embedded;
#[cfg(feature = "controller")]
mod fences;
mod find;
#[cfg(feature = "controller")]
mod keyring;
mod keys;
#[cfg(feature = "controller")]
pub mod model;
mod moment;
mod node;
mod output;
#[cfg(feature = "controller")]
pub mod outputs;
#[cfg(feature = "controller")]
pub mod render;
#[cfg(feature = "controller")]
mod replicas;
#[cfg(feature = "controller")]
mod run;
#[cfg(feature = "controller")]
mod services;
#[cfg(feature = "controller")]
mod sources;
#[cfg(feature = "controller")]
mod status;
mod token;
#[cfg(feature = "controller")]
mod trouble;
#[cfg(feature = "controller")]
pub mod xds;

use std::fmt;
use std::process::ExitCode;

use clap::Parser as _;

use cli::{Cli, Command, KeysCommand, TokenCommand};

/// Why a command could not do its work: exit code 2.
#[derive(Debug)]
struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a command that did its work found out: exit code 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    Bad,
}

/// Does what the command line asks for.
#[must_use]
pub fn run() -> ExitCode {
    let Cli { command, format } = Cli::parse();
    let verdict = match command {
        Command::Check(args) => check::run(&args, format),
        #[cfg(feature = "controller")]
        Command::Controller(args) => run::run(&args, format),
        #[cfg(feature = "controller")]
        Command::Render(args) => render::run(&args, format),
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
