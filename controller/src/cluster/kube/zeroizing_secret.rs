use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::core::v1::Secret as SecretObject;
use zeroize::Zeroize as _;

/// A Secret whose values are wiped when it is dropped, and hidden from Debug.
pub(crate) struct ZeroizingSecret(Box<SecretObject>);

impl ZeroizingSecret {
    pub(crate) fn new(secret: SecretObject) -> Self {
        Self(Box::new(secret))
    }

    pub(crate) fn object(&self) -> &SecretObject {
        &self.0
    }
}

impl fmt::Debug for ZeroizingSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("name", &self.0.metadata.name)
            .field("resource_version", &self.0.metadata.resource_version)
            .finish_non_exhaustive()
    }
}

impl Drop for ZeroizingSecret {
    fn drop(&mut self) {
        for value in self.0.data.iter_mut().flat_map(BTreeMap::values_mut) {
            value.0.zeroize();
        }
    }
}
