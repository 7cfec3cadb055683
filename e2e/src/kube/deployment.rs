//! Deployments on a node, and the tests' application.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{Client, POD_PORT};
use crate::poll;

/// Not more often: the API server is busy.
const INTERVAL: Duration = Duration::from_millis(100);

/// Waits until a Deployment's pods are all ready and have its present template; former ones may still be ending.
///
/// # Errors
/// If that does not happen in this time.
pub async fn until_rolled_out(client: &Client, deployment: &str, patience: Duration) -> Result<()> {
    let mut last = Value::Null;
    let rolled_out = poll::until_within(patience, &format!("the rollout of {deployment}"), async || {
        tokio::time::sleep(INTERVAL).await;
        let mut object = client.get("apps/v1/Deployment", deployment).await.ok()?;
        let is_done = is_rolled_out(&object);
        last = object["status"].take();
        is_done.then_some(())
    })
    .await;
    let Err(error) = rolled_out else {
        return Ok(());
    };
    let pods = client.list("v1/Pod", "").await?;
    let states: Vec<_> = pods.iter().map(|pod| &pod["status"]["containerStatuses"]).collect();
    let events = client.list("v1/Event", "").await?;
    let events: Vec<_> = events.iter().map(|event| &event["message"]).collect();
    Err(error.context(format!("{last:#}\n{states:#?}\n{events:#?}")))
}

fn is_rolled_out(deployment: &Value) -> bool {
    let (wanted, status) = (&deployment["spec"]["replicas"], &deployment["status"]);
    let counts = ["replicas", "updatedReplicas", "readyReplicas"];
    status["observedGeneration"] == deployment["metadata"]["generation"]
        && counts.iter().all(|count| status[*count] == *wanted)
}

/// Whether this condition is true.
#[must_use]
pub fn has_condition(object: &Value, kind: &str) -> bool {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Waits until a Service's address leads to a pod, through kube-proxy.
///
/// # Errors
/// If it does not.
pub async fn until_led(address: SocketAddr) -> Result<()> {
    let led = async || TcpStream::connect(address).await.ok().map(drop);
    poll::until(&format!("{address} to lead to a pod"), led).await
}

/// An application's Deployment: three pods of the tests' backend, with the label `app`.
#[must_use]
pub fn application(name: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{
                        "name": "backend",
                        "image": "limpet.dev/e2e/backend:1",
                        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                        "ports": [{"containerPort": POD_PORT}],
                        // Without it, other programs on the machine would take all of the CPU.
                        "resources": {"requests": {"cpu": "50m"}},
                        "readinessProbe": {
                            "httpGet": {"path": "/healthz", "port": POD_PORT},
                            "periodSeconds": 1,
                            // No test is about pods that a busy machine takes out of the Service.
                            "timeoutSeconds": 10,
                        },
                        // It answers while Envoys learn of its end.
                        "lifecycle": {"preStop": {"sleep": {"seconds": 10}}},
                    }],
                },
            },
        },
    })
}

/// The Service of an [`application`], at port 80.
#[must_use]
pub fn service_of(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": POD_PORT}]},
    })
}
