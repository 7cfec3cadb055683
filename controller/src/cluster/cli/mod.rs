//! What can be asked of the controller half on the command line.

mod controller;
mod render;

use clap::Subcommand;

pub(crate) use controller::{BootstrapArgs, ControllerArgs, ControllerCommand, LogFormat, OutputKind};
pub(crate) use render::RenderArgs;

/// The commands of the controller half.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    Controller(ControllerArgs),
    Render(RenderArgs),
}
