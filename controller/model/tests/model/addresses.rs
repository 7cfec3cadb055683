//! The addresses of Gateways.

use std::sync::Arc;

use super::{CLASS, expect, objects, of_type};
use limpet_api::{Ingress, ObjectName};
use limpet_model::endpoints::Readiness;
use limpet_model::reports::{ConditionStatus::False, GatewayReport};
use limpet_model::{ManagedEnvoys, Objects, Settings, build, envoys_name};

/// The Gateway `shop/web` and its Service with these fields; and whether it is served.
fn gateway(fields: &str, service: Option<(&str, &[&str])>) -> (GatewayReport, bool) {
    changed_gateway(fields, service, |_, _| ())
}

/// The second argument is the name of its Service.
fn changed_gateway(
    fields: &str,
    service: Option<(&str, &[&str])>,
    change: impl FnOnce(&mut Objects, &ObjectName),
) -> (GatewayReport, bool) {
    let name = ObjectName::new("shop", "web");
    let envoys = envoys_name(&name);
    let (spec, ingress) = service.unwrap_or_default();
    let other = if service.is_some() { "" } else { "other-" };
    let manifests = format!(
        "{CLASS}
kind: Service
metadata: {{namespace: limpet-system, name: {other}{envoys}}}
spec: {{{spec}}}
---
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec: {{gatewayClassName: limpet, listeners: [{{name: http, port: 80, protocol: HTTP}}], {fields}}}"
    );
    let mut objects = objects::read(&manifests);
    let name_of_service = ObjectName::new("limpet-system", &envoys);
    change(&mut objects, &name_of_service);
    if let Some(service) = objects.services.get_mut(&name_of_service) {
        let ip = |ip: &&str| Ingress {
            ip: Some((*ip).to_owned()),
            hostname: None,
        };
        Arc::make_mut(service).spec.ingress = ingress.iter().map(ip).collect();
    }
    let settings = Settings {
        managed: Some(ManagedEnvoys {
            namespace: Some("limpet-system".to_owned()),
            ..ManagedEnvoys::default()
        }),
        ..Settings::default()
    };
    let (graph, mut reports) = build(&objects, &settings);
    let report = reports.gateways.remove(&name).expect("a report");
    (Arc::unwrap_or_clone(report), graph.gateways.contains_key(&name))
}

/// A Service of the type `NodePort` with these `externalIPs`, whose pods are ready on these nodes, and what is known of
/// nodes.
fn on_nodes(
    external: &str,
    fields: &str,
    ready: Option<&[&str]>,
    nodes: &[(&str, Result<&[&str], &str>)],
) -> GatewayReport {
    let change = |objects: &mut Objects, service: &ObjectName| {
        let readiness = ready.map(|nodes| Readiness {
            any: !nodes.is_empty(),
            nodes: nodes.iter().map(|node| Arc::from(*node)).collect(),
        });
        objects
            .readiness
            .extend(readiness.map(|readiness| (service.clone(), readiness)));
        for (node, read) in nodes {
            let read = read.map(|addresses| addresses.iter().map(|address| (*address).to_owned()).collect());
            objects
                .nodes
                .insert(ObjectName::new("", node), read.map_err(str::to_owned));
        }
    };
    let service = format!("type: NodePort, clusterIP: 10.0.0.1, externalIPs: [{external}]");
    changed_gateway(fields, Some((&service, &[])), change).0
}

fn values(report: &GatewayReport) -> Vec<&str> {
    let addresses = report.addresses.iter().flatten();
    addresses.map(|address| address.value.as_str()).collect()
}

#[test]
fn an_address_of_an_unknown_type_is_not_supported() {
    for found in ["NamedAddress", "example.com/pool"] {
        let (report, is_served) = gateway(&format!("addresses: [{{type: {found}, value: a}}]"), None);
        let words = format!("spec.addresses[0].type: expected IPAddress or Hostname, found {found}");
        let accepted = of_type(&report.conditions, "Accepted");
        expect(accepted, False, "UnsupportedAddress", &[&words]);
        assert!(!is_served);
    }
}

#[test]
fn a_gateway_has_the_addresses_of_its_service() {
    let balancer = "type: LoadBalancer, clusterIP: 10.0.0.1";
    let both = "type: ClusterIP, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, 'fd00::1']";
    for (service, ingress, expected) in [
        (
            balancer,
            &["192.0.2.1", "192.0.2.2"][..],
            &["192.0.2.1", "192.0.2.2"][..],
        ),
        (both, &[], &["10.0.0.1", "fd00::1"]),
        ("clusterIP: 10.0.0.1", &[], &["10.0.0.1"]),
        (
            "type: ClusterIP, clusterIP: 10.0.0.1, externalIPs: [192.0.2.9]",
            &[],
            &["192.0.2.9", "10.0.0.1"],
        ),
        ("type: ExternalName, externalName: shop.example", &[], &["shop.example"]),
    ] {
        let (report, is_served) = gateway("", Some((service, ingress)));
        assert_eq!(values(&report), expected, "{service}");
        assert_eq!(report.conditions.len(), 1, "{:?}", report.conditions);
        assert!(is_served);
    }
}

