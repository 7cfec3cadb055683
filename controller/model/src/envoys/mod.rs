//! The Envoys of a Gateway, and how they are run.

mod bounds;
mod name;
mod parameters;
mod resources;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Serialize;

pub use name::{
    ADMIN_PORT, GATEWAY_NAME, READY_PORT, envoys_certificate, envoys_keys, envoys_labels, envoys_name, envoys_uri,
};
pub use parameters::check_envoy_defaults;
pub(super) use parameters::{ParameterLayer, of_class, of_gateway};

use super::infrastructure::{self, AllowedMetadata};
use super::{Objects, Settings};
use limpet_api::{
    EnvoyDeploymentSpec, EnvoyFilterBuild, GatewayListener, GatewaySpec, Infrastructure, Object, ObjectName, Patches,
    ServiceRef, ServiceType,
};
use parameters::{check, check_foreign, check_ports, drain_time, merged_over};

/// How long clients have to go elsewhere, by default.
const DRAIN_TIME: Duration = Duration::from_secs(30);

/// The annotation with the Service that leads to Envoys which others run.
pub(super) const SERVICE: &str = "limpet.dev/service";

/// The Envoys of a Gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Envoys {
    /// Their objects that the controller keeps; `None`: others run them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<EnvoyDeployment>,
    /// The build of the filter, if it differs from the controller's configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<EnvoyFilterBuild>,
    /// Whether their objects stay as they are, because their parameters are invalid.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unchanged: bool,
    /// Labels and annotations that the Gateway asks for and no object gets, and why.
    #[serde(skip)]
    pub(super) left_out: Option<String>,
    /// The Service that leads to them, if known.
    #[serde(skip)]
    pub(super) service: Option<ObjectName>,
}

/// The objects that the controller keeps for the Envoys of a Gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvoyDeployment {
    /// The name of all objects.
    pub name: ObjectName,
    /// The parameters, without patches.
    pub parameters: EnvoyDeploymentSpec,
    /// The patches, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub patches: Vec<Patches>,
    /// The ports of the Gateway's listeners.
    pub ports: BTreeSet<u16>,
    /// IP addresses that the Gateway asks for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Labels that the Gateway asks for; in another namespace, only those listed for their kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// As the labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

pub(super) fn envoys(
    gateway: &Object<GatewaySpec>,
    class: Result<ParameterLayer<'_>, String>,
    objects: &Objects,
    settings: &Settings,
) -> (Envoys, Option<String>) {
    let layers = class.and_then(|class| Ok([class, of_gateway(gateway, objects)?]));
    let merged = layers.and_then(|layers| {
        let merged = merge(&layers, settings)?;
        if settings.managed.is_some() {
            check_ports(gateway, &layers, &merged.parameters)?;
        }
        Ok(merged)
    });
    match merged {
        Ok(merged) => (with_parameters(gateway, merged, settings), None),
        Err(message) => {
            let envoys = Envoys {
                unchanged: true,
                service: by_annotation(gateway).or_else(|| own_name(gateway, settings)),
                ..Envoys::default()
            };
            (envoys, Some(message))
        }
    }
}

#[derive(Debug, Default)]
struct MergedParameters {
    parameters: EnvoyDeploymentSpec,
    patches: Vec<Patches>,
    left_out: Vec<String>,
}

fn merge(layers: &[ParameterLayer<'_>], settings: &Settings) -> Result<MergedParameters, String> {
    let managed = settings.managed.as_ref();
    let mut merged = managed.map(|managed| managed.defaults.clone()).unwrap_or_default();
    let mut patches = vec![std::mem::take(&mut merged.patch)];
    let mut left_out = Vec::new();
    for layer in layers {
        let Some(object) = layer.object else { continue };
        check(&object.spec).map_err(|message| layer.at(&message))?;
        let mut spec = object.spec.clone();
        if layer.is_of_a_gateway
            && let Some((namespace, allowed)) = elsewhere(&object.meta.namespace, settings)
        {
            check_foreign(&spec, namespace).map_err(|message| layer.at(&message))?;
            let names = allowed.remove_of_service(&mut spec.service.annotations);
            left_out.extend(
                names
                    .into_iter()
                    .map(|name| layer.at(&format!("spec.service.annotations: {name}"))),
            );
        }
        if managed.is_none() && object.spec.managed == Some(true) {
            return Err(
                layer.at("spec.managed: expected false, because the controller keeps no Envoys: \
                                 its configuration has no envoy.managed"),
            );
        }
        patches.push(std::mem::take(&mut spec.patch));
        merged = merged_over(spec, merged);
    }
    patches.retain(|patches| *patches != Patches::default());
    Ok(MergedParameters {
        parameters: merged,
        patches,
        left_out,
    })
}

/// The other namespace where a Gateway's Envoys run, and what it may ask for there.
fn elsewhere<'s>(namespace: &str, settings: &'s Settings) -> Option<(&'s str, &'s AllowedMetadata)> {
    let managed = settings.managed.as_ref()?;
    let of_envoys = managed
        .namespace
        .as_deref()
        .filter(|of_envoys| *of_envoys != namespace)?;
    Some((of_envoys, &managed.infrastructure))
}

