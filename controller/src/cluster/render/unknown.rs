//! Documents of unknown kinds. An API server would refuse them; without one, a misspelt kind would be an object less
//! without a word.

use crate::cluster::kube::versions;
use limpet_api::{CONTOUR_GROUP, GATEWAY_GROUP, GATEWAY_X_GROUP, Kind, LIMPET_GROUP};

/// The kinds of these groups that are not read, in all releases of the Gateway API and of Contour.
const NOT_READ: [(&str, &[&str]); 4] = [
    (GATEWAY_GROUP, &["ListenerSet", "TCPRoute", "TLSRoute", "UDPRoute"]),
    (GATEWAY_X_GROUP, &["XListenerSet", "XMesh", "XTelemetryPolicy"]),
    (LIMPET_GROUP, &[]),
    (CONTOUR_GROUP, &[]),
];

/// What is wrong with `apiVersion` and `kind` of a document, with the field. Other groups belong to others, and nothing
/// is said of them.
///
/// # Errors
/// If the kind, or this version of it, does not exist.
pub(super) fn check(api_version: Option<&str>, kind: &str) -> Result<(), String> {
    let Some(api_version) = api_version else {
        // A Kustomization needs none.
        return match Kind::ALL.into_iter().find(|known| known.as_str() == kind) {
            None => Ok(()),
            Some(known) => Err(format!("apiVersion: expected {}, found none", api_versions(known))),
        };
    };
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    if let Some(known) = Kind::find(group, kind) {
        return if versions(known).contains(&version) {
            Ok(())
        } else {
            Err(format!(
                "apiVersion: expected {}, found {api_version}",
                api_versions(known)
            ))
        };
    }
    let Some((_, others)) = NOT_READ.into_iter().find(|(of, _)| *of == group) else {
        return Ok(());
    };
    if others.contains(&kind) {
        return Ok(());
    }
    let read = Kind::ALL.into_iter().filter(|known| known.group() == group);
    let mut known: Vec<&str> = read.map(Kind::as_str).chain(others.iter().copied()).collect();
    known.sort_unstable();
    Err(format!(
        "kind: expected one of {group} ({}), found {kind}",
        known.join(", ")
    ))
}

/// The versions of a kind, in words.
fn api_versions(kind: Kind) -> String {
    let group = kind.group();
    let versions = versions(kind).iter().map(|version| match group {
        "" => (*version).to_owned(),
        _ => format!("{group}/{version}"),
    });
    versions.collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_our_groups_that_do_not_exist_are_named() {
        let wrong = |api_version: Option<&str>, kind: &str| check(api_version, kind).unwrap_err();
        let message = wrong(Some("gateway.networking.k8s.io/v1"), "HTTPRuote");
        assert!(message.starts_with("kind: expected one of gateway.networking.k8s.io (BackendLBPolicy, "));
        assert!(message.ends_with("), found HTTPRuote"), "{message}");
        assert_eq!(
            wrong(Some("limpet.dev/v1alpha1"), "EnvoyDeplyoment"),
            "kind: expected one of limpet.dev (EnvoyDeployment), found EnvoyDeplyoment"
        );
        assert_eq!(
            wrong(Some("gateway.networking.k8s.io/v2"), "HTTPRoute"),
            "apiVersion: expected gateway.networking.k8s.io/v1 or gateway.networking.k8s.io/v1beta1, found \
             gateway.networking.k8s.io/v2"
        );
        assert_eq!(
            wrong(Some("contour.heptio.com/v1beta1"), "IngresRoute"),
            "kind: expected one of contour.heptio.com (IngressRoute, TLSCertificateDelegation), found IngresRoute"
        );
        assert_eq!(wrong(None, "Service"), "apiVersion: expected v1, found none");
    }

    #[test]
    fn kinds_of_others_are_left_alone() {
        for (api_version, kind) in [
            (Some("apps/v1"), "Deployment"),
            (Some("networking.istio.io/v1"), "Gateway"),
            (Some("projectcontour.io/v1"), "HTTPProxy"),
            (Some("projectcontour.io/v1"), "TLSCertificateDelegation"),
            (Some("gateway.networking.k8s.io/v1alpha2"), "TCPRoute"),
            (Some("gateway.networking.x-k8s.io/v1alpha1"), "XMesh"),
            (Some("v1"), "Secret"),
            (None, "Kustomization"),
        ] {
            assert_eq!(check(api_version, kind), Ok(()), "{api_version:?} {kind}");
        }
        for kind in Kind::ALL {
            for version in versions(kind) {
                let api_version = format!("{}/{version}", kind.group());
                let api_version = api_version.trim_start_matches('/');
                assert_eq!(check(Some(api_version), kind.as_str()), Ok(()));
            }
        }
    }
}
