use kube::api::{Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Error};
use serde_json::{Map, Value, json};

use super::shape::{DesiredStatus, merge};
use crate::cluster::kube::{CONTOUR_FIELDS, FIELD_MANAGER, StatusDigest};
use limpet_api::{Kind, ObjectName};

/// The most tries after conflicts.
const ATTEMPTS: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusWriteOutcome {
    Written,
    Unchanged,
    /// The object was deleted, or replaced by another one of its name.
    Gone,
    /// There was a conflict each time.
    Conflict,
}

impl StatusWriteOutcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Unchanged => "unchanged",
            Self::Gone => "gone",
            Self::Conflict => "conflict",
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct StatusWrite {
    pub(super) kind: Kind,
    pub(super) resource: ApiResource,
    pub(super) name: ObjectName,
    pub(super) uid: String,
    /// The `resourceVersion` that was last seen.
    pub(super) version: String,
    /// Whether it had no status then.
    pub(super) is_first: bool,
    pub(super) digest: StatusDigest,
    pub(super) desired: DesiredStatus,
}

/// Reads the object, merges our part into its status, and writes changes with its `resourceVersion`, so that no other
/// write is overwritten. Objects without a status are not read, which halves the requests after a start.
///
/// The definition of `IngressRoute`s may be Contour's own, without `/status`: then the status is a part of the object.
/// The definition may change at any time, so the answers to the writes decide.
pub(super) async fn write(client: Client, job: &StatusWrite, controller: &str) -> Result<StatusWriteOutcome, Error> {
    let api: Api<DynamicObject> = if job.kind.is_namespaced() {
        Api::namespaced_with(client, &job.name.namespace, &job.resource)
    } else {
        Api::all_with(client, &job.resource)
    };
    let post = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    if job.is_first && job.kind != Kind::IngressRoute {
        match write_first(&api, job, controller).await {
            // Another object than the one that was seen.
            Err(Error::Api(status)) if status.code == 409 => {}
            Err(Error::Api(status)) if status.code == 404 => return Ok(StatusWriteOutcome::Gone),
            result => return result.map(|()| StatusWriteOutcome::Written),
        }
    }
    let mut has_status = true;
    for _ in 0..ATTEMPTS {
        let Some(mut object) = api.get_opt(&job.name.name).await? else {
            return Ok(StatusWriteOutcome::Gone);
        };
        if object.metadata.uid.as_deref() != Some(&*job.uid) {
            return Ok(StatusWriteOutcome::Gone);
        }
        let status = object.data.get("status").unwrap_or(&Value::Null);
        let merged = merge(job.kind, status, &job.desired, controller, &now());
        if merged == *status {
            return Ok(StatusWriteOutcome::Unchanged);
        }
        if job.kind == Kind::IngressRoute {
            match patch(&api, &object, &merged, has_status).await {
                Ok(true) => return Ok(StatusWriteOutcome::Written),
                // Without `/status`, or because the object is gone.
                Err(Error::Api(status)) if status.code == 404 => has_status = false,
                // With `/status`, the rest of the object has no status.
                Ok(false) => has_status = true,
                Err(Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(error),
            }
            continue;
        }
        let Some(fields) = object.data.as_object_mut() else {
            return Ok(StatusWriteOutcome::Gone);
        };
        fields.insert("status".to_owned(), merged);
        match api.replace_status(&job.name.name, &post, &object).await {
            Ok(_) => return Ok(StatusWriteOutcome::Written),
            Err(Error::Api(status)) if status.code == 409 => {}
            Err(Error::Api(status)) if status.code == 404 => return Ok(StatusWriteOutcome::Gone),
            Err(error) => return Err(error),
        }
    }
    Ok(StatusWriteOutcome::Conflict)
}

/// The time as conditions have it.
fn now() -> String {
    k8s_openapi::jiff::Timestamp::now()
        .strftime("%Y-%m-%dT%H:%M:%SZ")
        .to_string()
}

/// Writes the status of an object without one.
async fn write_first(api: &Api<DynamicObject>, job: &StatusWrite, controller: &str) -> Result<(), Error> {
    let merge = Patch::Merge(json!({
        "metadata": {"uid": job.uid, "resourceVersion": job.version},
        "status": merge(job.kind, &Value::Null, &job.desired, controller, &now()),
    }));
    let params = PatchParams::apply(FIELD_MANAGER);
    api.patch_status(&job.name.name, &params, &merge).await.map(drop)
}

/// Only our two fields of an `IngressRoute`'s status, because without `/status` the whole object is written. Returns
/// whether it has them now.
async fn patch(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    status: &Value,
    has_status: bool,
) -> Result<bool, Error> {
    let fields: Map<String, Value> = CONTOUR_FIELDS
        .into_iter()
        .map(|field| (field.to_owned(), status[field].clone()))
        .collect();
    let name = object.metadata.name.as_deref().unwrap_or_default();
    let merge = Patch::Merge(json!({
        "metadata": {"resourceVersion": object.metadata.resource_version},
        "status": fields,
    }));
    let params = PatchParams::apply(FIELD_MANAGER);
    let written = if has_status {
        api.patch_status(name, &params, &merge).await?
    } else {
        api.patch(name, &params, &merge).await?
    };
    let has = written.data.get("status").unwrap_or(&Value::Null);
    Ok(CONTOUR_FIELDS.into_iter().all(|field| has[field] == status[field]))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::http::{Method, Request, Response, StatusCode};
    use kube::client::Body;
    use limpet_model::reports::IngressRouteStatus;

    use super::*;

    struct Server {
        has_status: bool,
        object: Value,
        /// Method and last part of the path of each request.
        asked: Vec<String>,
        /// Whether the first write has a conflict.
        changes_meanwhile: bool,
    }

    impl Server {
        fn new(has_status: bool) -> Arc<Mutex<Self>> {
            Arc::new(Mutex::new(Self {
                has_status,
                object: json!({
                    "apiVersion": "contour.heptio.com/v1beta1",
                    "kind": "IngressRoute",
                    "metadata": {"namespace": "shop", "name": "web", "uid": "one", "resourceVersion": "1"},
                    "spec": {"routes": [], "further": 1},
                    "status": {"currentStatus": "orphaned", "further": 2},
                }),
                asked: Vec::new(),
                changes_meanwhile: false,
            }))
        }

        fn answer(&mut self, method: &Method, path: &str, body: &[u8]) -> (StatusCode, Value) {
            let last = path.rsplit('/').next().unwrap_or_default();
            self.asked.push(format!("{method} {last}"));
            let failure = |code: StatusCode| {
                let status =
                    json!({"kind": "Status", "status": "Failure", "message": "", "reason": "", "code": code.as_u16()});
                (code, status)
            };
            if *method == Method::GET {
                return (StatusCode::OK, self.object.clone());
            }
            if *method == Method::PUT {
                self.object = serde_json::from_slice(body).unwrap();
                return (StatusCode::OK, self.object.clone());
            }
            assert_eq!(*method, Method::PATCH);
            let of_status = last == "status";
            if of_status && !self.has_status {
                return failure(StatusCode::NOT_FOUND);
            }
            let wanted: Value = serde_json::from_slice(body).unwrap();
            let version: u64 = self.object["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            if std::mem::take(&mut self.changes_meanwhile) {
                self.object["metadata"]["resourceVersion"] = (version + 1).to_string().into();
            }
            if wanted["metadata"]["resourceVersion"] != self.object["metadata"]["resourceVersion"] {
                return failure(StatusCode::CONFLICT);
            }
            assert_eq!(
                wanted.as_object().unwrap().keys().collect::<Vec<_>>(),
                ["metadata", "status"]
            );
            if of_status || !self.has_status {
                for (field, value) in wanted["status"].as_object().unwrap() {
                    self.object["status"][field] = value.clone();
                }
                self.object["metadata"]["resourceVersion"] = (version + 1).to_string().into();
            }
            (StatusCode::OK, self.object.clone())
        }
    }

    fn client(server: &Arc<Mutex<Server>>) -> Client {
        let server = Arc::clone(server);
        let answer = move |request: Request<Body>| {
            let server = Arc::clone(&server);
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let (code, value) = server.lock().unwrap().answer(&parts.method, parts.uri.path(), &body);
                let answer = Response::builder()
                    .status(code)
                    .body(Body::from(value.to_string().into_bytes()));
                Ok::<_, std::io::Error>(answer.unwrap())
            }
        };
        Client::new(tower::service_fn(answer), "default")
    }

    fn job() -> StatusWrite {
        StatusWrite {
            kind: Kind::IngressRoute,
            resource: ApiResource {
                group: "contour.heptio.com".to_owned(),
                version: "v1beta1".to_owned(),
                api_version: "contour.heptio.com/v1beta1".to_owned(),
                kind: "IngressRoute".to_owned(),
                plural: "ingressroutes".to_owned(),
            },
            name: ObjectName::new("shop", "web"),
            uid: "one".to_owned(),
            version: "1".to_owned(),
            is_first: true,
            digest: StatusDigest::of_nothing(),
            desired: DesiredStatus::Contour {
                status: IngressRouteStatus::Valid,
                description: "valid IngressRoute".into(),
                notes: Vec::new(),
            },
        }
    }

    async fn written(server: &Arc<Mutex<Server>>) -> (StatusWriteOutcome, Vec<String>) {
        let outcome = write(client(server), &job(), "limpet.dev/controller").await.unwrap();
        (outcome, std::mem::take(&mut server.lock().unwrap().asked))
    }

    #[tokio::test]
    async fn an_ingress_route_gets_its_status_with_and_without_the_subresource() {
        for (has_status, asked) in [
            (true, ["GET web", "PATCH status"].as_slice()),
            (false, &["GET web", "PATCH status", "GET web", "PATCH web"]),
        ] {
            let server = Server::new(has_status);
            assert_eq!(
                written(&server).await,
                (
                    StatusWriteOutcome::Written,
                    asked.iter().map(|asked| (*asked).to_owned()).collect()
                )
            );
            let status = json!({"currentStatus": "valid", "description": "valid IngressRoute", "further": 2});
            assert_eq!(server.lock().unwrap().object["status"], status);
            assert_eq!(server.lock().unwrap().object["spec"]["further"], 1);
            assert_eq!(
                written(&server).await,
                (StatusWriteOutcome::Unchanged, vec!["GET web".to_owned()])
            );
        }
    }

    #[tokio::test]
    async fn a_first_status_is_one_request_unless_the_object_has_changed() {
        for (changes_meanwhile, asked) in [
            (false, ["PATCH status"].as_slice()),
            (true, &["PATCH status", "GET web", "PUT status"]),
        ] {
            let server = Server::new(true);
            server.lock().unwrap().object["kind"] = "HTTPRoute".into();
            server.lock().unwrap().changes_meanwhile = changes_meanwhile;
            let job = StatusWrite {
                kind: Kind::HttpRoute,
                desired: DesiredStatus::Entries(Vec::new()),
                ..job()
            };
            let outcome = write(client(&server), &job, "limpet.dev/controller").await.unwrap();
            assert_eq!(outcome, StatusWriteOutcome::Written);
            assert_eq!(server.lock().unwrap().asked, asked);
            assert_eq!(server.lock().unwrap().object["status"]["parents"], json!([]));
        }
    }

    #[tokio::test]
    async fn a_definition_that_gets_the_subresource_meanwhile_costs_no_status() {
        let server = Server::new(false);
        let client = client(&server);
        let api: Api<DynamicObject> = Api::namespaced_with(client, "shop", &job().resource);
        let object = api.get("web").await.unwrap();
        let status = json!({"currentStatus": "valid", "description": "valid IngressRoute"});
        server.lock().unwrap().has_status = true;
        assert!(
            !patch(&api, &object, &status, false).await.unwrap(),
            "it was not taken in"
        );
        assert!(patch(&api, &object, &status, true).await.unwrap());
    }

    #[tokio::test]
    async fn what_others_write_meanwhile_is_not_overwritten() {
        for has_status in [true, false] {
            let server = Server::new(has_status);
            server.lock().unwrap().changes_meanwhile = true;
            let (outcome, asked) = written(&server).await;
            assert_eq!(outcome, StatusWriteOutcome::Written);
            assert_eq!(
                asked.iter().filter(|asked| *asked == "PATCH status").count(),
                2 - usize::from(!has_status),
                "{asked:?}"
            );
        }
    }
}
