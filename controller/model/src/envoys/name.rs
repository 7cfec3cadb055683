use limpet_api::ObjectName;

use crate::short_hash;

/// The port of the admin interface of a Gateway's Envoy.
pub const ADMIN_PORT: u16 = 19000;
/// The port where it says whether it is ready.
pub const READY_PORT: u16 = 19001;

/// The name of every object that belongs to the Envoys of a Gateway: at most 50 characters, so that a suffix has room
/// in the 63 of a label. The hash keeps Gateways of several namespaces apart, because their objects may be in one.
#[must_use]
pub fn envoys_name(gateway: &ObjectName) -> String {
    let hash = short_hash(gateway.to_string().as_bytes());
    // A Gateway's name may have dots, a Service's may not, and it begins with a letter.
    let head: String = gateway.name.replace('.', "-").chars().take(32).collect();
    format!("limpet-{}-{hash}", head.trim_end_matches('-'))
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

    #[test]
    fn a_long_name_is_no_label() {
        let name = envoys_name(&ObjectName::new("default", &format!("1.{}", "a.".repeat(120))));
        assert!(name.len() <= 50, "{name}");
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "{name}");
    }
}
