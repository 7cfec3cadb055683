//! A pod, and the annotation by which it drains.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, Error};
use serde_json::{Value, json};

use super::wait;
use crate::cluster::kube::{FIELD_MANAGER, delete, words};
use crate::exit::Failure;
use limpet_model::endpoints::DRAIN;

/// The Service of an EndpointSlice.
const SERVICE: &str = "kubernetes.io/service-name";

/// A pod as it was seen.
pub(super) struct DrainedPod {
    api: Api<PartialObjectMeta<Pod>>,
    pods: Api<Pod>,
    slices: Api<EndpointSlice>,
    name: String,
    namespace: String,
    meta: PartialObjectMeta<Pod>,
}

impl DrainedPod {
    /// Finds a pod by its name.
    ///
    /// # Errors
    /// If there is none, or it cannot be read.
    pub(super) async fn find(client: &Client, namespace: &str, name: &str) -> Result<Self, Failure> {
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), namespace);
        let meta = api.get_opt(name).await;
        let meta = meta.map_err(|error| Failure(format!("cannot read the pod {name}: {}", words(&error))))?;
        let meta = meta.ok_or_else(|| Failure(format!("no pod {name} in the namespace {namespace}")))?;
        Ok(Self {
            api,
            pods: Api::namespaced(client.clone(), namespace),
            slices: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            meta,
        })
    }

    /// Since when it drains, as its annotation says.
    pub(super) fn since(&self) -> Option<&str> {
        let annotations = self.meta.metadata.annotations.as_ref()?;
        annotations.get(DRAIN).map(String::as_str)
    }

    /// The Services that lead to it.
    ///
    /// # Errors
    /// If there is none, or EndpointSlices cannot be listed.
    pub(super) async fn services(&self) -> Result<BTreeSet<String>, Failure> {
        let Self { name, namespace, .. } = self;
        let slices = self.slices.list(&ListParams::default()).await;
        let slices = slices.map_err(|error| Failure(format!("cannot list EndpointSlices: {}", words(&error))))?;
        let services: BTreeSet<String> = slices
            .into_iter()
            .filter(|slice| self.is_in(slice))
            .filter_map(|slice| slice.metadata.labels?.remove(SERVICE))
            .collect();
        if services.is_empty() {
            return Err(Failure(format!(
                "the pod {name} is behind no Service: no EndpointSlice in the namespace {namespace} names it, so it has \
                 no sessions"
            )));
        }
        Ok(services)
    }

    fn is_in(&self, slice: &EndpointSlice) -> bool {
        let targets = slice.endpoints.iter().flatten();
        let mut targets = targets.filter_map(|endpoint| endpoint.target_ref.as_ref());
        targets.any(|target| {
            let is_same = target.uid.is_none() || target.uid == self.meta.metadata.uid;
            target.kind.as_deref() == Some("Pod") && target.name.as_ref() == Some(&self.name) && is_same
        })
    }

    /// Sets the annotation, or removes it.
    ///
    /// # Errors
    /// If the API server refuses it, or the pod is another one by now.
    pub(super) async fn annotate(&self, since: Option<&str>) -> Result<(), Failure> {
        let since = since.map_or(Value::Null, Value::from);
        // With the uid, the change is for this pod alone.
        let change = json!({"metadata": {"uid": self.meta.metadata.uid, "annotations": {DRAIN: since}}});
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = self.api.patch(&self.name, &params, &Patch::Merge(&change)).await;
        let failed = |error: Error| Failure(format!("cannot annotate the pod {}: {}", self.name, words(&error)));
        patched.map(drop).map_err(failed)
    }

    /// What it says now.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) async fn now(&self) -> Result<wait::Pod, Error> {
        let now = self.api.get_opt(&self.name).await?;
        let now = now.filter(|now| now.metadata.uid == self.meta.metadata.uid);
        let Some(now) = now else { return Ok(wait::Pod::Gone) };
        let annotations = now.metadata.annotations.unwrap_or_default();
        Ok(if annotations.contains_key(DRAIN) {
            wait::Pod::Drains
        } else {
            wait::Pod::Undone
        })
    }

    /// Deletes this pod, and no other one of its name.
    ///
    /// # Errors
    /// If the API server refuses it.
    pub(super) async fn delete(&self) -> Result<(), Failure> {
        let deleted = delete(&self.pods, &self.meta.metadata).await;
        let failed = |error: Error| Failure(format!("cannot delete the pod {}: {}", self.name, words(&error)));
        deleted.map(drop).map_err(failed)
    }
}
