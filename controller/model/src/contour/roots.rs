//! Roots: objects that have a host, and its certificate.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use limpet_api::{CertificateDelegationSpec, IngressRouteSpec, Object, ObjectName};

use super::delegation_tree::joined;
use super::go::quoted;
use super::services::is_host_name;
use crate::graph::TlsVersion;
use crate::{ContourSettings, Objects};

/// The status of a root in a namespace without roots. Its host counts for nothing.
pub(super) const FORBIDDEN: &str = "root IngressRoute cannot be defined in this namespace";

#[derive(Debug, Clone)]
pub(super) struct RootHost {
    /// In lower case.
    pub(super) name: String,
    pub(super) tls: Option<RootTls>,
}

#[derive(Debug, Clone)]
pub(super) struct RootTls {
    pub(super) secret: ObjectName,
    pub(super) minimum: TlsVersion,
}

pub(super) fn roots<'a>(
    ours: &BTreeMap<&'a ObjectName, &'a Object<IngressRouteSpec>>,
    objects: &Objects,
    settings: &ContourSettings,
) -> BTreeMap<&'a ObjectName, Result<RootHost, Arc<str>>> {
    let may_be_root = |name: &ObjectName| settings.permits_roots(&name.namespace);
    let mut by_host: BTreeMap<String, Vec<&ObjectName>> = BTreeMap::new();
    for (name, object) in ours {
        // An object that may not be a root, or cannot be read, takes no host away.
        if let Some(host) = object.spec.virtualhost.as_ref().filter(|_| object.malformed.is_none())
            && may_be_root(name)
        {
            by_host.entry(host.fqdn.to_ascii_lowercase()).or_default().push(name);
        }
    }
    let conflicts: BTreeMap<&str, String> = by_host
        .iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|(host, names)| {
            // By their texts, as Contour does.
            let mut names = names.clone();
            names.sort_by_cached_key(ToString::to_string);
            (host.as_str(), joined(names.into_iter(), ", "))
        })
        .collect();
    let delegated = DelegatedSecrets::of(objects);
    let roots = ours.iter().filter_map(|(name, object)| {
        let fqdn = &object.spec.virtualhost.as_ref()?.fqdn;
        let host = if !may_be_root(name) {
            Err(FORBIDDEN.to_owned())
        } else if let Some(names) = conflicts.get(fqdn.to_ascii_lowercase().as_str()) {
            Err(format!(
                "fqdn {} is used in multiple IngressRoutes: {names}",
                quoted(fqdn)
            ))
        } else {
            host(name, object, (objects, &delegated), settings)
        };
        Some((*name, host.map_err(Arc::from)))
    });
    roots.collect()
}

fn host(
    name: &ObjectName,
    object: &Object<IngressRouteSpec>,
    objects: (&Objects, &DelegatedSecrets<'_>),
    settings: &ContourSettings,
) -> Result<RootHost, String> {
    let virtualhost = object.spec.virtualhost.as_ref();
    let fqdn = virtualhost.map_or("", |host| &host.fqdn);
    if fqdn.trim().is_empty() {
        return Err("Spec.VirtualHost.Fqdn must be specified".to_owned());
    }
    if fqdn.contains('*') {
        return Err(format!("Spec.VirtualHost.Fqdn {} cannot use wildcards", quoted(fqdn)));
    }
    // Envoy refuses a whole listener for a name that it cannot match.
    if !is_host_name(fqdn) {
        return Err(format!(
            "spec.virtualhost.fqdn: expected the name of a host, found {}",
            quoted(fqdn)
        ));
    }
    Ok(RootHost {
        name: fqdn.to_ascii_lowercase(),
        tls: tls(name, object, objects, settings)?,
    })
}

fn tls(
    name: &ObjectName,
    object: &Object<IngressRouteSpec>,
    (objects, delegated): (&Objects, &DelegatedSecrets<'_>),
    settings: &ContourSettings,
) -> Result<Option<RootTls>, String> {
    let Some(tls) = object.spec.virtualhost.as_ref().and_then(|host| host.tls.as_ref()) else {
        return Ok(None);
    };
    let written = &tls.secret_name;
    if written.is_empty() && tls.passthrough {
        return Err("spec.virtualhost.tls.passthrough: not supported".to_owned());
    }
    let secret = secret(name, written);
    if !matches!(objects.certificates.get(&secret), Some(Ok(_))) {
        return Err(format!("TLS Secret [{written}] not found or is malformed"));
    }
    if secret.namespace != name.namespace && !delegated.permits(&secret, &name.namespace) {
        return Err(format!("{written}: certificate delegation not permitted"));
    }
    let minimum = match tls.minimum_protocol_version.as_str() {
        "" => None,
        "1.1" => Some(TlsVersion::V1_1),
        "1.2" => Some(TlsVersion::V1_2),
        "1.3" => Some(TlsVersion::V1_3),
        other => {
            return Err(format!(
                "spec.virtualhost.tls.minimumProtocolVersion: expected 1.1, 1.2 or 1.3, found {}",
                quoted(other)
            ));
        }
    };
    Ok(Some(RootTls {
        secret,
        minimum: settings
            .minimum_protocol_version
            .max(minimum.unwrap_or(TlsVersion::V1_1)),
    }))
}

/// Reads `name`, or `namespace/name`.
pub(super) fn secret(object: &ObjectName, written: &str) -> ObjectName {
    match written.split_once('/') {
        None => ObjectName::new(&object.namespace, written),
        Some(("", name)) => ObjectName::new(&object.namespace, name),
        Some((namespace, name)) => ObjectName::new(namespace, name),
    }
}

/// Namespaces of all entries of a `TLSCertificateDelegation` that count: every build reads them.
const MOST_TARGETS: usize = 1000;

/// Namespace and name of a Secret, and another namespace that may use it (`*`: all).
struct DelegatedSecrets<'a>(HashSet<(&'a str, &'a str, &'a str)>);

