//! Pods and their ends.

use std::net::IpAddr;
use std::time::Duration;

/// The role of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A backend.
    Application,
    /// The Gateway's Envoy.
    Envoy,
    /// A controller replica.
    Controller,
}

impl Role {
    /// Its name for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Application => "Application",
            Self::Envoy => "Envoy",
            Self::Controller => "Controller",
        }
    }
}

/// The reason for the end of a pod or its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Replaced by a rollout.
    Rollout,
    /// Removed by a smaller number of replicas.
    Scaled,
    /// Evicted by `kubectl drain`.
    Drained,
    /// Killed by the test with SIGKILL.
    Killed,
    /// Killed by the kernel at its cgroup's limit.
    OutOfMemory,
    /// Without a known reason.
    Unplanned,
}

impl Cause {
    /// Its text for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rollout => "rollout",
            Self::Scaled => "fewer pods",
            Self::Drained => "`kubectl drain`",
            Self::Killed => "SIGKILL",
            Self::OutOfMemory => "out of memory",
            Self::Unplanned => "of itself",
        }
    }

    /// Whether the process could not finish its requests.
    #[must_use]
    pub fn is_sudden(self) -> bool {
        matches!(self, Self::Killed | Self::OutOfMemory)
    }
}

/// A pod and its ends. Times count from the run's begin.
#[derive(Debug, Clone)]
pub struct Pod {
    /// Its role.
    pub role: Role,
    /// Its name.
    pub name: String,
    /// Its address, if any.
    pub address: Option<IpAddr>,
    /// Its ends: a killed process starts again in the same pod.
    pub ends: Vec<End>,
}

/// One end of a pod.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// The reason.
    pub cause: Cause,
    /// When it last served.
    pub begins: Duration,
    /// When it served again.
    pub over: Option<Duration>,
    /// When its process last ran, and when it first ran no more.
    pub process: Option<(Duration, Duration)>,
}
