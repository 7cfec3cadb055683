//! Tells the other replicas how far this one's Envoys are, and this one how far theirs are.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Error};
use serde_json::json;
use tokio::sync::watch;

use crate::model::{MANAGED_BY, MANAGER};

use super::replicas::{BEAT, Replicas, Standing, View};

/// Changes that come together are told together.
const GATHER: Duration = Duration::from_millis(200);
/// How long one call may last.
const CALL: Duration = Duration::from_secs(5);

/// Which Lease, and who this replica is.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The namespace of the Lease, and of the Secrets.
    pub(crate) namespace: String,
    /// The Lease's name.
    pub(crate) lease: String,
    /// This replica's name, which no other one has.
    pub(crate) replica: String,
}

/// Keeps this replica's report in the Lease that all of them share.
pub(super) struct Exchange {
    leases: Api<Lease>,
    name: String,
    replicas: Replicas,
    own: watch::Receiver<Standing>,
    leads: watch::Receiver<bool>,
    /// `None`: how far the others are is not known.
    told: watch::Sender<Option<View>>,
    /// What failed last, so that it is said once.
    failed: Option<String>,
}

impl Exchange {
    pub(super) fn new(
        client: &Client,
        place: &Place,
        phase_time: Duration,
        own: watch::Receiver<Standing>,
        leads: watch::Receiver<bool>,
    ) -> (Self, watch::Receiver<Option<View>>) {
        let (told, others) = watch::channel(None);
        let exchange = Self {
            leases: Api::namespaced(client.clone(), &place.namespace),
            name: place.lease.clone(),
            replicas: Replicas::new(&place.replica, phase_time),
            own,
            leads,
            told,
            failed: None,
        };
        (exchange, others)
    }

    /// Goes on until it is dropped, or nobody has anything to tell any more.
    pub(super) async fn run(mut self) {
        loop {
            let standing = self.own.borrow_and_update().clone();
            let view = match tokio::time::timeout(CALL, self.beat(standing)).await {
                Ok(Ok(view)) => Ok(view),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("no answer".to_owned()),
            };
            if let Err(error) = &view
                && self.failed.as_ref() != Some(error)
            {
                tracing::warn!(
                    lease = self.name,
                    %error,
                    "replicas can not tell each other what their Envoys have; rotations of the key wait"
                );
            }
            self.failed = view.as_ref().err().cloned();
            let view = view.ok();
            self.told.send_if_modified(|known| {
                let changed = *known != view;
                *known = view;
                changed
            });
            tokio::select! {
                () = tokio::time::sleep(BEAT) => {}
                changed = self.own.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    tokio::time::sleep(GATHER).await;
                }
            }
        }
    }

    async fn beat(&mut self, standing: Standing) -> Result<View, Error> {
        let leads = *self.leads.borrow();
        let annotations = self.replicas.annotations(standing, leads);
        // Of a Lease that others change, too, this changes only what is in it; so nobody ever comes too late.
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
                    // Another one was faster.
                    Err(Error::Api(status)) if status.code == 409 => {}
                    created => drop(created?),
                }
                self.leases.patch(&self.name, &PatchParams::default(), &patch).await?
            }
            answer => answer?,
        };
        let annotations = lease.metadata.annotations.unwrap_or_default();
        Ok(self.replicas.see(&annotations, Instant::now()))
    }
}
