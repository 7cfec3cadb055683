//! The addresses of a Gateway: its Envoys' Service's, and those that it asks for.

use std::net::IpAddr;
use std::sync::Arc;

use super::Objects;
use super::envoys::Envoys;
use super::reports::{Address, Condition};
use limpet_api::{AddressRequest, GatewaySpec, Object, ObjectName, ServiceSpec};

pub(super) fn unsupported(gateway: &GatewaySpec) -> Option<Condition> {
    let mut addresses = gateway.addresses.iter().enumerate();
    let (index, _) = addresses.find(|(_, address)| !["IPAddress", "Hostname"].contains(&kind(address)))?;
    let found = gateway.addresses.get(index).map(kind).unwrap_or_default();
    let message = format!("spec.addresses[{index}].type: expected IPAddress or Hostname, found {found}");
    Some(Condition::fails("Accepted", "UnsupportedAddress", message))
}

/// The most that a status may have.
const ADDRESSES: usize = 16;

/// The addresses of a Gateway; `None`: no Service is known, or not yet where its pods are.
pub(super) fn of_gateway(envoys: &Envoys, objects: &Objects) -> Option<Vec<Address>> {
    let name = envoys.service.as_ref()?;
    let Some(service) = objects.services.get(name) else {
        return Some(Vec::new());
    };
    let mut addresses = of_service(&service.spec);
    if is_node_port(&service.spec) {
        addresses.extend(of_nodes(name, objects)?);
    }
    addresses.truncate(ADDRESSES);
    Some(addresses)
}

/// Whether a Service is reached by a port of its nodes, and by nothing else from outside.
#[must_use]
pub fn is_node_port(service: &ServiceSpec) -> bool {
    service.kind.as_deref() == Some("NodePort")
}

/// Addresses of nodes with a ready pod: without one, a node leads nowhere if `externalTrafficPolicy` is `Local`.
fn of_nodes(service: &ObjectName, objects: &Objects) -> Option<Vec<Address>> {
    let nodes = objects.readiness.get(service)?.nodes.iter();
    let known = nodes.filter_map(|node| objects.nodes.get(&ObjectName::new("", node))?.as_ref().ok());
    Some(known.flatten().map(|value| ip(value)).collect())
}

fn ip(value: &str) -> Address {
    Address {
        kind: "IPAddress",
        value: value.to_owned(),
    }
}

fn of_service(service: &ServiceSpec) -> Vec<Address> {
    let host = |value: &String| Address {
        kind: "Hostname",
        value: value.clone(),
    };
    let mut addresses: Vec<Address> = service.external_ips.iter().map(|value| ip(value)).collect();
    match service.kind.as_deref() {
        Some("LoadBalancer") => {
            for ingress in &service.ingress {
                addresses.extend(ingress.ip.as_deref().map(ip));
                addresses.extend(ingress.hostname.as_ref().map(host));
            }
        }
        Some("ExternalName") => addresses.extend(service.external_name.as_ref().map(host)),
        Some("NodePort") => {}
        _ => {
            let all = service.cluster_ips.iter();
            let all = all.chain(service.cluster_ip.iter().filter(|_| service.cluster_ips.is_empty()));
            addresses.extend(all.filter(|value| is_ip(value)).map(|value| ip(value)));
        }
    }
    addresses
}

/// `Programmed: False` if the Gateway has no address, or not one that it asks for. `addresses`: its own, if known.
pub(super) fn missing(
    gateway: &GatewaySpec,
    envoys: &Envoys,
    addresses: Option<&[Address]>,
    objects: &Objects,
) -> Option<Condition> {
    let fails = |reason, message| Some(Condition::fails("Programmed", reason, message));
    match (&envoys.service, addresses) {
        (Some(service), Some([])) => {
            let why = without_node(service, objects);
            return fails(
                "AddressNotAssigned",
                format!("Service {service} has no address yet{why}"),
            );
        }
        // It will be known soon.
        (Some(_), None) => return None,
        _ => {}
    }
    for (index, asked) in gateway.addresses.iter().enumerate() {
        let field = format!("spec.addresses[{index}]");
        let kind = kind(asked);
        let Some(addresses) = addresses else {
            let message = format!(
                "{field}: remove it: another controller runs the Envoys of this Gateway, and no annotation \
                 limpet.dev/service names their Service"
            );
            return fails("AddressNotUsable", message);
        };
        let mut known = addresses.iter().filter(|address| address.kind == kind);
        let all = || {
            let all: Vec<&str> = addresses.iter().map(|address| address.value.as_str()).collect();
            all.join(", ")
        };
        match asked.value.as_deref() {
            None | Some("") if known.next().is_none() => {
                let message = format!("{field}: expected a {kind}, the Service has {}", all());
                return fails("AddressNotAssigned", message);
            }
            None | Some("") => {}
            Some(value) if known.any(|known| is_same(&known.value, value)) => {}
            Some(value) => {
                let message = format!(
                    "{field}.value: expected an address that the Service gets, which has {}, found {value}",
                    all()
                );
                return fails("AddressNotUsable", message);
            }
        }
    }
    None
}

/// Why a Service has no address of a node; empty if it wants none.
fn without_node(service: &ObjectName, objects: &Objects) -> String {
    let is_node_port = |service: &Arc<Object<ServiceSpec>>| is_node_port(&service.spec);
    if !objects.services.get(service).is_some_and(is_node_port) {
        return String::new();
    }
    let readiness = objects.readiness.get(service);
    let is_ready = readiness.is_some_and(|readiness| readiness.any);
    let mut nodes = readiness.into_iter().flat_map(|readiness| &readiness.nodes);
    let unknown = nodes.find_map(|node| {
        let read = objects.nodes.get(&ObjectName::new("", node))?;
        Some(format!(": Node {node}: {}", read.as_ref().err()?))
    });
    unknown.unwrap_or_else(|| {
        let why = if is_ready {
            ": no node of its pods has an IP address"
        } else {
            ": none of its pods is ready"
        };
        why.to_owned()
    })
}

/// `Programmed: False` if none of the Envoys that the controller keeps is ready: their Service leads nowhere.
pub(super) fn unready(envoys: &Envoys, objects: &Objects) -> Option<Condition> {
    envoys.deployment.as_ref()?;
    let service = envoys.service.as_ref()?;
    let is_unready = objects.readiness.get(service).is_some_and(|ready| !ready.any);
    let message = || format!("No pod of Service {service} is ready");
    is_unready.then(|| Condition::fails("Programmed", "Pending", message()))
}

fn kind(address: &AddressRequest) -> &str {
    address.kind.as_deref().unwrap_or("IPAddress")
}

fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn is_same(one: &str, other: &str) -> bool {
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}
