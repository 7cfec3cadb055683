//! Who gets what is built: Envoys get resources over xDS, or a control plane gets objects.

use std::sync::Arc;

use tokio::sync::watch;

use super::context::Context;
use crate::cluster::reconcile::delivery::Delivery;
use crate::cluster::reconcile::manifests::{self, Wanted};
use crate::cluster::reconcile::reconcile_loop;
use crate::exit::Failure;
use limpet_outputs::ControlPlane;

#[derive(Debug)]
pub(crate) struct Target {
    /// How to find out whether proxies have what is published.
    pub(crate) delivery: Delivery,
    /// For a control plane.
    pub(crate) objects: Option<Objects>,
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

/// Objects go to `plane` if there is one, else resources go to Envoys.
///
/// # Errors
/// If the address of the xDS server cannot be listened on.
pub(crate) async fn target(
    context: &Context,
    plane: Option<ControlPlane>,
    snapshots: &limpet_xds::Snapshots,
) -> Result<(Target, Deliverer), Failure> {
    let Context {
        client, config, leads, ..
    } = context;
    let Some(plane) = plane else {
        let server = limpet_xds::Server::bind(config.xds_options(), snapshots.clone()).await;
        let server = server.map_err(|error| Failure(format!("xds: {error}")))?;
        let target = Target {
            delivery: Delivery::Xds(snapshots.status()),
            objects: None,
        };
        return Ok((target, Deliverer::Server(server)));
    };
    let (wanting, wanted) = watch::channel(None);
    let (writer, written) = manifests::Reconciler::new(
        client.clone(),
        plane.clone(),
        &context.settings.controller_name,
        config.propagation_time.get(),
        wanted,
        leads.clone(),
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
    };
    Ok((target, Deliverer::Writer(Box::new(writer))))
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
