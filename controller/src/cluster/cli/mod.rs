//! What can be asked of the controller half on the command line.

mod controller;
mod render;

pub(crate) use controller::{BootstrapArgs, ControllerArgs, ControllerCommand, LogFormat, OutputKind};
pub(crate) use render::RenderArgs;
