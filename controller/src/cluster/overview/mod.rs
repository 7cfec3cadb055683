//! `limpet status`: whether an installation works, on one screen.
//!
//! - `view`: what is shown, for people and for programs. Pure.

mod view;

use crate::cluster::analyze::{self, AnalyzedCluster, AnalyzedNamespaces, ClusterAnalysis, Findings};
use crate::cluster::cli::{CONFIG_MAP, StatusArgs};
use crate::cluster::explain::ConfigSource;
use crate::cluster::kube::connect;
use crate::cluster::runtime::runtime;
use crate::cluster::survey::Controllers;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use crate::time_format;
use limpet_api::ObjectName;
use view::{GatewayRow, KeysView, Overview};

pub(crate) fn run(args: &StatusArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let runtime = runtime()?;
    let overview = runtime.block_on(read(args))?;
    let now = time_format::now();
    match form {
        Output::Text { .. } => output::print_styled(&overview.text(now))?,
        Output::Document(format) => output::print_document(format, &overview.json(now))?,
    }
    Ok(overview.findings.verdict())
}

async fn read(args: &StatusArgs) -> Result<Overview, CommandFailure> {
    let connection = connect(&args.reach.cluster).await?;
    let controller = ObjectName::new(&args.reach.controller, CONFIG_MAP);
    let what = AnalyzedCluster {
        connection: &connection,
        namespaces: match &args.namespace {
            Some(namespace) => AnalyzedNamespaces::Named(namespace),
            None => AnalyzedNamespaces::All,
        },
        config: ConfigSource {
            file: None,
            controller: &controller,
            target: args.target,
        },
    };
    let controllers = Controllers::new(&connection.client, &args.reach.controller);
    let (controllers, analysis) = tokio::join!(controllers.metrics(), analyze::of_cluster(&what));
    let ClusterAnalysis {
        mut findings,
        gateways,
        keyring,
    } = analysis?;
    let controllers = controllers.map_err(|unknown| CommandFailure::from(unknown).0);
    findings.extend(analyze::of_controllers(&args.reach.controller, &controllers));
    let controllers = controllers.unwrap_or_default();
    let rows = gateways
        .into_iter()
        .map(|gateway| GatewayRow::new(gateway, &controllers));
    Ok(Overview {
        namespace: args.reach.controller.clone(),
        keys: KeysView::new(keyring.as_ref(), &controllers),
        gateways: rows.collect(),
        controllers,
        findings: Findings::new(findings),
    })
}