impl<'a> DelegatedSecrets<'a> {
    fn of(objects: &'a Objects) -> Self {
        let all = objects.certificate_delegations.iter();
        Self(
            all.flat_map(|(name, object)| targets(object).map(|(secret, target)| (&*name.namespace, secret, target)))
                .collect(),
        )
    }

    fn permits(&self, secret: &ObjectName, namespace: &str) -> bool {
        ["*", namespace].iter().any(|target| {
            #[cfg(test)]
            crate::looked::at_one();
            self.0.contains(&(&*secret.namespace, &*secret.name, *target))
        })
    }
}

/// Each Secret with a namespace that may use it. `*` counts only by itself.
fn targets(object: &Object<CertificateDelegationSpec>) -> impl Iterator<Item = (&str, &str)> {
    let all = object.spec.delegations.iter().flat_map(|delegation| {
        let targets = &delegation.target_namespaces;
        let is_all = targets.len() == 1;
        let targets = targets.iter().filter(move |target| is_all || *target != "*");
        targets.map(|target| (&*delegation.secret_name, &**target))
    });
    all.take(MOST_TARGETS).inspect(|_| {
        #[cfg(test)]
        crate::looked::at_one();
    })
}

pub(crate) fn long_delegations(objects: &Objects) -> impl Iterator<Item = (&ObjectName, String)> {
    objects.certificate_delegations.iter().filter_map(|(name, object)| {
        let delegations = object.spec.delegations.iter();
        let found: usize = delegations.map(|delegation| delegation.target_namespaces.len()).sum();
        let message = || {
            format!(
                "spec.delegations: expected at most {MOST_TARGETS} targetNamespaces of all delegations together, found \
                 {found}, of which only the first {MOST_TARGETS} count: write several TLSCertificateDelegations, or \
                 targetNamespaces: [\"*\"]"
            )
        };
        (found > MOST_TARGETS).then(|| (name, message()))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::reports::IngressRouteStatus;
    use crate::{Certificate, Reports, Settings, build, looked};

    /// The Secret `certs/tls`, and a delegation of it to so many other namespaces and then to `shop`.
    fn objects(others: usize) -> Objects {
        let mut objects = Objects::default();
        let certificate = Certificate {
            chain: b"chain".to_vec().into(),
            key: Arc::new(b"key".to_vec().into()),
        };
        let secret = ObjectName::new("certs", "tls");
        objects.certificates.insert(secret, Ok(certificate));
        let namespaces = (0..others).map(|index| format!("n{index}"));
        let namespaces: Vec<String> = namespaces.chain(["shop".to_owned()]).collect();
        let delegation = limpet_api::readable(&json!({
            "metadata": {"namespace": "certs", "name": "d"},
            "spec": {"delegations": [{"secretName": "tls", "targetNamespaces": namespaces}]},
        }));
        let name = ObjectName::new("certs", "d");
        objects.certificate_delegations.insert(name, Arc::new(delegation));
        objects
    }

    fn add_roots(objects: &mut Objects, number: usize) {
        for index in 0..number {
            let name = format!("r{index}");
            let root = limpet_api::readable(&json!({
                "metadata": {"namespace": "shop", "name": name},
                "spec": {
                    "virtualhost": {"fqdn": format!("{name}.example"), "tls": {"secretName": "certs/tls"}},
                    "routes": [{"match": "/", "services": [{"name": "web", "port": 80}]}],
                },
            }));
            objects
                .ingress_routes
                .insert(ObjectName::new("shop", &name), Arc::new(root));
        }
        let service = limpet_api::readable(&json!({
            "metadata": {"namespace": "shop", "name": "web"}, "spec": {"ports": [{"port": 80}]},
        }));
        let name = ObjectName::new("shop", "web");
        objects.services.insert(name, Arc::new(service));
    }

    fn built(objects: &Objects) -> Reports {
        let contour = serde_json::from_value(json!({"gateway": "limpet/contour"})).unwrap();
        let settings = Settings {
            contour: Some(contour),
            ..Settings::default()
        };
        build(objects, &settings).1
    }

    #[test]
    fn each_root_looked_at_all_delegations_of_a_namespace() {
        const MANY: usize = 300;
        let mut objects = objects(MANY);
        add_roots(&mut objects, MANY);
        looked::take();
        let reports = built(&objects);
        assert!((MANY..=10 * MANY).contains(&looked::take()));
        let mut roots = reports.ingress_routes.values();
        assert!(roots.all(|root| root.status == IngressRouteStatus::Valid));
    }

    #[test]
    fn a_delegation_had_entries_without_end() {
        let status = |others: usize| {
            let mut objects = objects(others);
            add_roots(&mut objects, 1);
            let reports = built(&objects);
            let told = reports.without_status.values().next().map(|one| one.message.clone());
            (reports.ingress_routes.values().next().unwrap().status, told)
        };
        assert_eq!(status(MOST_TARGETS - 1), (IngressRouteStatus::Valid, None));
        let (status, told) = status(MOST_TARGETS);
        assert_eq!(status, IngressRouteStatus::Invalid);
        let told = told.unwrap();
        assert!(
            told.starts_with("spec.delegations: expected at most 1000 targetNamespaces"),
            "{told}"
        );
        assert!(told.contains("found 1001"), "{told}");
    }
}
