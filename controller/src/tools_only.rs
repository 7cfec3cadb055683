//! Takes the place of `cluster` in a command that is built without it.

use clap::Subcommand;

use crate::cli::DrainEnvoyArgs;
use crate::exit::{CommandFailure, CommandVerdict, EXIT_CODES};
use crate::output::Output;
use crate::tools::drain;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Drain the Envoy of this machine before it is ended, for a preStop hook
    #[command(after_help = EXIT_CODES)]
    Drain(DrainEnvoyArgs),
}

impl ClusterCommand {
    pub(crate) fn run(&self, format: Output) -> Result<CommandVerdict, CommandFailure> {
        match self {
            Self::Drain(args) => drain::run(args, format),
        }
    }
}
