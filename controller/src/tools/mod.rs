//! The commands that need no Kubernetes.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod token;
