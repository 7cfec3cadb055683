//! `limpet controller`: watches a cluster, serves what its objects mean, and says on them what became of it.
//!
//! - `control`: the event loop.
//! - `publish`: from objects to what is given. `target`: to whom.
//! - `bootstrap`: what an Envoy is started with.
//! - `logs`, `metrics`, `http`, `leader`: what a service in a cluster has.

mod bootstrap;
mod control;
mod guard;
mod http;
mod inputs;
mod leader;
mod logs;
mod metrics;
mod publish;
mod superseded;
mod target;

use std::path::Path;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::cluster::cli::{ControllerArgs, ControllerCommand, OutputKind};
use crate::cluster::config::Config;
use crate::cluster::kube::{Observation, Reader, Store, Watched, connect};
use crate::cluster::reconcile::services;
use crate::cluster::reconcile::status::{Inputs, Keeper, Teller};
use crate::output::Output;
use crate::{Failure, Verdict};

use control::{Control, Told};
use http::Readiness;
use leader::Candidate;
use metrics::{Exposition, Metrics};
use publish::Publisher;

/// Runs until it is told to end, or prints what an Envoy is started with.
pub(crate) fn run(args: &ControllerArgs, form: Output) -> Result<Verdict, Failure> {
    if let Some(ControllerCommand::Bootstrap(args)) = &args.command {
        return bootstrap::run(args, form);
    }
    let args = &args.serve;
    let output = args.output;
    let config = match &args.config {
        Some(file) => Config::read(file)?,
        None => Config::default(),
    };
    if args.check {
        return Ok(Verdict::Good);
    }
    logs::start(args.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure(format!("threads can not be started: {error}")))?;
    runtime.block_on(serve(config, output, args.kubeconfig.as_deref()))?;
    Ok(Verdict::Good)
}

async fn serve(config: Config, output: OutputKind, kubeconfig: Option<&Path>) -> Result<(), Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure(error.to_string());
    let client = connect(kubeconfig).await.map_err(|error| failed(&error))?;
    let instance = instance();

    let snapshots = limpet_xds::Snapshots::new();
    let settings = config.settings(output);
    let address = config.http.address;
    let http = TcpListener::bind(address).await;
    let http = http.map_err(|error| Failure(format!("http.address: can not listen on {address}: {error}")))?;

    let (metrics, registry) = Metrics::new();
    let (readiness, is_ready) = watch::channel(Readiness::Waiting("nothing read yet".to_owned()));
    let (reported, reports) = watch::channel(None);
    let (observation, observed) = watch::channel(Observation::default());
    let (carrying, carried) = watch::channel(None);
    let (candidate, leads) = Candidate::new(&client, &config.leader_election, instance.clone());
    let (end, shutdown) = watch::channel(false);
    let plane = config.control_plane(output);
    let (target, giver) =
        target::target(&client, &config, &settings.controller_name, plane, &snapshots, &leads).await?;
    let delivery = target.delivery.clone();

    let teller = Teller::new(client.clone(), settings.controller_name.clone(), instance.clone());
    let filter = inputs::start(&client, &config, &delivery, &leads, carried, replica(&instance), teller)?;
    let keys = filter.keys.clone();

    let watched = Watched {
        controller: settings.controller_name.as_str().into(),
        certificates: settings.judges(),
        namespaces: config.namespaces.iter().map(|name| Arc::from(name.as_str())).collect(),
    };
    let control = Control::new(
        Reader::start(&client, watched.clone()),
        Store::new(watched),
        settings.clone(),
        Publisher::new(snapshots.clone(), metrics.clone(), config.envoy.clone(), target),
        Told {
            reported,
            observation,
            readiness,
            carried: carrying,
        },
        metrics.clone(),
        (filter.inputs, filter.guard),
    );
    let inputs = Inputs {
        reported: reports,
        observation: observed,
        delivery,
        replicas: filter.replicas.clone(),
        leads,
    };
    let services = services::Keeper::new(
        client.clone(),
        inputs.reported.clone(),
        inputs.observation.clone(),
        inputs.leads.clone(),
    );
    let keeper = Keeper::new(
        client,
        inputs,
        metrics.statuses.clone(),
        settings.controller_name.clone(),
        config.addresses(),
        instance,
    );

    let keeping = tokio::spawn(keeper.run());
    // Whose routes lead to XBackends, who serves them.
    let keeping_services = settings.judges().then(|| tokio::spawn(services.run()));
    let controlling = tokio::spawn(control.run(shutdown.clone()));
    let exposition = Exposition {
        registry,
        metrics,
        snapshots,
        keys,
    };
    let telling = tokio::spawn(http::serve(http, exposition, is_ready, shutdown.clone()));
    let electing = config
        .leader_election
        .enabled
        .then(|| tokio::spawn(candidate.run(shutdown.clone())));
    let mut serving = tokio::spawn(giver.run(shutdown));

    let result = tokio::select! {
        () = told_to_end() => {
            tracing::info!("ending");
            end.send_replace(true);
            serving.await
        }
        result = &mut serving => result,
    };
    end.send_replace(true);
    keeping.abort();
    if let Some(keeping) = keeping_services {
        keeping.abort();
    }
    drop(filter.tasks);
    // What was begun is brought to its end: the Lease is given back, requests are answered.
    for task in [Some(controlling), Some(telling), electing].into_iter().flatten() {
        let _ = task.await;
    }
    match result {
        Ok(Ok(())) => Ok(()),
        Ok(Err(failure)) => Err(failure),
        Err(error) => Err(failed(&error)),
    }
}

/// SIGTERM, or Ctrl-C.
async fn told_to_end() {
    let interrupt = tokio::signal::ctrl_c();
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt => {}
            }
        }
        Err(error) => {
            tracing::warn!(%error, "SIGTERM can not be waited for");
            let _ = interrupt.await;
        }
    }
}

/// What the other replicas call this one. A container that starts again in its pod has the name that it had, so nobody waits for the one before.
fn replica(instance: &str) -> String {
    std::env::var("POD_NAME").unwrap_or_else(|_| instance.to_owned())
}

/// Who this replica is among others: its pod's name, and what no other process of that name has.
fn instance() -> String {
    let host = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
    let host = host.unwrap_or_else(|_| "limpet".to_owned());
    let unique = getrandom::u32().unwrap_or_else(|_| std::process::id());
    format!("{host}_{unique:08x}")
}
