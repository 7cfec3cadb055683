//! Asks controllers what they know of sessions, through the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::Request;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Error};

use super::page::{PodSessions, SessionsPage, together};
use crate::cluster::kube::words;
use crate::exit::Failure;

/// What the chart and the manifests give the pods of controllers.
const LABEL: &str = "app.kubernetes.io/name=limpet-controller";
/// The label by which the controllers of a namespace differ.
const INSTANCE: &str = "app.kubernetes.io/instance";
/// The name of the port of metrics.
const PORT: &str = "http";
/// How long one controller may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Why nothing is known of sessions.
#[derive(Debug)]
pub(crate) enum Unknown {
    /// It will not be known later either.
    Never(Failure),
    /// No controller answers, which may pass.
    Now(String),
}

impl From<Unknown> for Failure {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::Never(failure) => failure,
            Unknown::Now(why) => Self(why),
        }
    }
}

/// What the controllers that are ready know.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) rows: Vec<PodSessions>,
    /// Who was asked, and since when each of them counts.
    pub(crate) asked: BTreeSet<(String, String)>,
}

/// The controllers of a namespace.
pub(crate) struct Controllers {
    pods: Api<Pod>,
    client: Client,
    namespace: String,
}

/// A pod of a controller that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Replica {
    instance: String,
    name: String,
    port: u16,
}

impl Controllers {
    pub(crate) fn new(client: &Client, namespace: &str) -> Self {
        Self {
            pods: Api::namespaced(client.clone(), namespace),
            client: client.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// What all controllers that are ready know.
    pub(crate) async fn sessions(&self) -> Result<Survey, Unknown> {
        let namespace = &self.namespace;
        let pods = self.pods.list(&ListParams::default().labels(LABEL)).await;
        let pods = pods.map_err(|error| self.failed("cannot list the pods of the controller", &error))?;
        if pods.items.is_empty() {
            return Err(Unknown::Never(Failure(format!(
                "no controller in the namespace {namespace}: expected pods with the label {LABEL}; \
                 --controller-namespace names another one"
            ))));
        }
        let replicas: Vec<Replica> = pods.items.iter().filter_map(replica).collect();
        if replicas.is_empty() {
            let message = format!("no controller is ready in the namespace {namespace}");
            return Err(Unknown::Now(message));
        }
        let answers = join_all(replicas.iter().map(|replica| self.ask(replica))).await;
        let mut pages: BTreeMap<String, Vec<SessionsPage>> = BTreeMap::new();
        let mut asked = BTreeSet::new();
        let mut silent = None;
        for (replica, answer) in replicas.into_iter().zip(answers) {
            match answer {
                Ok(page) => {
                    asked.insert((replica.name, page.since.clone()));
                    pages.entry(replica.instance).or_default().push(page);
                }
                // Another replica knows the same.
                Err(unknown) => silent = Some(unknown),
            }
        }
        match silent {
            Some(unknown) if pages.is_empty() => Err(unknown),
            _ => Ok(Survey {
                rows: together(pages.into_values()),
                asked,
            }),
        }
    }

    async fn ask(&self, replica: &Replica) -> Result<SessionsPage, Unknown> {
        let Replica { name, port, .. } = replica;
        let namespace = &self.namespace;
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/sessions");
        let what = format!("cannot ask the controller {name}");
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| Unknown::Never(Failure(format!("{what}: {error}"))))?;
        let answer = tokio::time::timeout(ANSWER, self.client.request_text(request)).await;
        let answer = answer.map_err(|_| Unknown::Now(format!("{what}: no answer in {} s", ANSWER.as_secs())))?;
        let text = answer.map_err(|error| match &error {
            Error::Api(status) if status.code == 404 => Unknown::Never(Failure(format!(
                "{what}: it tells nothing of sessions: expected a version that does, and sessions.enabled in its \
                 configuration"
            ))),
            _ => self.failed(&what, &error),
        })?;
        serde_json::from_str(&text).map_err(|error| Unknown::Never(Failure(format!("{what}: {error}"))))
    }

    fn failed(&self, what: &str, error: &Error) -> Unknown {
        let message = format!("{what} in the namespace {}: {}", self.namespace, words(error));
        match error {
            Error::Api(status) if matches!(status.code, 401 | 403) => Unknown::Never(Failure(message)),
            _ => Unknown::Now(message),
        }
    }
}

/// `None`: it is not ready, or ends, or is no controller.
fn replica(pod: &Pod) -> Option<Replica> {
    let meta = &pod.metadata;
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let is_ready = conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    if !is_ready || meta.deletion_timestamp.is_some() {
        return None;
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let port = ports.find(|port| port.name.as_deref() == Some(PORT))?;
    let instance = meta.labels.as_ref().and_then(|labels| labels.get(INSTANCE));
    Some(Replica {
        instance: instance.cloned().unwrap_or_default(),
        name: meta.name.clone()?,
        port: u16::try_from(port.container_port).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(change: impl FnOnce(&mut Value)) -> Option<Replica> {
        let mut pod = json!({
            "metadata": {"name": "limpet-controller-1", "labels": {INSTANCE: "limpet"}},
            "spec": {"containers": [
                {"name": "sidecar", "ports": [{"containerPort": 9000}]},
                {"name": "controller", "ports": [
                    {"name": "xds", "containerPort": 18000},
                    {"name": "http", "containerPort": 18080},
                ]},
            ]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        change(&mut pod);
        replica(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn controllers_that_are_ready_are_asked() {
        let expected = Replica {
            instance: "limpet".to_owned(),
            name: "limpet-controller-1".to_owned(),
            port: 18080,
        };
        assert_eq!(read(|_| ()), Some(expected));
        assert_eq!(
            read(|pod| pod["status"]["conditions"][0]["status"] = json!("False")),
            None
        );
        assert_eq!(read(|pod| pod["status"] = json!({})), None);
        let ends = |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = json!("2026-11-23T06:00:00Z");
        assert_eq!(read(ends), None);
        assert_eq!(read(|pod| pod["spec"]["containers"][1]["ports"] = json!([])), None);
    }
}
