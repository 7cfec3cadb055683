use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use limpet_api::ObjectName;
use limpet_model::{Objects, Reports};

#[derive(Debug, Clone)]
pub(crate) struct PublishedReports {
    pub(crate) reports: Arc<Reports>,
    pub(crate) objects: Arc<Objects>,
    /// The published Gateways. Contour's is none of the objects.
    pub(crate) gateways: Arc<BTreeSet<ObjectName>>,
    /// The environment variables that the published filter needs.
    pub(crate) variables: Arc<[String]>,
    /// The last build that changed anything of `IngressRoute`s, in Unix time.
    pub(crate) contour_changed: Option<Duration>,
}

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
