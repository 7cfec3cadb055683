use limpet_api::ObjectName;
use limpet_model::envoys_uri;
use limpet_xds::{Peer, Permission};

/// The most names of a certificate in a message.
const TOLD: usize = 3;

/// A node gets resources of the Gateway in its certificate. In plain text there is no certificate to check.
pub(crate) fn permission() -> Permission {
    Permission::new(may_have)
}

fn may_have(peer: &Peer, group: &str) -> Result<(), String> {
    let Some(identity) = &peer.identity else {
        return Ok(());
    };
    let (namespace, name) = group.split_once('/').unwrap_or(("", group));
    let expected = envoys_uri(&ObjectName::new(namespace, name));
    if identity.uris.contains(&expected) {
        return Ok(());
    }
    let told: Vec<&str> = identity.uris.iter().take(TOLD).map(String::as_str).collect();
    let found = if told.is_empty() {
        "no URI".to_owned()
    } else {
        told.join(", ")
    };
    Err(format!(
        "the certificate is not for the Gateway {group}: expected {expected} among the URIs of its subject's \
         alternative names, found {found}"
    ))
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use limpet_xds::{CertificateIdentity, Validity};

    use super::*;

    fn peer(uris: &[&str]) -> Peer {
        Peer {
            address: ([127, 0, 0, 1], 1).into(),
            identity: Some(CertificateIdentity {
                subject: "CN=limpet-envoy".to_owned(),
                uris: uris.iter().map(ToString::to_string).collect(),
                dns_names: vec!["spiffe://limpet.dev/gateway/shop/web".to_owned()],
                validity: Validity {
                    begins: SystemTime::UNIX_EPOCH,
                    ends: SystemTime::UNIX_EPOCH,
                },
            }),
        }
    }

    #[test]
    fn a_certificate_is_for_the_gateways_that_it_names() {
        let web = "spiffe://limpet.dev/gateway/shop/web";
        assert_eq!(may_have(&peer(&[web]), "shop/web"), Ok(()));
        assert_eq!(may_have(&peer(&["spiffe://x/y", web]), "shop/web"), Ok(()));
        for group in [
            "shop/we",
            "shop/web2",
            "shop/web/",
            "shop/",
            "/web",
            "web",
            "",
            "shop",
            "other/web",
            "Shop/web",
        ] {
            let error = may_have(&peer(&[web]), group).unwrap_err();
            assert!(error.contains(&format!("found {web}")), "{group}: {error}");
        }
        let none = may_have(&peer(&[]), "shop/web").unwrap_err();
        let expected = "expected spiffe://limpet.dev/gateway/shop/web among the URIs";
        assert!(none.contains(expected) && none.ends_with("found no URI"), "{none}");
    }

    #[test]
    fn plain_text_has_no_certificate_to_look_at() {
        let plain = Peer {
            identity: None,
            ..peer(&[])
        };
        assert_eq!(may_have(&plain, "shop/web"), Ok(()));
    }
}
