//! `limpet controller`: watches a cluster, serves what its objects mean, and writes their statuses.
//!
//! - `control`: the event loop.
//! - `build`: from objects to resources. `publish`: publishes them to a `target`. `retained_policies`: policies of
//!   earlier routes. `former_lags`: idle timeouts that became shorter. `endpoint_room`: the limit of endpoints.
//! - `quarantine`: refused routes, and their replacements.
//! - `inputs`: the keyring, the fences and the memory. `guard`, `memory`: the latter two in the event loop.
//! - `addresses`: what it listens on. `certificates`: when xDS certificates end.
//! - `context`, `logs`, `metrics`, `http`, `leader`: what every service in a cluster has.
//! - `port`: limits of the clients of `http`.
//! - `debug`: a page of the published state. `present`: gets it from the event loop.
//! - `contour`, `session_metrics`: metrics. `gauges`: writes both.
//! - `session_pages`: what people, pods and other replicas may read of sessions.
//! - `deletion_costs`: which pods a scale-down takes first. `bootstrap`: the subcommand of this name.

mod addresses;
mod bootstrap;
mod build;
mod certificates;
mod context;
mod contour;
mod control;
mod debug;
mod deletion_costs;
mod endpoint_room;
mod former_lags;
mod gauges;
mod guard;
mod hosts;
mod http;
mod inputs;
mod leader;
mod logs;
mod memory;
mod metrics;
mod port;
mod present;
mod publish;
mod quarantine;
mod reference_wait;
mod retained_policies;
mod session_metrics;
mod session_pages;
mod target;

pub(crate) use debug::{CURRENT_STATUS, ConditionSubject, ObjectVerdict, ObjectVerdicts};

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use limpet_xds::TlsInMemory;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use crate::cluster::cli::{ClusterArgs, ControllerArgs, ControllerCommand, TargetKind};
use crate::cluster::config::Config;
use crate::cluster::kube::{ApiConnection, Observation, connect};
use crate::cluster::reconcile::diagnostics::Diagnostics;
use crate::cluster::reconcile::manifests::WrittenManifests;
use crate::cluster::reconcile::replicas::ReplicaReports;
use crate::cluster::reconcile::reported::PublishedReports;
use crate::cluster::reconcile::status::{self, StatusFacts, StatusInputs};
use crate::cluster::reconcile::{reconcile_loop, services};
use crate::cluster::sessions::{self, AnswerSealing, SessionRegistry};
use crate::envoy_config::config_file;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use certificates::InUse;
use context::{ControllerContext, instance};
use contour::ContourMetrics;
use control::{ControlLoop, ControlSenders, ControlSources};
use debug::DebugPage;
use leader::Candidate;
use metrics::{Exposition, Metrics};
use publish::Publisher;
use session_metrics::SessionMetrics;
use target::{EnvoyTarget, PublicationTarget};

/// How long a replica serves Envoys after the signal to end. New connections still come for a moment, and an Envoy that
/// finds no server there does not learn of new pods.
const LINGERING: Duration = Duration::from_secs(2);

pub(crate) fn run(args: &ControllerArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    if let Some(ControllerCommand::Bootstrap(args)) = &args.command {
        return bootstrap::run(args, form);
    }
    let args = &args.serve;
    let target = args.target;
    let checked = match &args.config {
        Some(file) => Config::to_serve(file, &config_file::read(file)?, target),
        None => Ok(Config::default()),
    };
    let checked = match checked {
        Ok(config) if args.check => addresses::check(&config, target).map(|()| config),
        checked => checked,
    };
    let config = match checked {
        Ok(config) => config,
        Err(failure) => {
            output::print_failure(form, &failure.to_string());
            return Ok(CommandVerdict::Bad);
        }
    };
    if args.check {
        return Ok(CommandVerdict::Good);
    }
    logs::start(args.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandFailure(format!("cannot start threads: {error}")))?;
    runtime.block_on(serve(config, target, &args.cluster))?;
    Ok(CommandVerdict::Good)
}

