//! The receiver of builds: Envoys get resources over xDS, or a control plane gets objects.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::context::ControllerContext;
use crate::cluster::reconcile::certificates::permission;
use crate::cluster::reconcile::delivery::Delivery;
use crate::cluster::reconcile::manifests::{
    self, DesiredManifests, ManifestRecipient, OrphanDiagnostics, WrittenManifests,
};
use crate::cluster::reconcile::reconcile_loop;
use crate::cluster::sessions::SessionRegistry;
use crate::exit::CommandFailure;
use limpet_outputs::ControlPlane;
use limpet_outputs::envoy::{EnvoysNamespace, ManagedOptions};

#[derive(Debug)]
pub(crate) struct PublicationTarget {
    /// Whether proxies have what is published.
    pub(crate) delivery: Delivery,
    pub(crate) objects: Option<ObjectTarget>,
    pub(crate) envoys: Option<EnvoyTarget>,
}

#[derive(Debug)]
pub(crate) struct EnvoyTarget {
    pub(crate) options: Arc<ManagedOptions>,
    pub(crate) desired: watch::Sender<Option<Arc<DesiredManifests>>>,
}

#[derive(Debug)]
pub(crate) struct ObjectTarget {
    pub(crate) plane: Arc<ControlPlane>,
    pub(crate) desired: watch::Sender<Option<Arc<DesiredManifests>>>,
}

pub(crate) enum Deliverer {
    Server(limpet_xds::Server),
    Writer(Box<manifests::ManifestReconciler>),
}

/// Objects go to `plane` if there is one, else resources go to Envoys. `tls` gets the certificates of our own
/// authority, `session_registry` Envoys' reports of sessions.
///
/// # Errors
/// If the xDS server cannot listen on its address.
pub(crate) async fn target(
    context: &ControllerContext,
    plane: Option<ControlPlane>,
    snapshots: &limpet_xds::Snapshots,
    tls: &limpet_xds::TlsInMemory,
    session_registry: &SessionRegistry,
) -> Result<(PublicationTarget, Deliverer), CommandFailure> {
    let ControllerContext {
        client, config, leads, ..
    } = context;
    let Some(plane) = plane else {
        let server = limpet_xds::Server::bind(config.xds_options(tls), snapshots.clone()).await;
        let server = server.map_err(|error| CommandFailure(format!("xds: {error}")))?;
        let mut server = server.with_permission(permission());
        if context.counts_sessions() {
            session_registry.follow_envoys(snapshots.status());
            let session_registry = session_registry.clone();
            let hear = move |group: &str, told| session_registry.receive(group, told);
            server = server.with_reports(limpet_xds::ReportHandler::new(hear));
        }
        let target = PublicationTarget {
            delivery: Delivery::Xds(snapshots.status()),
            objects: None,
            envoys: None,
        };
        return Ok((target, Deliverer::Server(server)));
    };
    let (wanting, wanted) = watch::channel(None);
    let (writer, written) = manifests::ManifestReconciler::new(
        client.clone(),
        ManifestRecipient::Plane(plane.clone()),
        &context.settings.controller_name,
        config.propagation_time.get(),
        wanted,
        leads.clone(),
        OrphanDiagnostics::new(&context.diagnostics, context.replica()),
    );
    let target = PublicationTarget {
        delivery: Delivery::Objects {
            written,
            leads: leads.clone(),
        },
        objects: Some(ObjectTarget {
            plane: Arc::new(plane),
            desired: wanting,
        }),
        envoys: None,
    };
    Ok((target, Deliverer::Writer(Box::new(writer))))
}

/// The task that keeps the Envoys of our Gateways, its input, and its failures.
pub(crate) fn envoys(
    context: &ControllerContext,
    options: &ManagedOptions,
) -> (
    EnvoyTarget,
    manifests::ManifestReconciler,
    watch::Receiver<WrittenManifests>,
) {
    let own = (options.namespace == EnvoysNamespace::Controller).then(|| options.surroundings.namespace.clone());
    let (wanting, wanted) = watch::channel(None);
    let (writer, written) = manifests::ManifestReconciler::new(
        context.client.clone(),
        ManifestRecipient::Envoys(own),
        &context.settings.controller_name,
        Duration::ZERO,
        wanted,
        context.leads.clone(),
        OrphanDiagnostics::new(&context.diagnostics, context.replica()),
    );
    let envoys = EnvoyTarget {
        options: Arc::new(options.clone()),
        desired: wanting,
    };
    (envoys, writer, written)
}

impl Deliverer {
    /// `None`: no Envoy is served.
    pub(crate) fn certificates(&self) -> Option<limpet_xds::Certificates> {
        match self {
            Self::Server(server) => Some(server.certificates()),
            Self::Writer(_) => None,
        }
    }

    pub(crate) async fn run(self, mut shutdown: watch::Receiver<bool>) -> Result<(), CommandFailure> {
        // Also if the sender is gone.
        let ended = async move {
            let _ = shutdown.wait_for(|ends| *ends).await;
        };
        match self {
            Self::Server(server) => {
                let ended = server.serve(ended).await;
                ended.map_err(|error| CommandFailure(error.to_string()))
            }
            Self::Writer(writer) => {
                tokio::select! {
                    () = reconcile_loop::run(*writer) => {}
                    () = ended => {}
                }
                Ok(())
            }
        }
    }
}
