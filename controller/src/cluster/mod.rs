//! The controller half of the command: `limpet controller`, `limpet render`, and what asks a cluster.
//!
//! - [`kube`]: the API server: client, discovery, watches, and the objects that are there now.
//! - [`reconcile`]: everything that is written to the cluster, by the replica that leads.
//! - [`controller`]: the event loop of `limpet controller`. [`render`]: the same path from files.
//! - `sessions`: where sessions live, as Envoys tell.
//! - [`survey`]: `limpet sessions`, which asks controllers. [`drain`]: `limpet drain`.
//! - [`explain`]: why rules have the sessions that they have, and whether a token would be honoured.
//! - [`analyze`]: everything that is wrong. [`overview`]: `limpet status`. [`version`]: `limpet version`.
//! - [`keys`]: `limpet keys` of a cluster.
//! - [`migrate`]: objects of users, before an upgrade of the Gateway API.
//! - `config`: the configuration of the first two. [`gateway_api`]: the releases of the Gateway API.

mod analyze;
mod cli;
mod config;
mod controller;
mod drain;
mod explain;
pub mod gateway_api;
mod keys;
mod kube;
#[cfg(test)]
mod looked;
mod migrate;
mod overview;
mod reconcile;
pub mod render;
mod runtime;
mod sessions;
mod survey;
mod timer;
mod version;

use clap::Subcommand;

use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::Output;
use cli::{
    AnalyzeArgs, ControllerArgs, DrainArgs, ExplainArgs, KeysCommand, MigrateCommand, RenderArgs, SessionsArgs,
    StatusArgs, VersionArgs,
};

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    Controller(ControllerArgs),
    Render(RenderArgs),
    Analyze(AnalyzeArgs),
    Status(StatusArgs),
    Explain(ExplainArgs),
    /// Write objects so that their sessions survive an upgrade of the Gateway API
    #[command(subcommand)]
    Migrate(MigrateCommand),
    Sessions(SessionsArgs),
    Drain(DrainArgs),
    /// Generate, list, rotate, revoke and wrap keys
    #[command(subcommand)]
    Keys(KeysCommand),
    Version(VersionArgs),
}

impl ClusterCommand {
    pub(crate) fn run(&self, format: Output) -> Result<CommandVerdict, CommandFailure> {
        match self {
            Self::Controller(args) => controller::run(args, format),
            Self::Render(args) => render::run(args, format),
            Self::Analyze(args) => analyze::run(args, format),
            Self::Explain(args) => explain::run(args, format),
            Self::Migrate(MigrateCommand::Policies(args)) => migrate::run(args, format),
            Self::Sessions(args) => survey::run(args, format),
            Self::Drain(args) => drain::run(args, format),
            Self::Keys(command) => keys::run(command, format),
            Self::Status(args) => overview::run(args, format),
            Self::Version(args) => version::run(args, format),
        }
    }

    pub(crate) fn has_wide_table(&self) -> bool {
        matches!(
            self,
            Self::Explain(_) | Self::Sessions(_) | Self::Keys(KeysCommand::List(_))
        )
    }
}
