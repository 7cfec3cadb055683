//! The command line of the controller half.

mod controller;
mod drain;
mod explain;
mod migrate;
mod reach;
mod render;
mod sessions;

pub(crate) use controller::{BootstrapArgs, ControllerArgs, ControllerCommand, LogFormat, TargetKind};
pub(crate) use drain::DrainArgs;
pub(crate) use explain::{ExplainArgs, RouteArgument};
pub(crate) use migrate::{MigrateCommand, MigratePoliciesArgs};
pub(crate) use reach::{ClusterArgs, ReachArgs};
pub(crate) use render::RenderArgs;
pub(crate) use sessions::SessionsArgs;
