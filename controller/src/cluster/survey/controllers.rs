//! Asks controllers what they know of sessions, through the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use axum::http::Request;
use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, Error};

use super::figures::ControllerFigures;
use super::page::{PodRow, SessionsPage, together};
use crate::cluster::kube::words;
use crate::exit::CommandFailure;

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
pub(crate) enum SurveyError {
    /// It will not be known later either.
    Never(CommandFailure),
    /// No controller answers, which may pass.
    Now(String),
}

impl From<SurveyError> for CommandFailure {
    fn from(unknown: SurveyError) -> Self {
        match unknown {
            SurveyError::Never(failure) => failure,
            SurveyError::Now(why) => Self(why),
        }
    }
}

/// Why there is no page.
enum PageError {
    /// The controller does not have it.
    Missing,
    Other(SurveyError),
}

impl From<SurveyError> for PageError {
    fn from(unknown: SurveyError) -> Self {
        Self::Other(unknown)
    }
}

/// What a controller says of itself.
#[derive(Debug)]
pub(crate) struct ControllerMetrics {
    pub(crate) instance: String,
    pub(crate) name: String,
    pub(crate) is_ready: bool,
    /// Or why it says nothing.
    pub(crate) said: Result<ControllerFigures, String>,
}

fn asking(name: &str) -> String {
    format!("cannot ask the controller {name}")
}

/// What the controllers that are ready know.
#[derive(Debug)]
pub(crate) struct SessionSurvey {
    pub(crate) rows: Vec<PodRow>,
    /// The asked ones, and since when each of them counts.
    pub(crate) asked: BTreeSet<(String, Option<String>)>,
    /// Why they do not know all sessions together. Each row says it of its own.
    pub(crate) why: BTreeSet<String>,
}

/// The controllers of a namespace.
pub(crate) struct Controllers {
    pods: Api<Pod>,
    client: Client,
    namespace: String,
}

/// A pod of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ControllerPod {
    instance: String,
    name: String,
    /// `None`: it is not ready.
    port: Option<u16>,
}

/// What the controllers of a namespace said.
#[derive(Debug, Default)]
struct ControllerAnswers {
    /// By instance.
    pages: BTreeMap<String, Vec<SessionsPage>>,
    asked: BTreeSet<(String, Option<String>)>,
    /// The replicas that are not ready, and their instances.
    unready: Vec<(String, String)>,
    silent: Vec<SurveyError>,
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
    pub(crate) async fn sessions(&self) -> Result<SessionSurvey, SurveyError> {
        let namespace = &self.namespace;
        let replicas = self.replicas().await?;
        if !replicas.iter().any(|replica| replica.port.is_some()) {
            let message = format!("no controller is ready in the namespace {namespace}");
            return Err(SurveyError::Now(message));
        }
        let answers = join_all(replicas.iter().map(|replica| async {
            match replica.port {
                Some(port) => Some(self.fetch(&replica.name, port).await),
                None => None,
            }
        }));
        let answers = answers.await;
        let mut heard = ControllerAnswers::default();
        for (ControllerPod { instance, name, .. }, answer) in replicas.into_iter().zip(answers) {
            match answer {
                None => heard.unready.push((instance, name)),
                Some(Ok(page)) => {
                    heard.asked.insert((name, page.since.clone()));
                    heard.pages.entry(instance).or_default().push(page);
                }
                Some(Err(unknown)) => heard.silent.push(unknown),
            }
        }
        heard.survey()
    }

    async fn fetch(&self, name: &str, port: u16) -> Result<SessionsPage, SurveyError> {
        let what = asking(name);
        let text = self.page(name, port, "sessions").await.map_err(|error| match error {
            PageError::Missing => SurveyError::Never(CommandFailure(format!(
                "{what}: it tells nothing of sessions: expected a version that does, and sessions.enabled in its \
                 configuration"
            ))),
            PageError::Other(unknown) => unknown,
        })?;
        serde_json::from_str(&text).map_err(|error| SurveyError::Never(CommandFailure(format!("{what}: {error}"))))
    }

