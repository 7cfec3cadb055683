//! The controller half of the command: `limpet controller` and `limpet render`.
//!
//! - [`kube`]: the API server: client, discovery, watches, and the objects that are there now.
//! - [`reconcile`]: everything that is written to the cluster, by the replica that leads.
//! - [`controller`]: the event loop of `limpet controller`. [`render`]: the same path from files.
//! - `config`: the configuration of both.

mod cli;
mod config;
mod controller;
mod kube;
mod reconcile;
pub mod render;

use clap::Subcommand;

use crate::exit::{Failure, Verdict};
use crate::output::Output;
use cli::{ControllerArgs, RenderArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    Controller(ControllerArgs),
    Render(RenderArgs),
}

impl ClusterCommand {
    pub(crate) fn run(&self, format: Output) -> Result<Verdict, Failure> {
        match self {
            Self::Controller(args) => controller::run(args, format),
            Self::Render(args) => render::run(args, format),
        }
    }
}
