//! Events in the cluster, which happen repeatedly and side by side.

mod drain;
mod keys;
mod kills;
mod rollouts;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use limpet_e2e::chaos::Role;
use limpet_e2e::poll;
use tokio::task::JoinSet;

use crate::site::{CONTROLLER, Site, WEB, until_rolled_out};
use crate::watch::Watch;

/// Other events delay the wait, perhaps until they are over.
const PATIENCE: Duration = Duration::from_secs(900);

/// The time between the first events of two kinds.
const BEGIN: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    ApplicationRollout,
    Scaling,
    ApplicationKilled,
    EnvoyRollout,
    EnvoyKilled,
    EnvoyOutOfMemory,
    ControllerRollout,
    ControllersKilled,
    KeyRotation,
    Drain,
}

impl Event {
    const ALL: [Self; 10] = [
        Self::ApplicationKilled,
        Self::KeyRotation,
        Self::EnvoyKilled,
        Self::ApplicationRollout,
        Self::EnvoyRollout,
        Self::ControllerRollout,
        Self::EnvoyOutOfMemory,
        Self::Scaling,
        Self::ControllersKilled,
        Self::Drain,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ApplicationRollout => "rolling update of the application",
            Self::Scaling => "application: 3 to 10 to 2 pods, and back",
            Self::ApplicationKilled => "pod of the application: SIGKILL",
            Self::EnvoyRollout => "rollout of the Envoys",
            Self::EnvoyKilled => "Envoy: SIGKILL",
            Self::EnvoyOutOfMemory => "Envoy: out of memory",
            Self::ControllerRollout => "rollout of the controller",
            Self::ControllersKilled => "both replicas of the controller: SIGKILL",
            Self::KeyRotation => "rotation of the key",
            Self::Drain => "node drained by `kubectl drain`, and uncordoned",
        }
    }

    /// The pause between two events of a kind.
    fn pause(self) -> Duration {
        Duration::from_secs(match self {
            Self::ApplicationRollout | Self::EnvoyRollout | Self::Scaling => 15,
            Self::ApplicationKilled | Self::EnvoyKilled | Self::EnvoyOutOfMemory => 20,
            // A phase of a rotation ends when all replicas report that their Envoys have it; for a silent replica,
            // after 75 seconds.
            Self::ControllerRollout | Self::ControllersKilled => 130,
            // A keyring has room for eight retiring keys.
            Self::KeyRotation => 60,
            Self::Drain => 100,
        })
    }

    async fn run(self, stage: &Stage, number: usize) -> Result<()> {
        match self {
            Self::ApplicationRollout => rollouts::application(&stage.site, number).await,
            Self::Scaling => rollouts::scaling(&stage.site).await,
            Self::EnvoyRollout => rollouts::envoys(&stage.site, number).await,
            Self::ControllerRollout => rollouts::controller(&stage.site, number).await,
            Self::ApplicationKilled => kills::application(stage).await,
            Self::EnvoyKilled => kills::envoy(stage).await,
            Self::EnvoyOutOfMemory => kills::envoy_out_of_memory(stage).await,
            Self::ControllersKilled => kills::controllers(stage).await,
            Self::KeyRotation => keys::rotation(&stage.site, number).await,
            Self::Drain => drain::node(stage).await,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) site: Site,
    pub(crate) watch: Watch,
    /// Only one Envoy at a time is ended by force, so that others remain.
    envoys: tokio::sync::Mutex<()>,
}

pub(crate) type Happened = BTreeMap<Event, usize>;

impl Stage {
    pub(crate) fn new(site: Site, watch: Watch) -> Self {
        Self {
            site,
            watch,
            envoys: tokio::sync::Mutex::default(),
        }
    }

    /// Returns once each event is over and everything is back.
    pub(crate) async fn happen(self: &Arc<Self>, time: Duration) -> Result<Happened> {
        let until = Instant::now() + time;
        let happened = Arc::<Mutex<Happened>>::default();
        let mut events = JoinSet::new();
        for (after, event) in (0..).zip(Event::ALL) {
            let (stage, happened) = (Arc::clone(self), Arc::clone(&happened));
            events.spawn_local(async move {
                tokio::time::sleep(BEGIN * after).await;
                for number in 1.. {
                    let begun = Instant::now();
                    let done = event.run(&stage, number).await;
                    done.with_context(|| format!("{}, number {number}", event.name()))?;
                    *happened
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .entry(event)
                        .or_default() += 1;
                    println!("{:4.0} s: {}", begun.elapsed().as_secs_f32(), event.name());
                    if Instant::now() + event.pause() >= until {
                        break;
                    }
                    tokio::time::sleep(event.pause()).await;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = events.join_next().await {
            ended??;
        }
        self.until_back().await?;
        let happened = happened.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(happened)
    }

    async fn until_back(&self) -> Result<()> {
        until_rolled_out(&self.site.default, WEB).await?;
        until_rolled_out(&self.site.system, CONTROLLER).await?;
        until_rolled_out(&self.site.system, &self.site.envoys).await
    }

    async fn until_ready(&self, role: Role, count: usize) -> Result<Vec<crate::watch::Ready>> {
        let what = format!("{count} pods that are ready: {}", role.name());
        poll::until_within(PATIENCE, &what, async || {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Some(self.watch.ready(role)).filter(|ready| ready.len() >= count)
        })
        .await
    }
}