#[test]
fn without_an_address_a_gateway_is_not_programmed() {
    for service in [
        None,
        Some(("type: LoadBalancer", &[][..])),
        Some(("clusterIP: None", &[])),
    ] {
        let (report, is_served) = gateway("", service);
        let words = "has no address yet";
        expect(
            of_type(&report.conditions, "Programmed"),
            False,
            "AddressNotAssigned",
            &[words],
        );
        assert_eq!(report.addresses, Some(Vec::new()));
        assert!(is_served);
    }
}

#[test]
fn an_address_that_the_service_does_not_get_is_not_usable() {
    let service = Some(("type: LoadBalancer", &["192.0.2.1"][..]));
    for value in [
        "value: 192.0.2.2",
        "type: Hostname, value: other.example",
        "value: nonsense",
    ] {
        let (report, is_served) = gateway(&format!("addresses: [{{value: 192.0.2.1}}, {{{value}}}]"), service);
        assert!(of_type(&report.conditions, "Accepted").is_true());
        let words = "spec.addresses[1].value: expected an address that the Service gets, which has 192.0.2.1, found ";
        expect(
            of_type(&report.conditions, "Programmed"),
            False,
            "AddressNotUsable",
            &[words],
        );
        assert!(is_served, "the addresses that are there work");
    }
    let (report, _) = gateway("addresses: [{type: Hostname}]", service);
    let words = "spec.addresses[0]: expected a Hostname, the Service has 192.0.2.1";
    expect(
        of_type(&report.conditions, "Programmed"),
        False,
        "AddressNotAssigned",
        &[words],
    );
}

#[test]
fn an_address_may_be_written_in_several_ways() {
    let service = Some(("type: LoadBalancer", &["2001:db8::1"][..]));
    for asked in ["{value: '2001:DB8:0::1'}", "{type: IPAddress}"] {
        let (report, is_served) = gateway(&format!("addresses: [{asked}]"), service);
        assert_eq!(report.conditions.len(), 1, "{:?}", report.conditions);
        assert!(is_served);
    }
}

#[test]
fn ports_of_nodes_have_the_addresses_of_nodes_with_envoys() {
    let nodes = [
        ("a", Ok(&["192.0.2.1"][..])),
        ("b", Ok(&["192.0.2.2", "2001:db8::2"])),
        ("c", Ok(&["192.0.2.3"])),
    ];
    let report = on_nodes("192.0.2.9", "", Some(&["a", "b"]), &nodes);
    assert_eq!(
        values(&report),
        ["192.0.2.9", "192.0.2.1", "192.0.2.2", "2001:db8::2"],
        "externalIPs, and no node without Envoys"
    );
    let asked = on_nodes("", "addresses: [{value: 192.0.2.2}]", Some(&["a", "b"]), &nodes);
    assert_eq!(asked.conditions.len(), 1, "{:?}", asked.conditions);
    let asked = on_nodes("", "addresses: [{value: 192.0.2.3}]", Some(&["a"]), &nodes);
    let words = ["which has 192.0.2.1, found 192.0.2.3"];
    expect(
        of_type(&asked.conditions, "Programmed"),
        False,
        "AddressNotUsable",
        &words,
    );
}

#[test]
fn a_gateway_has_at_most_the_addresses_that_a_status_may() {
    let names: Vec<String> = (10..40).map(|node| format!("192.0.2.{node}")).collect();
    let addresses: Vec<[&str; 1]> = names.iter().map(|name| [name.as_str()]).collect();
    let nodes: Vec<_> = addresses.iter().map(|all| (all[0], Ok(&all[..]))).collect();
    let ready: Vec<&str> = names.iter().map(String::as_str).collect();
    let report = on_nodes("", "", Some(&ready), &nodes);
    assert_eq!(values(&report).len(), 16);
}

#[test]
fn without_the_address_of_a_node_it_is_said_why() {
    for (ready, nodes, words) in [
        (&[][..], &[][..], "has no address yet: none of its pods is ready"),
        (&["a"], &[("a", Err("no right"))], "Node a: no right"),
        (&["a"], &[], "no node of its pods has an IP address"),
    ] {
        let report = on_nodes("", "", Some(ready), nodes);
        assert_eq!(report.addresses, Some(Vec::new()));
        let programmed = of_type(&report.conditions, "Programmed");
        expect(programmed, False, "AddressNotAssigned", &[words]);
    }
}

#[test]
fn addresses_of_nodes_stay_until_it_is_known_where_pods_are() {
    let report = on_nodes("", "addresses: [{value: 192.0.2.1}]", None, &[]);
    assert_eq!(report.addresses, None);
    assert_eq!(report.conditions.len(), 1, "{:?}", report.conditions);
    assert_eq!(report.unready, None);
}

#[test]
fn a_gateway_without_a_ready_envoy_is_not_programmed() {
    let balancer = Some(("type: LoadBalancer", &["192.0.2.1"][..]));
    let unready = |any: bool| {
        let change = |objects: &mut Objects, service: &ObjectName| {
            let readiness = Readiness {
                any,
                ..Readiness::default()
            };
            objects.readiness.insert(service.clone(), readiness);
        };
        changed_gateway("", balancer, change).0.unready
    };
    assert_eq!(unready(true), None);
    let condition = unready(false).expect("a condition");
    expect(
        &condition,
        False,
        "Pending",
        &["No pod of Service limpet-system/", " is ready"],
    );
    assert_eq!(gateway("", balancer).0.unready, None);
}
