//! Who gets what is built: Envoys over xDS, or a control plane as objects.

use std::sync::Arc;

use tokio::sync::watch;

use crate::Failure;
use crate::cluster::reconcile::delivery::Delivery;
use crate::cluster::reconcile::manifests::{self, Wanted};
use crate::cluster::reconcile::reconcile_loop;

use limpet_outputs::ControlPlane;

use super::context::Context;

/// Who gets it.
#[derive(Debug)]
pub(crate) struct Target {
    /// How it is known that they have it.
    pub(crate) delivery: Delivery,
    /// What is given in place of resources.
    pub(crate) objects: Option<Objects>,
}

/// Objects for a control plane.
#[derive(Debug)]
pub(crate) struct Objects {
    /// The control plane.
    pub(crate) plane: Arc<ControlPlane>,
    /// Who writes them is told here.
    pub(crate) wanted: watch::Sender<Option<Arc<Wanted>>>,
}

/// What gives it to them.
pub(crate) enum Deliverer {
    /// Asked by Envoys.
    Server(limpet_xds::Server),
    /// Writes objects.
    Writer(Box<manifests::Reconciler>),
}

/// Envoys, or `plane` if there is one.
///
/// # Errors
/// The address of the xDS server can not be listened on.
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
        let server = server.map_err(|error| Failure(error.to_string()))?;
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
    /// Goes on until `shutdown`.
    ///
    /// # Errors
    /// The server can not go on.
    pub(crate) async fn run(self, mut shutdown: watch::Receiver<bool>) -> Result<(), Failure> {
        // Also when nobody is left to tell.
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
