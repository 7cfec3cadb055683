//! What a build says of objects, for those who write it to the cluster.

use std::sync::Arc;

use limpet_model::{Objects, Reports};

/// What a build said.
#[derive(Debug, Clone)]
pub(crate) struct Reported {
    /// Of objects that could be read.
    pub(crate) reports: Arc<Reports>,
    /// What it was built from.
    pub(crate) objects: Arc<Objects>,
}
