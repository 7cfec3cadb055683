//! Takes the place of `cluster` in a command that is built without it.

use clap::Subcommand;

use crate::cli::{CountArgs, GenerateArgs, ListArgs, RevokeArgs, RotateArgs, WrapArgs};
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::Output;
use crate::tools::{keys, version};

/// The commands that can also ask a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Generate, list, rotate, revoke and wrap keys
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Show the version
    #[command(after_help = "  limpet version\n  limpet version -o json")]
    Version,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    Count(CountArgs),
    Generate(GenerateArgs),
    /// List keys with their states and ages, and show the phase of the rotation
    ///
    /// Secrets are never shown. With `-o wide`, each key has its exact times.
    #[command(after_help = "  limpet keys list keyring.json")]
    List(ListArgs),
    /// Revoke keys that have leaked
    ///
    /// An Envoy that has the changed keyring honours no token of a revoked key. The file is changed.
    #[command(after_help = "  limpet keys revoke keyring.json --key 3,4")]
    Revoke(RevokeArgs),
    /// Take the rotation of a keyring file one phase further
    ///
    /// Every Envoy must have the keyring of one phase before the next one begins. The file is changed.
    #[command(after_help = "  limpet keys rotate keyring.json --config envoy.yaml")]
    Rotate(RotateArgs),
    Wrap(WrapArgs),
}

impl ClusterCommand {
    pub(crate) fn run(&self, form: Output) -> Result<CommandVerdict, CommandFailure> {
        match self {
            Self::Keys(KeysCommand::Count(args)) => keys::count::run(args, form),
            Self::Keys(KeysCommand::Generate(args)) => keys::generate::run(args, form),
            Self::Keys(KeysCommand::List(args)) => keys::list::run(args, form),
            Self::Keys(KeysCommand::Revoke(args)) => keys::revoke::run(args, form),
            Self::Keys(KeysCommand::Rotate(args)) => keys::rotate::run(args, form),
            Self::Keys(KeysCommand::Wrap(args)) => keys::wrap::run(args, form),
            Self::Version => version::run(form),
        }
    }

    pub(crate) fn has_wide_table(&self) -> bool {
        matches!(self, Self::Keys(KeysCommand::List(_)))
    }
}
