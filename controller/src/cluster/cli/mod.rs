//! The command line of the controller half.

mod controller;
mod migrate;
mod render;

pub(crate) use controller::{BootstrapArgs, ControllerArgs, ControllerCommand, LogFormat, OutputKind};
pub(crate) use migrate::{MigrateCommand, MigratePoliciesArgs};
pub(crate) use render::RenderArgs;
