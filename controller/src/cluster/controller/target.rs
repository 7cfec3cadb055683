//! Who gets what is built: Envoys get resources over xDS, or a control plane gets objects.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::context::Context;
use crate::cluster::reconcile::certificates::permission;
use crate::cluster::reconcile::delivery::Delivery;
use crate::cluster::reconcile::manifests::{self, Complaints, Recipient, Wanted, Written};
use crate::cluster::reconcile::reconcile_loop;
use crate::cluster::sessions::Book;
use crate::exit::Failure;
use limpet_outputs::ControlPlane;
use limpet_outputs::envoy::{EnvoysNamespace, ManagedOptions};

#[derive(Debug)]
pub(crate) struct Target {
    /// How to find out whether proxies have what is published.
    pub(crate) delivery: Delivery,
    /// For a control plane.
    pub(crate) objects: Option<Objects>,
    /// To the reconciler that keeps the Envoys of our Gateways.
    pub(crate) envoys: Option<Envoys>,
}

/// Where the objects of Envoys go.
#[derive(Debug)]
pub(crate) struct Envoys {
    pub(crate) options: Arc<ManagedOptions>,
    pub(crate) wanted: watch::Sender<Option<Arc<Wanted>>>,
}

/// Where objects for a control plane go.
#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) plane: Arc<ControlPlane>,
    /// To the reconciler that writes them.
    pub(crate) wanted: watch::Sender<Option<Arc<Wanted>>>,
}

/// The task that delivers what is published.
pub(crate) enum Deliverer {
    Server(limpet_xds::Server),
    Writer(Box<manifests::Reconciler>),
}

/// Objects go to `plane` if there is one, else resources go to Envoys. `tls` gets the certificates of our own
/// authority, `book` what Envoys tell of sessions.
///
/// # Errors
/// If the address of the xDS server cannot be listened on.
pub(crate) async fn target(
    context: &Context,
    plane: Option<ControlPlane>,
    snapshots: &limpet_xds::Snapshots,
    tls: &limpet_xds::TlsInMemory,
    book: &Book,
) -> Result<(Target, Deliverer), Failure> {
    let Context {
        client, config, leads, ..
    } = context;
    let Some(plane) = plane else {
        let server = limpet_xds::Server::bind(config.xds_options(tls), snapshots.clone()).await;
        let server = server.map_err(|error| Failure(format!("xds: {error}")))?;
        let mut server = server.with_permission(permission());
        if context.counts_sessions() {
            book.follow_envoys(snapshots.status());
            let book = book.clone();
            let hear = move |group: &str, told| book.hear(group, told);
            server = server.with_reports(limpet_xds::Reports::new(hear));
        }
        let target = Target {
            delivery: Delivery::Xds(snapshots.status()),
            objects: None,
            envoys: None,
        };
        return Ok((target, Deliverer::Server(server)));
    };
    let (wanting, wanted) = watch::channel(None);
    let (writer, written) = manifests::Reconciler::new(
        client.clone(),
        Recipient::Plane(plane.clone()),
        &context.settings.controller_name,
        config.propagation_time.get(),
        wanted,
        leads.clone(),
        Complaints::new(&context.diagnostics, context.replica()),
    );
    let target = Target {
        delivery: Delivery::Objects {
            written,
            leads: leads.clone(),
        },
        objects: Some(Objects {
            plane: Arc::new(plane),
            wanted: wanting,
        }),
        envoys: None,
    };
    Ok((target, Deliverer::Writer(Box::new(writer))))
}

/// The task that keeps the Envoys of our Gateways, where it gets what is wanted, and where it tells what it could not
/// write.
pub(crate) fn envoys(
    context: &Context,
    options: &ManagedOptions,
) -> (Envoys, manifests::Reconciler, watch::Receiver<Written>) {
    let own = (options.namespace == EnvoysNamespace::Controller).then(|| options.surroundings.namespace.clone());
    let (wanting, wanted) = watch::channel(None);
    let (writer, written) = manifests::Reconciler::new(
        context.client.clone(),
        Recipient::Envoys(own),
        &context.settings.controller_name,
        Duration::ZERO,
        wanted,
        context.leads.clone(),
        Complaints::new(&context.diagnostics, context.replica()),
    );
    let envoys = Envoys {
        options: Arc::new(options.clone()),
        wanted: wanting,
    };
    (envoys, writer, written)
}

impl Deliverer {
    /// The certificates of xDS, if Envoys are served.
    pub(crate) fn certificates(&self) -> Option<limpet_xds::Certificates> {
        match self {
            Self::Server(server) => Some(server.certificates()),
            Self::Writer(_) => None,
        }
    }

    /// Runs until `shutdown`.
    ///
    /// # Errors
    /// If the server fails.
    pub(crate) async fn run(self, mut shutdown: watch::Receiver<bool>) -> Result<(), Failure> {
        // Also if the sender is gone.
        let ended = async move {
            let _ = shutdown.wait_for(|ends| *ends).await;
        };
        match self {
            Self::Server(server) => {
                let ended = server.serve(ended).await;
                ended.map_err(|error| Failure(error.to_string()))
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
