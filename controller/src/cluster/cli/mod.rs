//! The command line of the controller half.

mod controller;
mod drain;
mod explain;
mod migrate;
mod render;
mod sessions;

pub(crate) use controller::{BootstrapArgs, ControllerArgs, ControllerCommand, LogFormat, OutputKind};
pub(crate) use drain::DrainArgs;
pub(crate) use explain::{ExplainArgs, RouteArgument};
pub(crate) use migrate::{MigrateCommand, MigratePoliciesArgs};
pub(crate) use render::RenderArgs;
pub(crate) use sessions::SessionsArgs;