    /// What each controller says of itself in its metrics.
    ///
    /// # Errors
    /// If their pods cannot be listed, or there are none.
    pub(crate) async fn metrics(&self) -> Result<Vec<ControllerMetrics>, SurveyError> {
        let asked = self.replicas().await?.into_iter().map(|replica| async move {
            let ControllerPod { instance, name, port } = replica;
            let said = match port {
                None => Err("not ready".to_owned()),
                Some(port) => match self.page(&name, port, "metrics").await {
                    Ok(text) => Ok(ControllerFigures::read(&text)),
                    Err(PageError::Missing) => Err(format!("{}: it has no metrics", asking(&name))),
                    Err(PageError::Other(unknown)) => Err(CommandFailure::from(unknown).0),
                },
            };
            ControllerMetrics {
                instance,
                name,
                is_ready: port.is_some(),
                said,
            }
        });
        Ok(join_all(asked).await)
    }

    /// The pods of controllers, at least one.
    async fn replicas(&self) -> Result<Vec<ControllerPod>, SurveyError> {
        let namespace = &self.namespace;
        let pods = self.pods.list(&ListParams::default().labels(LABEL)).await;
        let pods = pods.map_err(|error| self.failed("cannot list the pods of the controller", &error))?;
        if pods.items.is_empty() {
            return Err(SurveyError::Never(CommandFailure(format!(
                "no controller in the namespace {namespace}: expected pods with the label {LABEL}; \
                 --controller names another one"
            ))));
        }
        Ok(pods.items.iter().filter_map(replica).collect())
    }

    async fn page(&self, name: &str, port: u16, page: &str) -> Result<String, PageError> {
        let namespace = &self.namespace;
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy/{page}");
        let what = asking(name);
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| SurveyError::Never(CommandFailure(format!("{what}: {error}"))))?;
        let answer = tokio::time::timeout(ANSWER, self.client.request_text(request)).await;
        let answer = answer.map_err(|_| SurveyError::Now(format!("{what}: no answer in {} s", ANSWER.as_secs())))?;
        answer.map_err(|error| match &error {
            Error::Api(status) if status.code == 404 => PageError::Missing,
            _ => PageError::Other(self.failed(&what, &error)),
        })
    }

    fn failed(&self, what: &str, error: &Error) -> SurveyError {
        let message = format!("{what} in the namespace {}: {}", self.namespace, words(error));
        match error {
            Error::Api(status) if matches!(status.code, 401 | 403) => SurveyError::Never(CommandFailure(message)),
            _ => SurveyError::Now(message),
        }
    }
}

impl ControllerAnswers {
    /// All together. What none says is missing, and so is not nothing.
    ///
    /// # Errors
    /// If none has answered.
    fn survey(self) -> Result<SessionSurvey, SurveyError> {
        let Self {
            pages,
            asked,
            unready,
            silent,
        } = self;
        if pages.is_empty() {
            let no_answer = || SurveyError::Now("no controller answers".to_owned());
            return Err(silent.into_iter().next_back().unwrap_or_else(no_answer));
        }
        // It serves Envoys if its Lease names it; then another replica of its own instance says so.
        let unheard = unready.iter().filter(|(instance, _)| !pages.contains_key(instance));
        let unheard = unheard.map(|(_, name)| format!("the controller {name} is not ready"));
        let silent = silent.into_iter().map(|unknown| CommandFailure::from(unknown).0);
        let missing: BTreeSet<String> = unheard.chain(silent).collect();
        let doubts = pages.values().flatten().flat_map(SessionsPage::doubts);
        let why = doubts.chain(missing.iter().cloned()).collect();
        let mut rows = together(pages.into_values());
        for row in &mut rows {
            row.doubt(missing.iter().cloned());
        }
        Ok(SessionSurvey { rows, asked, why })
    }
}

