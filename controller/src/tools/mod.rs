//! The commands that need no Kubernetes.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod drain;
pub(crate) mod drained;
mod http;
pub(crate) mod install;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod token;