fn with_parameters(gateway: &Object<GatewaySpec>, merged: MergedParameters, settings: &Settings) -> Envoys {
    let MergedParameters {
        parameters,
        patches,
        mut left_out,
    } = merged;
    let filter = parameters.filter;
    let name = own_name(gateway, settings).filter(|_| parameters.managed != Some(false));
    let Some(name) = name else {
        let by_parameters = parameters.service_ref.map(|ServiceRef { namespace, name }| {
            let namespace = namespace.as_deref().unwrap_or(&gateway.meta.namespace);
            ObjectName::new(namespace, &name)
        });
        return Envoys {
            filter,
            service: by_annotation(gateway).or(by_parameters),
            ..Envoys::default()
        };
    };
    let Infrastructure {
        mut labels,
        mut annotations,
        ..
    } = gateway.spec.infrastructure.clone();
    let elsewhere = elsewhere(&gateway.meta.namespace, settings);
    if let Some((_, allowed)) = elsewhere {
        let of_labels = allowed.remove_labels(&mut labels).into_iter();
        let of_labels = of_labels.map(|name| format!("spec.infrastructure.labels: {name}"));
        let of_annotations = allowed.remove_annotations(&mut annotations).into_iter();
        let of_annotations = of_annotations.map(|name| format!("spec.infrastructure.annotations: {name}"));
        left_out.splice(0..0, of_labels.chain(of_annotations));
    }
    let listeners = gateway.spec.listeners.iter().filter(|listener| is_http(listener));
    let ports: BTreeSet<u16> = listeners
        .map(|listener| listener.port)
        .filter(|port| ![ADMIN_PORT, READY_PORT].contains(port))
        .collect();
    let addresses = gateway.spec.addresses.iter();
    let addresses = addresses.filter_map(|asked| asked.value.clone().filter(|value| !value.is_empty()));
    Envoys {
        filter,
        // A Service needs a port.
        unchanged: ports.is_empty(),
        left_out: elsewhere.and_then(|(namespace, _)| infrastructure::left_out_message(&left_out, namespace)),
        service: Some(name.clone()),
        deployment: Some(EnvoyDeployment {
            name,
            parameters,
            patches,
            ports,
            addresses: addresses
                .filter(|value| value.parse::<std::net::IpAddr>().is_ok())
                .collect(),
            labels,
            annotations,
        }),
    }
}

pub(super) fn is_http(listener: &GatewayListener) -> bool {
    matches!(listener.protocol.as_str(), "HTTP" | "HTTPS")
}

/// The name of the objects that the controller keeps; `None`: it keeps none.
fn own_name(gateway: &Object<GatewaySpec>, settings: &Settings) -> Option<ObjectName> {
    let managed = settings.managed.as_ref()?;
    let namespace = managed.namespace.as_deref().unwrap_or(&gateway.meta.namespace);
    Some(ObjectName::new(namespace, &envoys_name(&gateway.meta.object_name())))
}

/// The Service in the Gateway's annotation, as `[namespace/]name`.
fn by_annotation(gateway: &Object<GatewaySpec>) -> Option<ObjectName> {
    let text = gateway.meta.annotations.get(SERVICE).filter(|text| !text.is_empty())?;
    let (namespace, name) = text.split_once('/').unwrap_or((&gateway.meta.namespace, text));
    Some(ObjectName::new(namespace, name))
}

impl Envoys {
    /// The Service that leads to them, if known.
    #[must_use]
    pub fn service(&self) -> Option<&ObjectName> {
        self.service.as_ref()
    }
}

impl EnvoyDeployment {
    /// The type of the Service.
    #[must_use]
    pub fn service_type(&self) -> ServiceType {
        self.parameters.service.kind.unwrap_or_default()
    }

    /// How long clients have to go elsewhere when a pod ends or a listener changes.
    #[must_use]
    pub fn drain_time(&self) -> Duration {
        let text = self.parameters.drain_time.as_deref();
        text.and_then(|text| drain_time(text).ok()).unwrap_or(DRAIN_TIME)
    }
}
