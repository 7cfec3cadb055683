//! The command line of the controller half.

mod analyze;
mod controller;
mod drain;
mod explain;
mod keys;
mod migrate;
mod reach;
mod render;
mod sessions;
mod status;

pub(crate) use analyze::AnalyzeArgs;
pub(crate) use controller::{BootstrapArgs, ControllerArgs, ControllerCommand, LogFormat, TargetKind};
pub(crate) use drain::DrainArgs;
pub(crate) use explain::{CONFIG_MAP, ExplainArgs, RouteArgument};
pub(crate) use keys::{KeysCommand, ListKeysArgs, RevokeKeysArgs, RotateKeysArgs, SecretArgs};
pub(crate) use migrate::{MigrateCommand, MigratePoliciesArgs};
pub(crate) use reach::{ClusterArgs, ReachArgs};
pub(crate) use render::RenderArgs;
pub(crate) use sessions::SessionsArgs;
pub(crate) use status::{StatusArgs, VersionArgs};
