//! What can be asked of the controller half on the command line.

mod controller;
mod render;

use clap::Subcommand;

use crate::exit::{Failure, Verdict};
use crate::output::Output;

pub(crate) use controller::{BootstrapArgs, ControllerArgs, ControllerCommand, LogFormat, OutputKind};
pub(crate) use render::RenderArgs;

/// The commands of the controller half.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    Controller(ControllerArgs),
    Render(RenderArgs),
}

impl ClusterCommand {
    pub(crate) fn run(&self, format: Output) -> Result<Verdict, Failure> {
        match self {
            Self::Controller(args) => super::controller::run(args, format),
            Self::Render(args) => super::render::run(args, format),
        }
    }
}