/// `None`: it ends, has ended, or is no controller.
fn replica(pod: &Pod) -> Option<ControllerPod> {
    let meta = &pod.metadata;
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    if meta.deletion_timestamp.is_some() || matches!(phase, Some("Succeeded" | "Failed")) {
        return None;
    }
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let is_ready = conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let port = ports.find(|port| port.name.as_deref() == Some(PORT))?;
    let instance = meta.labels.as_ref().and_then(|labels| labels.get(INSTANCE));
    Some(ControllerPod {
        instance: instance.cloned().unwrap_or_default(),
        name: meta.name.clone()?,
        port: u16::try_from(port.container_port).ok().filter(|_| is_ready),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(change: impl FnOnce(&mut Value)) -> Option<ControllerPod> {
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
        let expected = ControllerPod {
            instance: "limpet".to_owned(),
            name: "limpet-controller-1".to_owned(),
            port: Some(18080),
        };
        let unready = ControllerPod {
            port: None,
            ..expected.clone()
        };
        assert_eq!(read(|_| ()), Some(expected));
        let not_ready = |pod: &mut Value| pod["status"]["conditions"][0]["status"] = json!("False");
        assert_eq!(read(not_ready), Some(unready.clone()));
        assert_eq!(read(|pod| pod["status"] = json!({})), Some(unready));
        assert_eq!(read(|pod| pod["status"]["phase"] = json!("Failed")), None);
        let ends = |pod: &mut Value| pod["metadata"]["deletionTimestamp"] = json!("2026-11-23T06:00:00Z");
        assert_eq!(read(ends), None);
        assert_eq!(read(|pod| pod["spec"]["containers"][1]["ports"] = json!([])), None);
    }

    /// A page with one session, that it is not ready, or an error.
    type Said = Option<Result<(), &'static str>>;

    /// What these replicas said, by instance and name.
    fn survey(said: &[(&str, &str, Said)]) -> SessionSurvey {
        let mut heard = ControllerAnswers::default();
        for (instance, name, answer) in said {
            match answer {
                None => heard.unready.push(((*instance).to_owned(), (*name).to_owned())),
                Some(Ok(())) => {
                    let row = PodRow {
                        pod: "a".to_owned(),
                        sessions: 1,
                        complete: true,
                        ..PodRow::default()
                    };
                    let page = SessionsPage {
                        complete: true,
                        pods: vec![row],
                        ..SessionsPage::default()
                    };
                    heard.pages.entry((*instance).to_owned()).or_default().push(page);
                }
                Some(Err(why)) => heard.silent.push(SurveyError::Now((*why).to_owned())),
            }
        }
        heard.survey().unwrap()
    }

    #[test]
    fn a_controller_that_says_nothing_is_missed() {
        let both = survey(&[("one", "one-0", Some(Ok(()))), ("two", "two-0", Some(Ok(())))]);
        assert!(both.why.is_empty() && both.rows[0].complete && both.rows[0].sessions == 2);
        let said = [
            ("one", "one-0", Some(Ok(()))),
            ("two", "two-0", Some(Err("two-0 is silent"))),
        ];
        let expected = BTreeSet::from(["two-0 is silent".to_owned()]);
        let silent = survey(&said);
        assert_eq!((&silent.why, &silent.rows[0].why), (&expected, &expected));
        assert!(!silent.rows[0].complete);
        let unready = survey(&[("one", "one-0", Some(Ok(()))), ("two", "two-0", None)]);
        let expected = BTreeSet::from(["the controller two-0 is not ready".to_owned()]);
        assert_eq!((&unready.why, &unready.rows[0].why), (&expected, &expected));
        // Another replica knows the same, or says what it misses.
        let one = survey(&[("one", "one-0", Some(Ok(()))), ("one", "one-1", None)]);
        assert!(one.why.is_empty() && one.rows[0].complete);
    }
}
