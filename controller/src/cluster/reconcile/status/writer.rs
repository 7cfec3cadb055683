use kube::api::PostParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Error};
use serde_json::Value;

use super::shape::{Wanted, merge};
use crate::cluster::kube::{Digest, FIELD_MANAGER};
use limpet_api::{Kind, ObjectName};

/// How often a write is repeated after a conflict.
const ATTEMPTS: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Written,
    /// The object had this status already.
    Unchanged,
    /// The object was deleted, or replaced by another one of its name.
    Gone,
    /// There was a conflict each time.
    Conflict,
}

impl Outcome {
    /// The name in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Unchanged => "unchanged",
            Self::Gone => "gone",
            Self::Conflict => "conflict",
        }
    }
}

/// An object whose status must be written.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) kind: Kind,
    pub(super) resource: ApiResource,
    pub(super) name: ObjectName,
    pub(super) uid: String,
    /// Its `resourceVersion` when it was last seen.
    pub(super) version: String,
    /// The digest of our part of the wanted status.
    pub(super) digest: Digest,
    pub(super) wanted: Wanted,
}

/// Reads the object, merges our part into its status, and writes it back if that changed anything; with its
/// `resourceVersion`, so that no other write is overwritten.
pub(super) async fn write(client: Client, job: &Job, controller: &str) -> Result<Outcome, Error> {
    let api: Api<DynamicObject> = if job.kind.is_namespaced() {
        Api::namespaced_with(client, &job.name.namespace, &job.resource)
    } else {
        Api::all_with(client, &job.resource)
    };
    let post = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    for _ in 0..ATTEMPTS {
        let Some(mut object) = api.get_opt(&job.name.name).await? else {
            return Ok(Outcome::Gone);
        };
        if object.metadata.uid.as_deref() != Some(&*job.uid) {
            return Ok(Outcome::Gone);
        }
        let status = object.data.get("status").unwrap_or(&Value::Null);
        let now = k8s_openapi::jiff::Timestamp::now()
            .strftime("%Y-%m-%dT%H:%M:%SZ")
            .to_string();
        let merged = merge(job.kind, status, &job.wanted, controller, &now);
        if merged == *status {
            return Ok(Outcome::Unchanged);
        }
        let Some(fields) = object.data.as_object_mut() else {
            return Ok(Outcome::Gone);
        };
        fields.insert("status".to_owned(), merged);
        match api.replace_status(&job.name.name, &post, &object).await {
            Ok(_) => return Ok(Outcome::Written),
            Err(Error::Api(status)) if status.code == 409 => {}
            Err(Error::Api(status)) if status.code == 404 => return Ok(Outcome::Gone),
            Err(error) => return Err(error),
        }
    }
    Ok(Outcome::Conflict)
}
