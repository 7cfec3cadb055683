//! The pods as the API server knows them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use limpet_e2e::chaos::{Cause, End, Pod, Role};
use limpet_e2e::kube::Client;
use serde_json::Value;

use crate::processes::{Process, Processes};

const INTERVAL: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
#[allow(clippy::struct_excessive_bools, reason = "conditions of an object")]
struct Known {
    role: Role,
    name: String,
    address: Option<IpAddr>,
    created: String,
    template: String,
    evicted: bool,
    deleted: bool,
    cause: Option<Cause>,
    restarts: u64,
    out_of_memory: bool,
    ready: bool,
    last_ready: Option<Duration>,
    /// When it was ready again, by number of restarts.
    again: Vec<(u64, Duration)>,
}

#[derive(Debug, Clone)]
struct Kill {
    process: u32,
    cause: Cause,
}

#[derive(Debug, Clone)]
pub(crate) struct Watch {
    begun: Instant,
    processes: Processes,
    pods: Arc<Mutex<BTreeMap<String, Known>>>,
    kills: Arc<Mutex<Vec<Kill>>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Ready {
    pub(crate) name: String,
    pub(crate) process: Process,
    pub(crate) restarts: u64,
}

impl Watch {
    pub(crate) fn start(begun: Instant, client: Client, processes: Processes) -> Self {
        let watch = Self {
            begun,
            processes,
            pods: Arc::default(),
            kills: Arc::default(),
        };
        let watching = watch.clone();
        tokio::spawn(async move {
            loop {
                // The API server may be late; the next look finds everything.
                let _ = watching.look(&client).await;
                tokio::time::sleep(INTERVAL).await;
            }
        });
        watch
    }

    async fn look(&self, client: &Client) -> Result<()> {
        let mut found = Vec::new();
        // A pod ready at the end of the request was ready at its begin, or became so.
        let asked = self.begun.elapsed();
        for namespace in ["default", "limpet-system"] {
            found.extend(client.in_namespace(namespace).list("v1/Pod", "").await?);
        }
        let mut pods = self.pods();
        for pod in &found {
            let Some((uid, now)) = read(pod) else { continue };
            let known = pods.entry(uid).or_insert_with(|| now.clone());
            if now.ready {
                known.last_ready = Some(asked);
                if known.again.last().is_none_or(|(restarts, _)| *restarts < now.restarts) {
                    known.again.push((now.restarts, self.begun.elapsed()));
                }
            }
            known.address = now.address.or(known.address);
            known.evicted |= now.evicted;
            known.deleted |= now.deleted;
            known.restarts = now.restarts;
            known.out_of_memory |= now.out_of_memory;
            known.ready = now.ready;
        }
        let newest = newest(pods.values());
        let there: Vec<_> = found.iter().filter_map(|pod| pod["metadata"]["uid"].as_str()).collect();
        for (uid, known) in pods.iter_mut() {
            if !there.contains(&uid.as_str()) {
                known.deleted = true;
                known.ready = false;
            }
            let is_newest = newest.get(&known.role) == Some(&known.template);
            if known.deleted && known.cause.is_none() {
                known.cause = Some(match (known.evicted, is_newest) {
                    (true, _) => Cause::Drained,
                    (false, true) => Cause::Scaled,
                    (false, false) => Cause::Rollout,
                });
            }
        }
        Ok(())
    }

    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn kills(&self) -> MutexGuard<'_, Vec<Kill>> {
        self.kills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_end(&self, process: &Process, cause: Cause) {
        self.kills().push(Kill {
            process: process.number,
            cause,
        });
    }

    pub(crate) fn ready(&self, role: Role) -> Vec<Ready> {
        let pods = self.pods();
        let ready = pods
            .iter()
            .filter(|(_, pod)| pod.role == role && pod.ready && !pod.deleted);
        let with_process = |(uid, pod): (&String, &Known)| {
            Some(Ready {
                name: pod.name.clone(),
                process: self.processes.of(uid)?,
                restarts: pod.restarts,
            })
        };
        ready.filter_map(with_process).collect()
    }