#[expect(clippy::too_many_lines, reason = "what runs and what connects it, in order")]
async fn serve(mut config: Config, target: TargetKind, cluster: &ClusterArgs) -> Result<(), CommandFailure> {
    let failed = |error: &dyn std::fmt::Display| CommandFailure(error.to_string());
    let ApiConnection { client, .. } = connect(cluster).await.map_err(|error| failed(&error))?;
    let namespace = config.leader_election.namespace(&client).to_owned();
    config.complete(&namespace);
    let listener = addresses::bind("http.address", config.http.address).await?;
    let plane = config.control_plane(target);
    let (context, candidate) = begin(client, config, target);

    let snapshots = limpet_xds::Snapshots::new();
    let tls = TlsInMemory::default();
    let sessions = SessionRegistry::new();
    let (target, deliverer) = target::target(&context, plane, &snapshots, &tls, &sessions).await?;
    let delivery = target.delivery.clone();
    let (senders, receivers) = ControlSenders::channels();
    let (leave, left) = watch::channel(false);
    let filter = inputs::start(
        &context,
        &delivery,
        &tls,
        receivers.published_filter,
        receivers.reported.clone(),
        left,
    )?;
    let sealing = AnswerSealing::new(context.replica(), filter.keys.clone());
    let certificates = InUse::new(deliverer.certificates(), filter.in_secrets);
    let (metrics, mut registry) = Metrics::new();
    ContourMetrics::register(&mut registry, &context, &receivers.reported);
    SessionMetrics::register(&mut registry, &context, &sessions);
    let exposition = Exposition {
        registry,
        metrics: metrics.clone(),
        snapshots: snapshots.clone(),
        keys: filter.keys,
        certificates: certificates.clone(),
    };

    let mut reconcilers = filter.tasks;
    follow_certificates(&mut reconcilers, &context, certificates);
    share_sessions(&mut reconcilers, &context, &sessions, &filter.replicas, sealing);
    let reported = receivers.reported.clone();
    deletion_costs::start(&mut reconcilers, &context, &sessions, reported, receivers.deletions);
    let (envoys, without_envoys) = start_envoys(&mut reconcilers, &context);
    let inputs = StatusInputs {
        without_service: start_services(&mut reconcilers, &context, &receivers.reported, &receivers.observation),
        reported: receivers.reported,
        observation: receivers.observation,
        delivery,
        replicas: filter.replicas.clone(),
        without_envoys,
    };
    start_statuses(&mut reconcilers, &context, inputs, &metrics);
    let target = PublicationTarget { envoys, ..target };
    let (debug, questions) = DebugPage::new(&context.config.http, &snapshots, &sessions);
    let envoy = context.config.envoy.clone();
    let publisher = Publisher::new(snapshots, metrics.clone(), envoy, target, sessions.clone());
    let sources = ControlSources {
        inputs: filter.inputs,
        guard: filter.guard,
        memory: filter.memory,
        replicas: filter.replicas.clone(),
        questions,
    };
    let control = ControlLoop::new(&context, publisher, senders, metrics, sources);

    let (end, shutdown) = watch::channel(false);
    let mut services = JoinSet::new();
    services.spawn(control.run(shutdown.clone()));
    let sessions = context.counts_sessions().then_some(sessions);
    let pages = http::pages(exposition, receivers.readiness, sessions, debug);
    services.spawn(http::serve(listener, pages, filter.replicas, shutdown.clone()));
    let (resign, resigned) = watch::channel(false);
    services.spawn(candidate.run(resigned));
    if let Some(exchange) = filter.exchange {
        services.spawn(exchange.run());
    }
    let serving = tokio::spawn(deliverer.run(shutdown));
    let result = until_shutdown(serving, &resign, &end).await;
    for over in [end, resign, leave] {
        over.send_replace(true);
    }
    drop(reconcilers);
    // These end by themselves: they release the Lease, inform the other replicas and answer requests.
    while services.join_next().await.is_some() {}
    result.map_err(|error| failed(&error))?
}

