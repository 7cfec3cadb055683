//! Takes the place of `cluster` in a command that is built without it.

use clap::Subcommand;

use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::Output;

/// No command.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {}

impl ClusterCommand {
    pub(crate) fn run(&self, _: Output) -> Result<CommandVerdict, CommandFailure> {
        match *self {}
    }

    pub(crate) fn has_wide_table(&self) -> bool {
        match *self {}
    }
}
