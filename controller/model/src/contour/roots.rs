//! Which objects have a host of their own, and its certificate.

use std::collections::BTreeMap;
use std::sync::Arc;

use limpet_api::{IngressRouteSpec, Object, ObjectName};

use super::go::quoted;
use super::services::is_host_name;
use super::tree::joined;
use crate::graph::TlsVersion;
use crate::{ContourSettings, Objects};

/// What a root is told in a namespace without roots. Its host counts for nothing.
pub(super) const FORBIDDEN: &str = "root IngressRoute cannot be defined in this namespace";

/// The host of a root.
#[derive(Debug, Clone)]
pub(super) struct Host {
    /// In lower case.
    pub(super) name: String,
    pub(super) tls: Option<Tls>,
}

#[derive(Debug, Clone)]
pub(super) struct Tls {
    pub(super) secret: ObjectName,
    pub(super) minimum: TlsVersion,
}

/// The roots among these objects: their hosts, or what is wrong with them.
pub(super) fn roots<'a>(
    ours: &BTreeMap<&'a ObjectName, &'a Object<IngressRouteSpec>>,
    objects: &Objects,
    settings: &ContourSettings,
) -> BTreeMap<&'a ObjectName, Result<Host, Arc<str>>> {
    let may_be_root = |name: &ObjectName| settings.permits_roots(&name.namespace);
    let mut by_host: BTreeMap<String, Vec<&ObjectName>> = BTreeMap::new();
    for (name, object) in ours {
        // Who may not be a root, and what cannot be read, takes no host away.
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
            // As Contour does: by their texts.
            let mut names = names.clone();
            names.sort_by_cached_key(ToString::to_string);
            (host.as_str(), joined(names.into_iter(), ", "))
        })
        .collect();
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
            host(name, object, objects, settings)
        };
        Some((*name, host.map_err(Arc::from)))
    });
    roots.collect()
}

fn host(
    name: &ObjectName,
    object: &Object<IngressRouteSpec>,
    objects: &Objects,
    settings: &ContourSettings,
) -> Result<Host, String> {
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
    Ok(Host {
        name: fqdn.to_ascii_lowercase(),
        tls: tls(name, object, objects, settings)?,
    })
}

fn tls(
    name: &ObjectName,
    object: &Object<IngressRouteSpec>,
    objects: &Objects,
    settings: &ContourSettings,
) -> Result<Option<Tls>, String> {
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
    if secret.namespace != name.namespace && !is_delegated(objects, &secret, &name.namespace) {
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
    Ok(Some(Tls {
        secret,
        minimum: settings
            .minimum_protocol_version
            .max(minimum.unwrap_or(TlsVersion::V1_1)),
    }))
}

/// The Secret of this text: `name`, or `namespace/name`.
pub(super) fn secret(object: &ObjectName, written: &str) -> ObjectName {
    match written.split_once('/') {
        None => ObjectName::new(&object.namespace, written),
        Some(("", name)) => ObjectName::new(&object.namespace, name),
        Some((namespace, name)) => ObjectName::new(namespace, name),
    }
}

/// Whether a `TLSCertificateDelegation` beside the Secret permits its use in this namespace.
fn is_delegated(objects: &Objects, secret: &ObjectName, namespace: &str) -> bool {
    let first = ObjectName::new(&secret.namespace, "");
    let of_namespace = objects.certificate_delegations.range(first..);
    let of_namespace = of_namespace.take_while(|(name, _)| name.namespace == secret.namespace);
    let mut delegations = of_namespace.flat_map(|(_, object)| &object.spec.delegations);
    delegations.any(|delegation| {
        let targets = &delegation.target_namespaces;
        delegation.secret_name == secret.name
            && (matches!(&**targets, [all] if all == "*") || targets.iter().any(|target| target == namespace))
    })
}
