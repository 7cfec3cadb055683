//! `limpet analyze`: everything that is wrong, in files or in a cluster.
//!
//! It decides nothing: `limpet check` judges configurations, the model judges objects, and the controller writes what
//! it knows into statuses.
//!
//! - `code`: the codes, one table. `finding`, `severity`: what is said, and its order. Pure.
//! - `reports`: findings of a build and of a check. Pure.
//! - `controllers`: findings of the controllers themselves. Pure.
//! - `statuses`: findings of statuses, and both together. Pure.
//! - `files`, `online`: what files say, and a cluster with the rights of the user.

mod code;
mod controllers;
mod files;
mod finding;
mod online;
mod reports;
mod severity;
mod statuses;

use crate::cluster::cli::AnalyzeArgs;
use crate::cluster::config::Config;
use crate::cluster::explain::ConfigSource;
use crate::cluster::kube::connect;
use crate::cluster::runtime::runtime;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
pub(crate) use controllers::of_controllers;
pub(crate) use finding::Findings;
pub(crate) use online::{AnalyzedCluster, AnalyzedNamespaces, ClusterAnalysis, analyze as of_cluster};
pub(crate) use statuses::AnalyzedGateway;

pub(crate) fn run(args: &AnalyzeArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let (findings, all_read) = if args.files.is_empty() {
        (runtime()?.block_on(of_connected(args))?.findings, true)
    } else {
        let config = match &args.config {
            Some(file) => Config::read(file, args.target)?,
            None => Config::default(),
        };
        let files::AnalyzedFiles { findings, all_read } = files::analyze(&args.files, &config, args.target)?;
        (findings, all_read)
    };
    let findings = Findings::new(findings);
    match form {
        Output::Text { .. } => output::print_styled(&findings.text())?,
        Output::Document(format) => output::print_document(format, &findings.json())?,
    }
    Ok(if all_read {
        findings.verdict()
    } else {
        CommandVerdict::Partial
    })
}

async fn of_connected(args: &AnalyzeArgs) -> Result<ClusterAnalysis, CommandFailure> {
    let connection = connect(&args.cluster).await?;
    let what = AnalyzedCluster {
        connection: &connection,
        namespaces: match &args.namespace {
            _ if args.all_namespaces => AnalyzedNamespaces::All,
            Some(namespace) => AnalyzedNamespaces::Named(namespace),
            None => AnalyzedNamespaces::Own,
        },
        config: ConfigSource {
            file: args.config.as_deref(),
            controller: &args.controller,
            target: args.target,
        },
    };
    online::analyze(&what).await
}
