use std::sync::Arc;

use kube::Client;
use tokio::sync::watch;

use crate::cluster::config::Config;
use crate::cluster::reconcile::diagnostics::Diagnostics;
use crate::cluster::reconcile::status::EventRecorder;
use limpet_model::Settings;

#[derive(Clone)]
pub(crate) struct ControllerContext {
    pub(crate) client: Client,
    pub(crate) config: Arc<Config>,
    pub(crate) settings: Arc<Settings>,
    /// Unique to this process: also no earlier process in the same pod had it.
    pub(crate) instance: String,
    /// Whether this replica writes.
    pub(crate) leads: watch::Receiver<bool>,
    pub(crate) diagnostics: Diagnostics,
}

impl ControllerContext {
    /// The namespace of everything that the controller keeps for itself.
    pub(crate) fn namespace(&self) -> &str {
        self.config.leader_election.namespace(&self.client)
    }

    /// The chart's `ClusterRole` for this task.
    pub(crate) fn cluster_role(&self, role: &str) -> String {
        self.config.leader_election.cluster_role(role, self.namespace())
    }

    /// Whether sessions are counted. Envoys of other control planes do not report them.
    pub(crate) fn counts_sessions(&self) -> bool {
        self.settings.serves() && self.config.sessions.enabled
    }

    pub(crate) fn recorder(&self) -> EventRecorder {
        let controller = self.settings.controller_name.clone();
        EventRecorder::new(self.client.clone(), controller, self.instance.clone())
    }

    /// This replica's name among the others. A container that restarts keeps it, so that no replica waits for its
    /// predecessor.
    pub(crate) fn replica(&self) -> String {
        std::env::var("POD_NAME").unwrap_or_else(|_| self.instance.clone())
    }
}

/// The pod's name with a random suffix after `_`.
pub(crate) fn instance() -> String {
    let host = std::env::var("POD_NAME").or_else(|_| std::env::var("HOSTNAME"));
    let host = host.unwrap_or_else(|_| "limpet".to_owned());
    let unique = getrandom::u32().unwrap_or_else(|_| std::process::id());
    format!("{host}_{unique:08x}")
}
