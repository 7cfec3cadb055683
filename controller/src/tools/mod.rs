//! The commands that need no Kubernetes.

pub(crate) mod check;
pub(crate) mod complete;
pub(crate) mod completions;
pub(crate) mod drain;
mod http;
pub(crate) mod install;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod token;
pub(crate) mod version;
pub(crate) mod wait_drained;
