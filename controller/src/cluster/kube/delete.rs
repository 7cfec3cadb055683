use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Error};
use serde::de::DeserializeOwned;

/// Deletes this object, but no later one of its name. Returns whether it existed.
pub(crate) async fn delete<K>(api: &Api<K>, object: &ObjectMeta) -> Result<bool, Error>
where
    K: Clone + Debug + DeserializeOwned,
{
    let same = Preconditions {
        uid: object.uid.clone(),
        resource_version: None,
    };
    let params = DeleteParams::default().preconditions(same);
    match api.delete(object.name.as_deref().unwrap_or_default(), &params).await {
        Ok(_) => Ok(true),
        // Gone, or replaced by another one of the name.
        Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(error),
    }
}
