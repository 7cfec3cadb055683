//! The controller half of the command: `limpet controller` and `limpet render`.
//!
//! - [`kube`]: the API server: client, discovery, watches, and the objects that are there now.
//! - [`reconcile`]: everything that is written to the cluster, by the replica that leads.
//! - [`controller`]: the event loop of `limpet controller`. [`render`]: the same path from files.

mod cli;
mod controller;
mod kube;
mod reconcile;
pub mod render;

pub(crate) use cli::ClusterCommand;

use crate::exit::{Failure, Verdict};
use crate::output::Output;

pub(crate) fn run(command: &ClusterCommand, format: Output) -> Result<Verdict, Failure> {
    match command {
        ClusterCommand::Controller(args) => controller::run(args, format),
        ClusterCommand::Render(args) => render::run(args, format),
    }
}
