use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResourceList;
use kube::core::ApiResource;
use kube::{Client, Error};
use limpet_api::Kind;

use super::kind::KindExt as _;

/// The served kinds, each in its best readable version. `None`: no readable version of a kind that [must be
/// read](KindExt::must_be_read).
pub(super) type ServedKinds = BTreeMap<Kind, Option<ApiResource>>;

/// Asks the API server for its kinds. After an error, nothing is known, and no kind counts as gone.
pub(super) async fn discover(client: &Client) -> Result<ServedKinds, Error> {
    let mut served = ServedKinds::new();
    for kind in Kind::ALL {
        if let Some(plural) = kind.built_in() {
            let version = kind.versions().first().copied().unwrap_or_default();
            served.insert(kind, Some(resource(kind, version, plural)));
        }
    }
    for group in client.list_api_groups().await?.groups {
        let (readable, others): (Vec<_>, Vec<_>) = group
            .versions
            .iter()
            .partition(|offered| is_readable(&group.name, &offered.version));
        // Other versions last: they matter only if a kind is in no better one.
        for offered in readable.into_iter().chain(others) {
            if !is_needed(&served, &group.name, &offered.version) {
                continue;
            }
            match client.list_api_group_resources(&offered.group_version).await {
                Ok(list) => add(&mut served, &group.name, &offered.version, &list),
                // The last definition in this version was deleted after the groups were listed.
                Err(Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(served)
}

/// Whether any of the group's kinds with CRDs can be read in this version.
fn is_readable(group: &str, version: &str) -> bool {
    let mut kinds = Kind::ALL.into_iter().filter(|kind| kind.built_in().is_none());
    kinds.any(|kind| kind.group() == group && kind.versions().contains(&version))
}

fn is_needed(served: &ServedKinds, group: &str, version: &str) -> bool {
    let mut awaited = Kind::ALL.into_iter().filter(|kind| !served.contains_key(kind));
    is_readable(group, version) || awaited.any(|kind| kind.group() == group && kind.must_be_read())
}

/// Adds the kinds of a version, except those that already have a better one.
fn add(served: &mut ServedKinds, group: &str, version: &str, list: &APIResourceList) {
    let rank = |kind: Kind, version: &str| kind.versions().iter().position(|known| *known == version);
    for offered in &list.resources {
        // Without subresources, such as `gateways/status`.
        let Some(kind) = Kind::find(group, &offered.kind).filter(|_| !offered.name.contains('/')) else {
            continue;
        };
        let Some(this) = rank(kind, version) else {
            if kind.must_be_read() {
                served.entry(kind).or_insert(None);
            }
            continue;
        };
        let other = served.get(&kind).and_then(Option::as_ref);
        let other = other.and_then(|known| rank(kind, &known.version));
        if other.is_none_or(|other| this < other) {
            served.insert(kind, Some(resource(kind, version, &offered.name)));
        }
    }
}

fn resource(kind: Kind, version: &str, plural: &str) -> ApiResource {
    let group = kind.group();
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        },
        kind: kind.as_str().to_owned(),
        plural: plural.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource;
    use limpet_api::{GATEWAY_GROUP, GATEWAY_X_GROUP};

    use super::*;

    fn list(kinds: &[(&str, &str)]) -> APIResourceList {
        let resource = |(kind, name): &(&str, &str)| APIResource {
            kind: (*kind).to_owned(),
            name: (*name).to_owned(),
            ..APIResource::default()
        };
        APIResourceList {
            resources: kinds.iter().map(resource).collect(),
            ..APIResourceList::default()
        }
    }

    #[test]
    fn of_several_versions_the_best_that_can_be_read_is_taken() {
        let both = [
            ("HTTPRoute", "httproutes"),
            ("HTTPRoute", "httproutes/status"),
            ("TCPRoute", "tcproutes"),
        ];
        for order in [["v1", "v1beta1", "v1alpha2"], ["v1alpha2", "v1beta1", "v1"]] {
            let mut served = ServedKinds::new();
            for version in order {
                add(&mut served, GATEWAY_GROUP, version, &list(&both));
            }
            let found: Vec<_> = served.into_values().collect();
            assert_eq!(found, [Some(resource(Kind::HttpRoute, "v1", "httproutes"))]);
        }
    }

    #[test]
    fn a_kind_of_another_group_is_another_kind() {
        let mut served = ServedKinds::new();
        add(
            &mut served,
            GATEWAY_X_GROUP,
            "v1alpha1",
            &list(&[("Gateway", "gateways"), ("XBackend", "xbackends")]),
        );
        let found: Vec<_> = served.into_values().collect();
        assert_eq!(found, [Some(resource(Kind::XBackend, "v1alpha1", "xbackends"))]);
    }

    #[test]
    fn policies_for_tls_in_another_version_are_not_absent() {
        let kinds = [("BackendTLSPolicy", "backendtlspolicies"), ("HTTPRoute", "httproutes")];
        let mut served = ServedKinds::new();
        assert!(is_needed(&served, GATEWAY_GROUP, "v9"));
        add(&mut served, GATEWAY_GROUP, "v9", &list(&kinds));
        assert_eq!(served, [(Kind::BackendTlsPolicy, None)].into());
        add(&mut served, GATEWAY_GROUP, "v1", &list(&kinds));
        add(&mut served, GATEWAY_GROUP, "v9", &list(&kinds));
        let policies = resource(Kind::BackendTlsPolicy, "v1", "backendtlspolicies");
        assert_eq!(served.get(&Kind::BackendTlsPolicy), Some(&Some(policies)));
        assert!(!is_needed(&served, GATEWAY_GROUP, "v9"), "nothing else matters there");
    }
}
