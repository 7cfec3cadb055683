//! Parameters of Gateways that are too large together.

use std::sync::Arc;

use serde_json::json;

use crate::parameters_room::MOST_BYTES;
use crate::{Incremental, ManagedEnvoys, Objects, Settings, build};
use limpet_api::ObjectName;

fn add(objects: &mut Objects, namespace: &str, gateways: usize, bytes: usize) {
    let reference = json!({"group": "limpet.dev", "kind": "EnvoyDeployment", "name": "p"});
    for gateway in 0..gateways {
        let name = format!("g{gateway:03}");
        let created = format!("2026-01-01T00:00:00.{gateway:03}Z");
        let object = limpet_api::readable(&json!({
            "metadata": {"namespace": namespace, "name": name, "creationTimestamp": created},
            "spec": {
                "gatewayClassName": "limpet",
                "listeners": [{"name": "l", "port": 80, "protocol": "HTTP"}],
                "infrastructure": {"parametersRef": reference},
            },
        }));
        let name = ObjectName::new(namespace, &name);
        objects.gateways.insert(name, Arc::new(object));
    }
    let deployment = limpet_api::readable(&json!({
        "metadata": {"namespace": namespace, "name": "p"},
        "spec": {"service": {"annotations": {"example.com/note": "x".repeat(bytes)}}},
    }));
    let name = ObjectName::new(namespace, "p");
    objects.envoy_deployments.insert(name, Arc::new(deployment));
}

#[test]
fn parameters_of_one_namespace_were_copied_for_any_number_of_gateways() {
    let mut objects = Objects::default();
    let class = limpet_api::readable(&json!({
        "metadata": {"name": "limpet"},
        "spec": {"controllerName": crate::CONTROLLER_NAME},
    }));
    objects.gateway_classes.insert("limpet".into(), Arc::new(class));
    add(&mut objects, "shop", 1, 60_000);
    add(&mut objects, "busy", 150, 60_000);
    let settings = Settings {
        managed: Some(ManagedEnvoys::default()),
        ..Settings::default()
    };
    let mut incremental = Incremental::default();
    let mut deployed = |objects: &Objects| {
        let (graph, reports) = incremental.build(objects, &settings);
        assert_eq!((graph.clone(), reports.clone()), build(objects, &settings));
        let deployed = graph.envoys.iter().filter(|(_, envoys)| !envoys.unchanged);
        let deployed: Vec<_> = deployed.map(|(name, _)| name.clone()).collect();
        (deployed, graph, reports)
    };
    let (some, graph, reports) = deployed(&objects);
    let share = (MOST_BYTES - 60_000) / 60_000;
    assert!((share - 2..=share + 1).contains(&some.len()), "{}", some.len());
    let (shop, oldest) = (ObjectName::new("shop", "g000"), ObjectName::new("busy", "g000"));
    assert!(some.contains(&shop) && some.contains(&oldest));
    let youngest = ObjectName::new("busy", "g149");
    assert!(graph.envoys[&youngest].deployment.is_none() && graph.envoys[&youngest].service.is_some());
    let accepted = &reports.gateways[&youngest].conditions[0];
    assert!(
        !accepted.is_true() && accepted.reason == "InvalidParameters",
        "{accepted:?}"
    );
    assert!(
        accepted.message.contains("namespace busy take more than"),
        "{accepted:?}"
    );
    add(&mut objects, "busy", 150, 10_000);
    assert_eq!(deployed(&objects).0.len(), 151);
    add(&mut objects, "busy", 150, 60_000);
    assert_eq!(deployed(&objects).0.len(), some.len());
}
