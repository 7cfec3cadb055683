//! The addresses of a Gateway: those that its Envoys' Service has, and those that it asks for.

use std::net::IpAddr;

use super::Objects;
use super::envoys::Envoys;
use super::reports::{Address, Condition};
use limpet_api::{AddressRequest, GatewaySpec, ServiceSpec};

/// `Accepted: False` if an address has a type that is not supported.
pub(super) fn unsupported(gateway: &GatewaySpec) -> Option<Condition> {
    let mut addresses = gateway.addresses.iter().enumerate();
    let (index, _) = addresses.find(|(_, address)| !["IPAddress", "Hostname"].contains(&kind(address)))?;
    let found = gateway.addresses.get(index).map(kind).unwrap_or_default();
    let message = format!("spec.addresses[{index}].type: expected IPAddress or Hostname, found {found}");
    Some(Condition::fails("Accepted", "UnsupportedAddress", message))
}

/// Where a Gateway can be reached; `None`: no Service is known.
pub(super) fn of_gateway(envoys: &Envoys, objects: &Objects) -> Option<Vec<Address>> {
    let service = objects.services.get(envoys.service.as_ref()?);
    Some(service.map(|service| of_service(&service.spec)).unwrap_or_default())
}

/// What a Service has, by its type.
fn of_service(service: &ServiceSpec) -> Vec<Address> {
    let ip = |value: &String| Address {
        kind: "IPAddress",
        value: value.clone(),
    };
    let host = |value: &String| Address {
        kind: "Hostname",
        value: value.clone(),
    };
    let mut addresses: Vec<Address> = service.external_ips.iter().map(ip).collect();
    match service.kind.as_deref() {
        Some("LoadBalancer") => {
            for ingress in &service.ingress {
                addresses.extend(ingress.ip.as_ref().map(ip));
                addresses.extend(ingress.hostname.as_ref().map(host));
            }
        }
        Some("ExternalName") => addresses.extend(service.external_name.as_ref().map(host)),
        // The addresses of nodes are not read.
        _ => {
            let all = service.cluster_ips.iter();
            let all = all.chain(service.cluster_ip.iter().filter(|_| service.cluster_ips.is_empty()));
            addresses.extend(all.filter(|value| is_ip(value)).map(ip));
        }
    }
    addresses
}

/// `Programmed: False` if the Gateway has no address, or not one that it asks for. `addresses` are those that it has,
/// if that is known.
pub(super) fn missing(gateway: &GatewaySpec, envoys: &Envoys, addresses: Option<&[Address]>) -> Option<Condition> {
    let fails = |reason, message| Some(Condition::fails("Programmed", reason, message));
    let service = envoys.service.as_ref();
    if let (Some(service), Some([])) = (service, addresses) {
        return fails("AddressNotAssigned", format!("Service {service} has no address yet"));
    }
    for (index, asked) in gateway.addresses.iter().enumerate() {
        let field = format!("spec.addresses[{index}]");
        let kind = kind(asked);
        let Some(addresses) = addresses else {
            let message = format!(
                "{field}: expected none, because somebody else runs the Envoys of this Gateway, and no annotation \
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

fn kind(address: &AddressRequest) -> &str {
    address.kind.as_deref().unwrap_or("IPAddress")
}

fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// One address may be written in several ways.
fn is_same(one: &str, other: &str) -> bool {
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}
