//! The command line of the controller half.

mod controller;
mod render;

use clap::Subcommand;

pub(crate) use controller::{BootstrapArgs, ControllerArgs, ControllerCommand, LogFormat, OutputKind};
pub(crate) use render::RenderArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    Controller(ControllerArgs),
    Render(RenderArgs),
}
