//! Pods, and how they ended.

use std::net::IpAddr;
use std::time::Duration;

/// What a pod is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// A backend.
    Application,
    /// An Envoy of the Gateway.
    Envoy,
    /// A replica of the controller.
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

/// Why a pod, or the process in it, has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// A rollout has replaced it.
    Rollout,
    /// The Deployment was to have fewer pods.
    Scaled,
    /// `kubectl drain` has evicted it.
    Drained,
    /// The process got SIGKILL from the test.
    Killed,
    /// The kernel killed the process at the limit of its cgroup.
    OutOfMemory,
    /// Nobody wanted it.
    Unplanned,
}

impl Cause {
    /// What happened, for people.
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

    /// Whether the process had no time to finish what it had.
    #[must_use]
    pub fn is_sudden(self) -> bool {
        matches!(self, Self::Killed | Self::OutOfMemory)
    }
}

/// A pod, and each of its ends. Times count from the begin of the run.
#[derive(Debug, Clone)]
pub struct Pod {
    /// What it is.
    pub role: Role,
    /// Its name.
    pub name: String,
    /// Its address, if it got one.
    pub address: Option<IpAddr>,
    /// Its ends: a process that was killed is started again in the same pod.
    pub ends: Vec<End>,
}

/// One end of a pod.
#[derive(Debug, Clone, Copy)]
pub struct End {
    /// Why.
    pub cause: Cause,
    /// When it was last seen to serve.
    pub begins: Duration,
    /// When it was seen to serve again.
    pub over: Option<Duration>,
    /// When its process was last seen to run, and when it was first seen to run no more.
    pub process: Option<(Duration, Duration)>,
}