    /// Whether this pod is ready with a newer process, or has to end.
    pub(crate) fn is_over(&self, name: &str, restarts: u64) -> bool {
        let pods = self.pods();
        let pod = pods.values().find(|pod| pod.name == name);
        pod.is_none_or(|pod| pod.deleted || pod.ready && pod.restarts > restarts)
    }

    pub(crate) fn has_to_end(&self, name: &str) -> bool {
        let pods = self.pods();
        pods.values().any(|pod| pod.name == name && pod.deleted)
    }

    /// Whether the kubelet reported a process of this pod as out of memory.
    pub(crate) fn was_out_of_memory(&self, name: &str) -> bool {
        let pods = self.pods();
        pods.values().any(|pod| pod.name == name && pod.out_of_memory)
    }

    pub(crate) fn history(&self) -> Vec<Pod> {
        let pods = self.pods().clone();
        let processes = self.processes.all();
        let mut history = Vec::new();
        for (uid, pod) in &pods {
            let own = processes.iter().filter(|process| process.pod == *uid);
            let mut ends: Vec<End> = own.filter_map(|process| self.end(pod, process)).collect();
            if let Some((last_ready, cause)) = pod.last_ready.zip(pod.cause) {
                let last = processes.iter().rfind(|process| process.pod == *uid);
                let in_peace = |process: &&Process| !self.kills().iter().any(|kill| kill.process == process.number);
                let process = last
                    .filter(in_peace)
                    .and_then(|process| Some((process.seen, process.gone?)));
                ends.push(End {
                    cause,
                    begins: last_ready,
                    over: None,
                    process,
                });
            }
            history.push(Pod {
                role: pod.role,
                name: pod.name.clone(),
                address: pod.address,
                ends,
            });
        }
        history
    }

    /// The end of a process that was not asked to end.
    fn end(&self, pod: &Known, process: &Process) -> Option<End> {
        let gone = process.gone?;
        let cause = self
            .kills()
            .iter()
            .find(|kill| kill.process == process.number)
            .map(|kill| kill.cause);
        if cause.is_none() && pod.deleted {
            return None;
        }
        let over = pod
            .again
            .iter()
            .find(|(restarts, at)| *restarts > 0 && *at > gone)
            .map(|(_, at)| *at);
        Some(End {
            cause: cause.unwrap_or(Cause::Unplanned),
            begins: process.seen,
            over,
            process: Some((process.seen, gone)),
        })
    }
}

fn newest<'a>(pods: impl Iterator<Item = &'a Known>) -> BTreeMap<Role, String> {
    let mut pods: Vec<_> = pods.collect();
    pods.sort_by_key(|pod| &pod.created);
    pods.into_iter().map(|pod| (pod.role, pod.template.clone())).collect()
}

fn read(pod: &Value) -> Option<(String, Known)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (meta, status) = (&pod["metadata"], &pod["status"]);
    let labels = &meta["labels"];
    let container = &status["containerStatuses"][0];
    let role = match (labels["app"].as_str(), labels["app.kubernetes.io/name"].as_str()) {
        (Some("web"), _) => Role::Application,
        (_, Some("limpet-envoy")) => Role::Envoy,
        (_, Some("limpet-controller")) => Role::Controller,
        _ => return None,
    };
    let conditions = || status["conditions"].as_array().into_iter().flatten();
    let is = |kind: &str| conditions().any(|is| is["type"] == kind && is["status"] == "True");
    let ready = is("Ready");
    let known = Known {
        role,
        name: text(&meta["name"])?,
        address: text(&status["podIP"]).and_then(|address| address.parse().ok()),
        created: text(&meta["creationTimestamp"])?,
        template: text(&labels["pod-template-hash"]).unwrap_or_default(),
        evicted: is("DisruptionTarget"),
        deleted: !meta["deletionTimestamp"].is_null(),
        cause: None,
        restarts: container["restartCount"].as_u64().unwrap_or_default(),
        out_of_memory: ["state", "lastState"]
            .iter()
            .any(|state| container[state]["terminated"]["reason"] == "OOMKilled"),
        ready,
        last_ready: None,
        again: Vec::new(),
    };
    Some((text(&meta["uid"])?, known))
}
