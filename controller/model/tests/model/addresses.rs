//! What a Gateway asks for that cannot be had: addresses and parameters.

use super::{CLASS, expect, objects, of_type};
use limpet_api::ObjectName;
use limpet_model::reports::{Condition, ConditionStatus::False};
use limpet_model::{Settings, build};

/// The conditions of a Gateway with these fields, and whether it is served.
fn gateway(fields: &str) -> (Vec<Condition>, bool) {
    let manifests = format!(
        "{CLASS}
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec: {{gatewayClassName: limpet, listeners: [{{name: http, port: 80, protocol: HTTP}}], {fields}}}"
    );
    let settings = Settings {
        addresses: vec![
            "192.0.2.1".to_owned(),
            "2001:db8::1".to_owned(),
            "Shop.Example".to_owned(),
        ],
        ..Settings::default()
    };
    let (graph, mut reports) = build(&objects::read(&manifests), &settings);
    let name = ObjectName::new("shop", "web");
    let report = reports.gateways.remove(&name).expect("a report");
    (report.conditions, graph.gateways.contains_key(&name))
}

#[test]
fn an_address_of_an_unknown_type_is_not_supported() {
    for (kind, found) in [
        ("NamedAddress", "NamedAddress"),
        ("example.com/pool", "example.com/pool"),
    ] {
        let (conditions, is_served) = gateway(&format!("addresses: [{{type: {kind}, value: a}}]"));
        let words = format!("spec.addresses[0].type: expected IPAddress or Hostname, found {found}");
        expect(of_type(&conditions, "Accepted"), False, "UnsupportedAddress", &[&words]);
        assert!(!is_served);
    }
}

#[test]
fn an_address_that_the_controller_does_not_have_is_not_usable() {
    for value in [
        "value: 192.0.2.2",
        "type: Hostname, value: other.example",
        "value: nonsense",
    ] {
        let (conditions, is_served) = gateway(&format!("addresses: [{{value: 192.0.2.1}}, {{{value}}}]"));
        assert!(of_type(&conditions, "Accepted").is_true());
        let words = "spec.addresses[1].value: expected an address of the controller's configuration (192.0.2.1, \
                     2001:db8::1, Shop.Example), found ";
        expect(of_type(&conditions, "Programmed"), False, "AddressNotUsable", &[words]);
        assert!(is_served, "the addresses that are there work");
    }
}

#[test]
fn addresses_of_the_controllers_configuration_are_usable() {
    for addresses in [
        "{value: 192.0.2.1}, {value: '2001:DB8:0::1'}, {type: Hostname, value: shop.example}",
        "{type: IPAddress}, {type: Hostname, value: ''}",
    ] {
        let (conditions, is_served) = gateway(&format!("addresses: [{addresses}]"));
        assert_eq!(conditions.len(), 1, "{conditions:?}");
        assert_eq!(conditions[0].message, "It is valid");
        assert!(conditions[0].is_true() && is_served);
    }
}

#[test]
fn an_address_to_assign_needs_one_of_its_type() {
    let manifests = format!(
        "{CLASS}
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec: {{gatewayClassName: limpet, listeners: [{{name: http, port: 80, protocol: HTTP}}], addresses: [{{type: Hostname}}]}}"
    );
    let (_, reports) = build(&objects::read(&manifests), &Settings::default());
    let conditions = &reports.gateways[&ObjectName::new("shop", "web")].conditions;
    let words = "spec.addresses[0]: expected a Hostname in the controller's configuration, found none";
    expect(of_type(conditions, "Programmed"), False, "AddressNotAssigned", &[words]);
}

#[test]
fn a_gateway_with_parameters_is_not_accepted() {
    let (conditions, is_served) =
        gateway("infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: x}, labels: {a: b}}");
    let words =
        "spec.infrastructure.parametersRef: expected none, because Gateways have no parameters, found ConfigMap x";
    expect(of_type(&conditions, "Accepted"), False, "InvalidParameters", &[words]);
    assert!(!is_served);
}
