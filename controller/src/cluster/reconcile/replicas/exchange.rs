use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::json;
use tokio::sync::watch;

use super::presence::{BEAT, Presence};
use super::report::{Envoys, KeyringDelivery, Own, View};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile, changed_or_never};
use limpet_model::{MANAGED_BY, MANAGER};

/// The timeout of one call.
const CALL: Duration = Duration::from_secs(5);

/// The Lease that replicas share, and this replica's name in it.
#[derive(Debug, Clone)]
pub(crate) struct ReplicaLease {
    pub(crate) namespace: String,
    /// The name of the Lease.
    pub(crate) name: String,
    /// Unique among the replicas.
    pub(crate) replica: String,
}

/// What this replica tells the others, and what they tell. Clones are handles of the same.
#[derive(Debug, Clone)]
pub(crate) struct Replicas {
    own: watch::Sender<Own>,
    /// `None`: unknown.
    others: watch::Receiver<Option<Arc<View>>>,
}

impl Replicas {
    /// Tells whether this replica's Envoys have the keyring. Call it once before the exchange runs: without it, the
    /// other replicas do not wait for this one.
    pub(crate) fn say_keyring(&self, delivery: KeyringDelivery) {
        let delivery = Some(delivery);
        self.own.send_if_modified(|own| {
            let changed = own.keyring != delivery;
            own.keyring = delivery;
            changed
        });
    }

    /// Tells how far the Envoys of each Gateway are. Gateways without Envoys are left out.
    pub(crate) fn say_envoys(&self, envoys: BTreeMap<String, Envoys>) {
        self.own.send_if_modified(|own| {
            let changed = own.envoys != envoys;
            own.envoys = envoys;
            changed
        });
    }

    /// What the others told last; `None`: unknown.
    pub(crate) fn others(&mut self) -> Option<Arc<View>> {
        self.others.borrow_and_update().clone()
    }

    /// Waits until the others tell something else; for ever if the exchange does not run.
    pub(crate) async fn changed(&mut self) {
        changed_or_never(&mut self.others).await;
    }
}

/// Writes this replica's report to the shared Lease, and reads the others'.
pub(crate) struct Exchange {
    leases: Api<Lease>,
    name: String,
    presence: Presence,
    own: watch::Receiver<Own>,
    leads: watch::Receiver<bool>,
    told: watch::Sender<Option<Arc<View>>>,
    /// The last error, so that it is logged once.
    failed: Option<String>,
}

impl Reconcile for Exchange {
    const GATHER: Duration = Duration::from_millis(200);

    async fn changed(&mut self) -> Result<(), Closed> {
        Ok(self.own.changed().await?)
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        let own = self.own.borrow_and_update().clone();
        let view = match tokio::time::timeout(CALL, self.beat(&own)).await {
            Ok(Ok(view)) => Ok(Arc::new(view)),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        };
        if let Err(error) = &view
            && self.failed.as_ref() != Some(error)
        {
            tracing::warn!(
                lease = self.name,
                %error,
                "cannot tell other replicas what this one's Envoys have: \
                 key rotations wait, and the last known state of Envoys stays valid"
            );
        }
        self.failed = view.as_ref().err().cloned();
        let view = view.ok();
        self.told.send_if_modified(|known| {
            let changed = *known != view;
            *known = view;
            changed
        });
        Some(BEAT)
    }
}

impl Exchange {
    /// The leader removes reports of replicas that are gone. The keyring waits `phase_time` for a silent replica.
    pub(crate) fn new(
        client: &Client,
        lease: &ReplicaLease,
        phase_time: Duration,
        leads: watch::Receiver<bool>,
    ) -> (Self, Replicas) {
        let (saying, own) = watch::channel(Own::default());
        let (told, others) = watch::channel(None);
        let exchange = Self {
            leases: Api::namespaced(client.clone(), &lease.namespace),
            name: lease.name.clone(),
            presence: Presence::new(&lease.replica, phase_time),
            own,
            leads,
            told,
            failed: None,
        };
        (exchange, Replicas { own: saying, others })
    }

    async fn beat(&mut self, own: &Own) -> Result<View, Error> {
        let leads = *self.leads.borrow();
        let annotations = self.presence.annotations(own, leads);
        // A merge patch of this replica's annotation alone, so it cannot conflict with those of others.
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let lease = match self.leases.patch(&self.name, &PatchParams::default(), &patch).await {
            Err(Error::Api(status)) if status.code == 404 => {
                let metadata = ObjectMeta {
                    name: Some(self.name.clone()),
                    labels: Some(BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())])),
                    ..ObjectMeta::default()
                };
                let lease = Lease { metadata, spec: None };
                match self.leases.create(&PostParams::default(), &lease).await {
                    // Another replica was faster.
                    Err(Error::Api(status)) if status.code == 409 => {}
                    created => drop(created?),
                }
                self.leases.patch(&self.name, &PatchParams::default(), &patch).await?
            }
            answer => answer?,
        };
        let annotations = lease.metadata.annotations.unwrap_or_default();
        Ok(self.presence.see(&annotations, Instant::now()))
    }
}
