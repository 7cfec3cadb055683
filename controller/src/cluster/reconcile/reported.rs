//! The result of a build, for the reconcilers that write it to the cluster.

use std::sync::Arc;

use limpet_model::{Objects, Reports};

#[derive(Debug, Clone)]
pub(crate) struct Reported {
    pub(crate) reports: Arc<Reports>,
    /// What the reports were built from.
    pub(crate) objects: Arc<Objects>,
    /// The environment variables that Envoys need for the published configuration of the filter.
    pub(crate) variables: Arc<[String]>,
}
