use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde::Deserialize;

use super::certificate;
use super::item::dynamic_resource;
use super::named_object::{self, ObservedObject};
use super::update::{StoreUpdate, UpdateSender};
use limpet_api::{BackendRef, Kind, Meta, ObjectName, ParentRef};
use limpet_model::{Authorities, Objects};

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawConfigMap {
    metadata: ObjectMeta,
    data: ConfigMapData,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct ConfigMapData {
    #[serde(rename = "ca.crt")]
    authorities: Option<String>,
}

dynamic_resource!(RawConfigMap);

pub(super) async fn watch(client: Client, name: ObjectName, updates: UpdateSender) {
    let update = |found: ObservedObject<RawConfigMap>| {
        let found = match found {
            Ok(config_map) => config_map.as_ref().map(read),
            Err(_) => Some(Err(
                "limpet has no right to read it: grant list and watch on it".to_owned()
            )),
        };
        StoreUpdate::ConfigMap(name.clone(), found)
    };
    named_object::send(client, ("ConfigMap", "configmaps"), &name, &updates, update).await;
}

pub(super) fn read(config_map: &RawConfigMap) -> Result<Authorities, String> {
    let text = config_map.data.authorities.as_deref();
    certificate::authorities(text.ok_or("expected data.ca.crt")?)
}

/// The ConfigMaps of policies for targets of our Gateways' routes, each with its policy. `led_to`: these targets,
/// filled in if unknown.
pub(super) fn referenced<'a>(
    objects: &'a Objects,
    controller: &str,
    led_to: &mut Option<BTreeSet<(Kind, ObjectName)>>,
) -> Vec<(&'a Meta, ObjectName)> {
    let policies = &objects.backend_tls_policies;
    if policies
        .values()
        .all(|policy| policy.spec.validation.ca_certificate_refs.is_empty())
    {
        return Vec::new();
    }
    let backends = led_to.get_or_insert_with(|| backends(objects, controller));
    let is_used = |name: &ObjectName, target: &limpet_api::TlsPolicyTarget| {
        let kind = Kind::find(&target.group, &target.kind);
        let name = ObjectName::new(&name.namespace, &target.name);
        kind.is_some_and(|kind| backends.contains(&(kind, name)))
    };
    let policies = policies
        .iter()
        .filter(|(name, policy)| policy.spec.target_refs.iter().any(|target| is_used(name, target)));
    let names = policies.flat_map(|(name, policy)| {
        let refs = policy.spec.validation.ca_certificate_refs.iter();
        let refs = refs.filter(|reference| reference.group.is_empty() && reference.kind == "ConfigMap");
        refs.map(|reference| (&policy.meta, ObjectName::new(&name.namespace, &reference.name)))
    });
    names.collect()
}

/// The targets of routes that have a Gateway of ours as their parent.
fn backends(objects: &Objects, controller: &str) -> BTreeSet<(Kind, ObjectName)> {
    let is_ours = |class: &str| {
        let class = objects.gateway_classes.get(class);
        class.is_some_and(|class| class.spec.controller_name == controller)
    };
    let gateways = objects.gateways.iter();
    let gateways: BTreeSet<&ObjectName> = gateways
        .filter(|(_, gateway)| is_ours(&gateway.spec.gateway_class_name))
        .map(|(name, _)| name)
        .collect();
    let names_ours = |namespace: &str, parents: &[ParentRef]| {
        let mut names = parents.iter().map(|parent| {
            let namespace = parent.namespace.as_deref().unwrap_or(namespace);
            ObjectName::new(namespace, &parent.name)
        });
        names.any(|name| gateways.contains(&name))
    };
    let routes = objects.routes().filter(|route| {
        #[cfg(test)]
        crate::cluster::looked::at_one();
        names_ours(&route.meta.namespace, route.parents)
    });
    routes
        .flat_map(|route| {
            let meta = route.meta;
            route.referenced_backends().filter_map(move |reference: &BackendRef| {
                let namespace = reference.namespace.as_deref().unwrap_or(&meta.namespace);
                let kind = Kind::find(&reference.group, &reference.kind)?;
                Some((kind, ObjectName::new(namespace, &reference.name)))
            })
        })
        .collect()
}
