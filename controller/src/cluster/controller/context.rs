use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;

use crate::cluster::config::Config;
use crate::cluster::reconcile::diagnostics::Diagnostics;
use crate::cluster::reconcile::status::EventRecorder;
use limpet_model::Settings;

/// What every part of the controller is started with.
#[derive(Clone)]
pub(crate) struct ControllerContext {
    pub(crate) client: Client,
    pub(crate) config: Arc<Config>,
    pub(crate) settings: Arc<Settings>,
    /// The identity of this process: no other replica has it, and no earlier process in the same pod.
    pub(crate) instance: String,
    /// Whether this replica writes.
    pub(crate) leads: watch::Receiver<bool>,
    /// What is wrong with the controller's own objects.
    pub(crate) diagnostics: Diagnostics,
}

impl ControllerContext {
    /// The namespace of everything that the controller keeps for itself.
    pub(crate) fn namespace(&self) -> &str {
        self.config.leader_election.namespace(&self.client)
    }

    /// The `ClusterRole` of the chart that lets the controller do what it is named after.
    pub(crate) fn cluster_role(&self, role: &str) -> String {
        self.config.leader_election.cluster_role(role, self.namespace())
    }

    /// Whether sessions are counted. Envoys of other control planes do not report them.
    pub(crate) fn counts_sessions(&self) -> bool {
        self.settings.judges() && self.config.sessions.enabled
    }

    /// Writes the Events of this replica.
    pub(crate) fn recorder(&self) -> EventRecorder {
        let controller = self.settings.controller_name.clone();
        EventRecorder::new(self.client.clone(), controller, self.instance.clone())
    }

    /// This replica's name among the others. A container that restarts in its pod keeps the name, so that no replica
    /// waits for its predecessor.
    pub(crate) fn replica(&self) -> String {
        std::env::var("POD_NAME").unwrap_or_else(|_| self.instance.clone())
    }
}

/// A new identity: the pod's name with a random suffix after `_`.
pub(crate) fn instance() -> String {
    let host = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
    let host = host.unwrap_or_else(|_| "limpet".to_owned());
    let unique = getrandom::u32().unwrap_or_else(|_| std::process::id());
    format!("{host}_{unique:08x}")
}