/// Serves Envoys until their time after the signal is over. Gives up the lead at the signal.
async fn until_shutdown<T>(
    mut serving: JoinHandle<T>,
    resign: &watch::Sender<bool>,
    end: &watch::Sender<bool>,
) -> Result<T, JoinError> {
    tokio::select! {
        lingering = shutdown_signal() => {
            tracing::info!("shutting down");
            resign.send_replace(true);
            tokio::time::sleep(lingering).await;
            end.send_replace(true);
            serving.await
        }
        result = &mut serving => result,
    }
}

fn share_sessions(
    tasks: &mut JoinSet<()>,
    context: &ControllerContext,
    sessions: &SessionRegistry,
    replicas: &ReplicaReports,
    sealing: AnswerSealing,
) {
    if !context.counts_sessions() {
        return;
    }
    let address = context.config.http.address;
    let own = std::env::var("POD_IP").ok().and_then(|ip| ip.parse().ok());
    let own = own.or_else(|| Some(address.ip()).filter(|ip| !ip.is_unspecified()));
    // A replica without a known address is the only one, or others do without it.
    if let Some(ip) = own {
        replicas.report_pages(SocketAddr::new(ip, address.port()));
    }
    sessions.seal_by(sealing.clone());
    tasks.spawn(sessions::follow(sessions.clone(), replicas.clone(), sealing));
}

fn follow_certificates(tasks: &mut JoinSet<()>, context: &ControllerContext, certificates: Option<InUse>) {
    if let Some(certificates) = certificates {
        let pod = context.replica();
        tasks.spawn(certificates::follow(certificates, context.diagnostics.clone(), pod));
    }
}

/// What every part is started with, and who runs for the lead.
fn begin(client: kube::Client, config: Config, target: TargetKind) -> (ControllerContext, Candidate) {
    let instance = instance();
    let (candidate, leads) = Candidate::new(&client, &config.leader_election, instance.clone());
    let context = ControllerContext {
        client,
        settings: Arc::new(config.settings(target)),
        config: Arc::new(config),
        instance,
        leads,
        diagnostics: Diagnostics::new(),
    };
    (context, candidate)
}

/// Starts the reconciler of Gateways' Envoys, if configured. The receiver has its results.
fn start_envoys(
    tasks: &mut JoinSet<()>,
    context: &ControllerContext,
) -> (Option<EnvoyTarget>, watch::Receiver<WrittenManifests>) {
    match &context.config.envoy.managed {
        Some(options) if context.settings.serves() => {
            let (envoys, writer, written) = target::envoys(context, options);
            tasks.spawn(reconcile_loop::run(writer));
            (Some(envoys), written)
        }
        _ => (None, watch::channel(WrittenManifests::default()).1),
    }
}

/// Starts the reconciler of `XBackend`s' Services, if we serve routes ourselves. The receiver has the refused ones.
fn start_services(
    tasks: &mut JoinSet<()>,
    context: &ControllerContext,
    reported: &watch::Receiver<Option<PublishedReports>>,
    observation: &watch::Receiver<Observation>,
) -> watch::Receiver<services::RefusedServices> {
    let (services, refused) = services::ServiceReconciler::new(
        context.client.clone(),
        reported.clone(),
        observation.clone(),
        context.leads.clone(),
    );
    if context.settings.serves() {
        tasks.spawn(reconcile_loop::run(services));
    }
    refused
}

fn start_statuses(tasks: &mut JoinSet<()>, context: &ControllerContext, inputs: StatusInputs, metrics: &Metrics) {
    let facts = StatusFacts {
        controller: context.settings.controller_name.clone(),
        services_role: context.cluster_role("xbackends"),
        ..StatusFacts::default()
    };
    let statuses = status::StatusReconciler::new(
        context.client.clone(),
        inputs,
        context.leads.clone(),
        metrics.statuses.clone(),
        facts,
        context.recorder(),
    );
    tasks.spawn(reconcile_loop::run(statuses));
}

/// Waits for SIGTERM or Ctrl-C. Returns how long Envoys are served from then on.
async fn shutdown_signal() -> Duration {
    let interrupt = tokio::signal::ctrl_c();
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => return LINGERING,
                _ = interrupt => {}
            }
        }
        Err(error) => {
            tracing::warn!(%error, "cannot wait for SIGTERM");
            let _ = interrupt.await;
        }
    }
    Duration::ZERO
}
