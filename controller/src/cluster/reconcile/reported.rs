//! The result of a build, for the reconcilers that write it to the cluster.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use limpet_api::ObjectName;
use limpet_model::{Objects, Reports};

#[derive(Debug, Clone)]
pub(crate) struct PublishedReports {
    pub(crate) reports: Arc<Reports>,
    /// What the reports were built from.
    pub(crate) objects: Arc<Objects>,
    /// The Gateways that are published. Contour's is none of the objects.
    pub(crate) gateways: Arc<BTreeSet<ObjectName>>,
    /// The environment variables that Envoys need for the published configuration of the filter.
    pub(crate) variables: Arc<[String]>,
    /// When the last build was that changed anything of `IngressRoute`s, in Unix time.
    pub(crate) contour_changed: Option<Duration>,
}

/// The result of a build of which nothing else matters.
#[cfg(test)]
impl From<Reports> for PublishedReports {
    fn from(reports: Reports) -> Self {
        Self {
            reports: Arc::new(reports),
            objects: Arc::default(),
            gateways: Arc::default(),
            variables: Arc::new([]),
            contour_changed: None,
        }
    }
}
