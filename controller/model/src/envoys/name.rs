use std::collections::BTreeMap;

use limpet_api::ObjectName;

use crate::manager::{MANAGED_BY, MANAGER};
use crate::short_hash::hash;

/// The port of the admin interface of a Gateway's Envoy.
pub const ADMIN_PORT: u16 = 19000;
/// The port of its readiness.
pub const READY_PORT: u16 = 19001;
/// The label with the name of an object's Gateway (GEP-1762).
pub const GATEWAY_NAME: &str = "gateway.networking.k8s.io/gateway-name";
/// The label with the namespace of an object's Gateway: the object may be in another one.
const GATEWAY_NAMESPACE: &str = "limpet.dev/gateway-namespace";

/// Bytes of a hash. Two Gateways' objects may be in one namespace, so a Gateway with another one's hash would take its
/// requests: 2^80 names are too many to try.
const HASH: usize = 10;
const HEAD: usize = 22;

/// The name of all objects of a Gateway's Envoys: at most 50 characters, so that a suffix has room in the 63 of a
/// label.
#[must_use]
pub fn envoys_name(gateway: &ObjectName) -> String {
    let hash = hash(gateway.to_string().as_bytes(), HASH);
    // A Gateway's name may have dots, a Service's may not, and it begins with a letter.
    let head: String = gateway.name.replace('.', "-").chars().take(HEAD).collect();
    format!("limpet-{}-{hash}", head.trim_end_matches('-'))
}

/// The labels of every object of a Gateway's Envoys.
#[must_use]
pub fn envoys_labels(gateway: &ObjectName) -> BTreeMap<String, String> {
    // A Gateway's name may be longer than a label.
    let fits = gateway.name.len() <= 63;
    let name = if fits {
        gateway.name.to_string()
    } else {
        envoys_name(gateway)
    };
    let labels = [
        (GATEWAY_NAME, name.as_str()),
        (GATEWAY_NAMESPACE, &gateway.namespace),
        (MANAGED_BY, MANAGER),
    ];
    labels.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// The Secret with the certificate that a Gateway's Envoys show to the xDS server.
#[must_use]
pub fn envoys_certificate(gateway: &ObjectName) -> String {
    format!("{}-xds", envoys_name(gateway))
}

/// The Secret with the key-encryption keys for a Gateway's Envoys, where they cannot use the controller's.
#[must_use]
pub fn envoys_keys(gateway: &ObjectName) -> String {
    format!("{}-keys", envoys_name(gateway))
}

/// The URI in the certificate of a Gateway's Envoys, which gives access to this Gateway's resources only.
#[must_use]
pub fn envoys_uri(gateway: &ObjectName) -> String {
    format!("spiffe://limpet.dev/gateway/{gateway}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_of_one_name_do_not_share_their_objects() {
        let names = ["default", "other"].map(|namespace| envoys_name(&ObjectName::new(namespace, "web")));
        assert!(names[0].starts_with("limpet-web-"), "{names:?}");
        assert_ne!(names[0], names[1]);
    }

    /// An author of Gateways can hash as many names as they like. The second name was found so: it has the same
    /// beginning, and the same 32 bits.
    #[test]
    fn a_name_that_somebody_looked_for_is_another_one() {
        let found = "web-----------------------------5baf45f8";
        let names = [("default", "web"), ("other", found)].map(|(of, name)| envoys_name(&ObjectName::new(of, name)));
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn a_long_name_is_no_label() {
        let name = envoys_name(&ObjectName::new("default", &format!("1.{}", "a.".repeat(120))));
        assert!(name.len() <= 50, "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}");
    }
}
