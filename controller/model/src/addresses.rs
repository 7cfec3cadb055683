//! The addresses that a Gateway asks for. Limpet assigns none: those of the controller's configuration are what can be
//! had.

use std::net::IpAddr;

use super::reports::Condition;
use limpet_api::{AddressRequest, GatewaySpec};

/// `Accepted: False` if an address has a type that is not supported.
pub(super) fn unsupported(gateway: &GatewaySpec) -> Option<Condition> {
    let mut addresses = gateway.addresses.iter().enumerate();
    let (index, _) = addresses.find(|(_, address)| !["IPAddress", "Hostname"].contains(&kind(address)))?;
    let found = gateway.addresses.get(index).map(kind).unwrap_or_default();
    let message = format!("spec.addresses[{index}].type: expected IPAddress or Hostname, found {found}");
    Some(Condition::fails("Accepted", "UnsupportedAddress", message))
}

/// `Programmed: False` if an address cannot be had.
pub(super) fn not_usable(gateway: &GatewaySpec, addresses: &[String]) -> Option<Condition> {
    let fails = |reason, message| Some(Condition::fails("Programmed", reason, message));
    for (index, asked) in gateway.addresses.iter().enumerate() {
        let field = format!("spec.addresses[{index}]");
        let kind = kind(asked);
        let of_kind = |known: &&String| (kind == "IPAddress") == known.parse::<IpAddr>().is_ok();
        let mut known = addresses.iter().filter(of_kind);
        match asked.value.as_deref() {
            None | Some("") if known.next().is_none() => {
                let message = format!("{field}: expected a {kind} in the controller's configuration, found none");
                return fails("AddressNotAssigned", message);
            }
            None | Some("") => {}
            Some(value) if known.any(|known| is_same(known, value)) => {}
            Some(value) => {
                let known = if addresses.is_empty() {
                    "which has none".to_owned()
                } else {
                    addresses.join(", ")
                };
                let message = format!(
                    "{field}.value: expected an address of the controller's configuration ({known}), found {value}"
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

/// One address may be written in several ways.
fn is_same(one: &str, other: &str) -> bool {
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one.eq_ignore_ascii_case(other),
    }
}
