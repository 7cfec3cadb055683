//! The clients that may have a group's resources.

use std::fmt;
use std::sync::Arc;

use super::peer::Peer;

type PermissionCheck = dyn Fn(&Peer, &str) -> Result<(), String> + Send + Sync;

/// Whether a client may have the resources of a group: the client says its `node.cluster`, an authority its
/// [`Peer::identity`]. It is asked once for each stream. By default, everything is allowed.
#[derive(Clone)]
pub struct Permission(Arc<PermissionCheck>);

impl Permission {
    /// Asks this function. Its error is sent to the client.
    #[must_use]
    pub fn new(rule: impl Fn(&Peer, &str) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(rule))
    }

    pub(super) fn check(&self, peer: &Peer, group: &str) -> Result<(), String> {
        (self.0)(peer, group)
    }
}

impl Default for Permission {
    fn default() -> Self {
        Self::new(|_, _| Ok(()))
    }
}

impl fmt::Debug for Permission {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Permission")
    }
}
