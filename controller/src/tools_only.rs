//! Takes the place of `cluster` in a command that is built without it.

use clap::Subcommand;

use crate::exit::{Failure, Verdict};
use crate::output::Output;

/// No command.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {}

impl ClusterCommand {
    pub(crate) fn run(&self, _format: Output) -> Result<Verdict, Failure> {
        match *self {}
    }
}
