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
use crate::exit::CommandFailure;
use limpet_model::endpoints::DRAIN;

/// The label of an EndpointSlice that names its Service.
const SERVICE: &str = "kubernetes.io/service-name";

pub(super) struct DrainedPod {
    api: Api<PartialObjectMeta<Pod>>,
    pods: Api<Pod>,
    slices: Api<EndpointSlice>,
    name: String,
    namespace: String,
    meta: PartialObjectMeta<Pod>,
}

impl DrainedPod {
    pub(super) async fn find(client: &Client, namespace: &str, name: &str) -> Result<Self, CommandFailure> {
        let api: Api<PartialObjectMeta<Pod>> = Api::namespaced(client.clone(), namespace);
        let meta = api.get_opt(name).await;
        let meta = meta.map_err(|error| CommandFailure(format!("cannot read the pod {name}: {}", words(&error))))?;
        let meta = meta.ok_or_else(|| CommandFailure(format!("no pod {name} in the namespace {namespace}")))?;
        Ok(Self {
            api,
            pods: Api::namespaced(client.clone(), namespace),
            slices: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            meta,
        })
    }

    /// The value of the annotation.
    pub(super) fn since(&self) -> Option<&str> {
        let annotations = self.meta.metadata.annotations.as_ref()?;
        annotations.get(DRAIN).map(String::as_str)
    }

    pub(super) fn uid(&self) -> Option<&str> {
        self.meta.metadata.uid.as_deref()
    }

    /// The Services that lead to it. Fails without any.
    pub(super) async fn services(&self) -> Result<BTreeSet<String>, CommandFailure> {
        let Self { name, namespace, .. } = self;
        let slices = self.slices.list(&ListParams::default()).await;
        let slices =
            slices.map_err(|error| CommandFailure(format!("cannot list EndpointSlices: {}", words(&error))))?;
        let services: BTreeSet<String> = slices
            .into_iter()
            .filter(|slice| self.is_in(slice))
            .filter_map(|slice| slice.metadata.labels?.remove(SERVICE))
            .collect();
        if services.is_empty() {
            return Err(CommandFailure(format!(
                "the pod {name} is behind no Service: no EndpointSlice in the namespace {namespace} names it, so it \
                 has no sessions"
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

    /// Sets or removes the annotation. Fails if the pod is another one by now.
    pub(super) async fn annotate(&self, since: Option<&str>) -> Result<(), CommandFailure> {
        let since = since.map_or(Value::Null, Value::from);
        // The uid limits the change to this pod.
        let change = json!({"metadata": {"uid": self.meta.metadata.uid, "annotations": {DRAIN: since}}});
        let params = PatchParams::apply(FIELD_MANAGER);
        let patched = self.api.patch(&self.name, &params, &Patch::Merge(&change)).await;
        let failed = |error: Error| CommandFailure(format!("cannot annotate the pod {}: {}", self.name, words(&error)));
        patched.map(drop).map_err(failed)
    }

    pub(super) async fn now(&self) -> Result<wait::PodDrainState, Error> {
        let now = self.api.get_opt(&self.name).await?;
        let now = now.filter(|now| now.metadata.uid == self.meta.metadata.uid);
        let Some(now) = now else {
            return Ok(wait::PodDrainState::Gone);
        };
        let annotations = now.metadata.annotations.unwrap_or_default();
        Ok(if annotations.contains_key(DRAIN) {
            wait::PodDrainState::Drains
        } else {
            wait::PodDrainState::Undone
        })
    }

    /// Deletes this pod, and no other one of its name.
    pub(super) async fn delete(&self) -> Result<DeletionOutcome, CommandFailure> {
        let failed = |error: Error| CommandFailure(format!("cannot delete the pod {}: {}", self.name, words(&error)));
        if delete(&self.pods, &self.meta.metadata).await.map_err(failed)? {
            return Ok(DeletionOutcome::Done);
        }
        match self.api.get_opt(&self.name).await.map_err(failed)? {
            None => Ok(DeletionOutcome::Gone),
            Some(now) if now.metadata.uid != self.meta.metadata.uid => Ok(DeletionOutcome::Replaced),
            Some(_) => Err(CommandFailure(format!(
                "cannot delete the pod {}: the API server says that it is another one, and it is not",
                self.name
            ))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletionOutcome {
    Done,
    /// Another client deleted it.
    Gone,
    /// The same, and another pod has its name now.
    Replaced,
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use axum::http::{Method, Request, Response};

    use super::*;

    /// The outcome if the API server answers with `code`, and then this pod is there.
    async fn deletion(code: u16, there: Option<&'static str>) -> Result<DeletionOutcome, CommandFailure> {
        let pod = |uid: &str| {
            json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": {"name": "shop-1", "namespace": "default", "uid": uid},
            })
        };
        let status = |code: u16| json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code});
        let server = tower::service_fn(move |request: Request<kube::client::Body>| async move {
            let (code, body) = match (request.method(), there) {
                (&Method::DELETE, _) => (code, status(code)),
                (_, Some(uid)) => (200, pod(uid)),
                (_, None) => (
                    404,
                    json!({
                        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                    }),
                ),
            };
            let response = Response::builder().status(code).body(Body::from(body.to_string()));
            Ok::<_, Infallible>(response.unwrap())
        });
        let client = Client::new(server, "default");
        let pod = DrainedPod {
            api: Api::default_namespaced(client.clone()),
            pods: Api::default_namespaced(client.clone()),
            slices: Api::default_namespaced(client),
            name: "shop-1".to_owned(),
            namespace: "default".to_owned(),
            meta: serde_json::from_value(pod("1")).unwrap(),
        };
        pod.delete().await
    }

    /// A race that no cluster runs on demand.
    #[tokio::test]
    async fn only_what_was_deleted_is_called_so() {
        assert_eq!(deletion(404, None).await.unwrap(), DeletionOutcome::Gone);
        assert_eq!(deletion(409, Some("2")).await.unwrap(), DeletionOutcome::Replaced);
        assert!(deletion(409, Some("1")).await.is_err());
        assert!(deletion(403, Some("1")).await.is_err());
    }
}
