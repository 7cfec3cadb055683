//! A replica whose pod is gone has ended, even if it could not say so: `helm uninstall` takes its rights before.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Error};

/// The least time between searches, because reports may change many times in a second.
pub(super) const SOON: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodStage {
    There,
    Ends,
    /// Deleted, or its containers have ended for good.
    Gone,
}

pub(super) struct ReplicaPods {
    api: Api<Pod>,
    own: String,
    /// Whether this replica has a pod of its name in the namespace; `None`: unknown.
    has_pod: Option<bool>,
    /// When pods were listed, and what was found; `None` for a pod: the API server did not answer.
    listed_at: Option<Instant>,
    found: BTreeMap<String, Option<PodStage>>,
}

impl ReplicaPods {
    pub(super) fn new(client: &Client, namespace: &str, own: &str) -> Self {
        Self {
            api: Api::namespaced(client.clone(), namespace),
            own: own.to_owned(),
            has_pod: None,
            listed_at: None,
            found: BTreeMap::new(),
        }
    }

    pub(super) async fn stages(&mut self, replicas: Vec<String>) -> &BTreeMap<String, Option<PodStage>> {
        // It has reported since it was gone, so it has another pod.
        let is_known = |name| matches!(self.found.get(name), Some(stage) if *stage != Some(PodStage::Gone));
        let is_fresh = self.listed_at.is_some_and(|at| at.elapsed() < SOON);
        if is_fresh && replicas.iter().all(is_known) {
            return &self.found;
        }
        let stages = if !replicas.is_empty() && self.are_told().await {
            join_all(replicas.iter().map(async |replica| self.stage(replica).await.ok())).await
        } else {
            vec![None; replicas.len()]
        };
        self.found = replicas.into_iter().zip(stages).collect();
        self.listed_at = Some(Instant::now());
        &self.found
    }

    /// Without a pod of this replica, missing pods of others say nothing.
    async fn are_told(&mut self) -> bool {
        if self.has_pod.is_none() {
            self.has_pod = self.stage(&self.own).await.ok().map(|stage| stage != PodStage::Gone);
        }
        self.has_pod == Some(true)
    }

    async fn stage(&self, name: &str) -> Result<PodStage, Error> {
        let fields = format!("metadata.name={name},status.phase!=Failed,status.phase!=Succeeded");
        let found = self.api.list_metadata(&ListParams::default().fields(&fields)).await?;
        Ok(match found.items.first() {
            None => PodStage::Gone,
            Some(pod) if pod.metadata.deletion_timestamp.is_some() => PodStage::Ends,
            Some(_) => PodStage::There,
        })
    }
}
