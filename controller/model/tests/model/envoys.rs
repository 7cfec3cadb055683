//! The Envoys of Gateways, and how they are run.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{CLASS, expect, objects, of_type};
use limpet_api::{Autoscaling, EnvoyDeploymentSpec, ObjectName};
use limpet_model::reports::ConditionStatus::False;
use limpet_model::{ADMIN_PORT, AllowedMetadata, Envoys, ManagedEnvoys, READY_PORT, Settings, build, envoys_name};
use serde_json::json;

const REFERENCE: &str = "infrastructure: {parametersRef: {group: limpet.dev, kind: EnvoyDeployment, name: own}}";

fn managed() -> Settings {
    Settings {
        managed: Some(ManagedEnvoys {
            namespace: Some("limpet-system".to_owned()),
            defaults: EnvoyDeploymentSpec {
                replicas: Some(5),
                ..EnvoyDeploymentSpec::default()
            },
            infrastructure: AllowedMetadata::default(),
        }),
        ..Settings::default()
    }
}

fn metrics_by_default(port: u16) -> Settings {
    let mut settings = managed();
    settings.managed.as_mut().expect("managed").defaults.metrics_port = Some(port);
    settings
}

fn in_its_namespace() -> Settings {
    let mut settings = managed();
    settings.managed.as_mut().expect("managed").namespace = None;
    settings
}

struct Built {
    envoys: Envoys,
    conditions: Vec<limpet_model::reports::Condition>,
    is_served: bool,
}

/// `shop/web`, with the parameters `shop/own`, and `system/class` of its class.
fn with(class: &str, own: &str, settings: &Settings) -> Built {
    gateway(
        &format!(
            "
kind: GatewayClass
metadata: {{name: limpet}}
spec:
  controllerName: limpet.dev/controller
  parametersRef: {{group: limpet.dev, kind: EnvoyDeployment, name: class, namespace: system}}
---
kind: EnvoyDeployment
metadata: {{namespace: system, name: class}}
spec: {{{class}}}
---
kind: EnvoyDeployment
metadata: {{namespace: shop, name: own}}
spec: {{{own}}}
---"
        ),
        REFERENCE,
        settings,
    )
}

fn gateway(others: &str, fields: &str, settings: &Settings) -> Built {
    let manifests = format!(
        "{others}
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec:
  gatewayClassName: limpet
  listeners: [{{name: http, port: 80, protocol: HTTP}}, {{name: tls, port: 443, protocol: HTTPS}}]
  {fields}"
    );
    let (mut graph, mut reports) = build(&objects::read_any(&manifests), settings);
    let name = ObjectName::new("shop", "web");
    Built {
        envoys: graph.envoys.remove(&name).map(Arc::unwrap_or_clone).unwrap_or_default(),
        conditions: reports.gateways.remove(&name).expect("a report").conditions.clone(),
        is_served: graph.gateways.contains_key(&name),
    }
}

fn replicas(built: Built) -> (Option<u32>, Option<Autoscaling>) {
    let parameters = built.envoys.deployment.expect("a Deployment").parameters;
    (parameters.replicas, parameters.autoscaling)
}

#[test]
fn the_controller_keeps_envoys_only_if_it_should() {
    let without = gateway(CLASS, "", &Settings::default());
    assert_eq!(without.envoys, Envoys::default());
    for (settings, namespace) in [(managed(), "limpet-system"), (in_its_namespace(), "shop")] {
        let fields = "infrastructure: {labels: {team: shop}, annotations: {cost: '1'}}";
        let built = gateway(CLASS, fields, &settings);
        let deployment = built.envoys.deployment.expect("a Deployment");
        let expected = envoys_name(&ObjectName::new("shop", "web"));
        assert_eq!(deployment.name, ObjectName::new(namespace, &expected));
        assert_eq!(deployment.ports, [80, 443].into());
        assert_eq!(deployment.parameters.replicas, Some(5));
        if namespace == "shop" {
            assert_eq!(
                (&*deployment.labels["team"], &*deployment.annotations["cost"]),
                ("shop", "1")
            );
        }
    }
    let by_hand = with("managed: true", "managed: false", &managed());
    assert_eq!(by_hand.envoys.deployment, None);
}

#[test]
fn what_the_gateway_says_is_over_what_its_class_says() {
    assert_eq!(replicas(with("replicas: 3", "replicas: 1", &managed())).0, Some(1));
    assert_eq!(replicas(with("replicas: 3", "", &managed())).0, Some(3));
    assert_eq!(replicas(with("", "", &managed())).0, Some(5));
    let (replicas_of_class, autoscaling) = replicas(with("replicas: 3", "autoscaling: {maxReplicas: 9}", &managed()));
    assert_eq!(
        (replicas_of_class, autoscaling.map(|of| of.max_replicas)),
        (None, Some(9))
    );
    let (of_gateway, autoscaling) = replicas(with("autoscaling: {maxReplicas: 9}", "replicas: 2", &managed()));
    assert_eq!((of_gateway, autoscaling), (Some(2), None));

    let class =
        "envoy: {image: a, resources: {limits: {memory: 1Gi}}}, service: {type: NodePort, annotations: {a: '1'}}";
    let own = "envoy: {image: b}, service: {annotations: {b: '2'}}";
    let merged = with(class, own, &in_its_namespace())
        .envoys
        .deployment
        .expect("a Deployment");
    let expected = json!({
        "replicas": 5,
        "envoy": {"image": "b", "resources": {"limits": {"memory": "1Gi"}}},
        "service": {"type": "NodePort", "annotations": {"a": "1", "b": "2"}},
    });
    assert_eq!(json!(merged.parameters), expected);
}

#[test]
fn the_drain_time_is_that_of_the_nearest_that_says_one() {
    let seconds = |class: &str, own: &str, settings: &Settings| {
        let deployment = with(class, own, settings).envoys.deployment.expect("a Deployment");
        deployment.drain_time().as_secs()
    };
    let mut settings = managed();
    assert_eq!(seconds("", "", &settings), 30);
    settings.managed.as_mut().expect("managed").defaults.drain_time = Some("40s".to_owned());
    assert_eq!(seconds("", "", &settings), 40);
    assert_eq!(seconds("drainTime: 5m", "", &settings), 300);
    assert_eq!(seconds("drainTime: 5m", "drainTime: 1m30s", &settings), 90);
}

#[test]
fn patches_are_applied_one_after_the_other() {
    let patch = |name: &str| format!("patch: {{service: {{metadata: {{labels: {{a: {name}}}}}}}}}");
    let built = with(&patch("class"), &patch("own"), &in_its_namespace());
    let patches = built.envoys.deployment.expect("a Deployment").patches;
    assert_eq!(patches.len(), 2);
    assert_eq!(
        json!(patches[1]),
        json!({"service": {"metadata": {"labels": {"a": "own"}}}})
    );
}

#[test]
fn invalid_parameters_are_named_and_change_nothing() {
    let elsewhere = "spec.infrastructure.parametersRef: expected EnvoyDeployment shop/own, which does not exist";
    let foreign = "found ConfigMap of group \"\"";
    for (built, words) in [
        (gateway(CLASS, REFERENCE, &managed()), elsewhere),
        (
            gateway(
                CLASS,
                "infrastructure: {parametersRef: {group: '', kind: ConfigMap, name: own}}",
                &managed(),
            ),
            foreign,
        ),
        (
            with("replicas: -1", "", &managed()),
            "EnvoyDeployment system/class: spec.replicas: ",
        ),
        (
            with("", "filter: Lua", &managed()),
            "EnvoyDeployment shop/own: spec.filter: ",
        ),
        (
            with("", "replica: 1", &managed()),
            "EnvoyDeployment shop/own: spec.replica: there is no such field",
        ),
        (
            with("", "replicas: 1, autoscaling: {maxReplicas: 2}", &managed()),
            "EnvoyDeployment shop/own: spec.replicas: remove it",
        ),
        (
            with("", "autoscaling: {maxReplicas: 0}", &managed()),
            "spec.autoscaling.maxReplicas: expected at least 1",
        ),
        (
            with("", "autoscaling: {maxReplicas: 1, minReplicas: 0}", &managed()),
            "minReplicas: expected at least 1",
        ),
        (
            with("drainTime: 30", "", &managed()),
            "EnvoyDeployment system/class: spec.drainTime: ",
        ),
        (
            with("drainTime: soon", "", &managed()),
            "spec.drainTime: expected a duration",
        ),
        (
            with("", "drainTime: 0s", &managed()),
            "spec.drainTime: expected whole seconds from 1s to 1h, found 0s",
        ),
        (
            with("", "drainTime: 1h1s", &managed()),
            "spec.drainTime: expected whole seconds from 1s to 1h, found 1h1s",
        ),
        (
            with("", "drainTime: 1500ms", &managed()),
            "spec.drainTime: expected whole seconds from 1s to 1h, found 1500ms",
        ),
        (
            with("", "serviceRef: {name: a}", &managed()),
            "spec.serviceRef: expected it only with managed: false",
        ),
        (
            with("", "managed: true", &Settings::default()),
            "spec.managed: expected false",
        ),
        (
            with("", "patch: {deployment: {kind: Pod}}", &in_its_namespace()),
            "spec.patch.deployment.kind: expected only metadata and spec",
        ),
        (
            with("", "patch: {service: {metadata: {name: a}}}", &in_its_namespace()),
            "spec.patch.service.metadata.name: remove it",
        ),
        (
            with(
                "",
                "patch: {podDisruptionBudget: {spec: {selector: {}}}}",
                &in_its_namespace(),
            ),
            "spec.patch.podDisruptionBudget.spec.selector: remove it",
        ),
    ] {
        expect(
            of_type(&built.conditions, "Accepted"),
            False,
            "InvalidParameters",
            &[words],
        );
        assert!(
            built.is_served && built.envoys.unchanged && built.envoys.deployment.is_none(),
            "{words}"
        );
    }
}

#[test]
fn the_port_of_metrics_is_of_no_listener_and_not_envoys_own() {
    for (class, own, settings, words) in [
        (
            "",
            "metricsPort: 0",
            managed(),
            "EnvoyDeployment shop/own: spec.metricsPort: expected a port from 1 to 65535",
        ),
        (
            "metricsPort: 19000",
            "",
            managed(),
            "EnvoyDeployment system/class: spec.metricsPort: expected a port from 1 to 65535 that is not Envoy's own",
        ),
        ("", "metricsPort: 70000", managed(), "spec.metricsPort: "),
        (
            "metricsPort: 80",
            "replicas: 1",
            managed(),
            "EnvoyDeployment system/class: spec.metricsPort: expected a port that no listener of the Gateway has, \
             found 80, as spec.listeners[0]",
        ),
        (
            "metricsPort: 9102",
            "metricsPort: 443",
            managed(),
            "EnvoyDeployment shop/own: spec.metricsPort: expected a port that no listener of the Gateway has, found \
             443, as spec.listeners[1]",
        ),
        (
            "",
            "",
            metrics_by_default(80),
            "the controller's configuration: envoy.managed.defaults.metricsPort: expected a port that no listener",
        ),
    ] {
        let built = with(class, own, &settings);
        let accepted = of_type(&built.conditions, "Accepted");
        expect(accepted, False, "InvalidParameters", &[words]);
        assert!(built.is_served && built.envoys.unchanged, "{words}");
    }
    let port = |built: Built| built.envoys.deployment.expect("a Deployment").parameters.metrics_port;
    assert_eq!(
        port(with("metricsPort: 80", "metricsPort: 9102", &managed())),
        Some(9102)
    );
    assert_eq!(port(with("", "", &metrics_by_default(9102))), Some(9102));
    assert_eq!(port(with("", "", &managed())), None);
    let by_hand = with("metricsPort: 80", "managed: false", &managed());
    assert!(of_type(&by_hand.conditions, "Accepted").is_true());
}

#[test]
fn a_part_of_the_parameters_that_is_too_large_is_refused() {
    let long = format!("pod: {{labels: {{a: {}}}}}", "x".repeat(70_000));
    let patch = |name: &str, field: &str, items: usize| {
        format!("patch: {{{name}: {{spec: {{{field}: {:?}}}}}}}", vec![1; items])
    };
    let (containers, ports) = (patch("deployment", "a", 40_000), patch("service", "ports", 1001));
    for (built, field, bound) in [
        (
            with("", &long, &in_its_namespace()),
            "shop/own: spec.pod",
            "65536 bytes of JSON",
        ),
        (
            with(&containers, "", &managed()),
            "system/class: spec.patch.deployment",
            "1000 items in all its lists",
        ),
        (
            with("", &ports, &in_its_namespace()),
            "shop/own: spec.patch.service",
            "1000 items in all its lists",
        ),
    ] {
        let words = format!("EnvoyDeployment {field}: expected at most {bound}");
        let accepted = of_type(&built.conditions, "Accepted");
        expect(accepted, False, "InvalidParameters", &[&words, "found more: leave out"]);
        assert!(built.is_served && built.envoys.unchanged, "{words}");
    }
}

#[test]
fn a_gateway_runs_no_programs_in_the_controllers_namespace() {
    for (own, field) in [
        ("envoy: {image: a}", "spec.envoy.image"),
        ("limpet: {image: a}", "spec.limpet.image"),
        ("pod: {imagePullSecrets: [{name: a}]}", "spec.pod"),
        // Others run programs in such pods, by `sidecar.istio.io/proxyImage` for example.
        ("pod: {annotations: {a: b}}", "spec.pod"),
        // Services and policies of that namespace select them.
        ("pod: {labels: {a: b}}", "spec.pod"),
        // Owners of nodes read the memory of pods.
        ("pod: {nodeSelector: {a: b}}", "spec.pod"),
        ("pod: {tolerations: [{operator: Exists}]}", "spec.pod"),
        ("pod: {affinity: {nodeAffinity: {}}}", "spec.pod"),
        ("pod: {priorityClassName: system-cluster-critical}", "spec.pod"),
        ("patch: {deployment: {spec: {}}}", "spec.patch"),
    ] {
        let words =
            format!("EnvoyDeployment shop/own: {field}: expected it only in the parameters of the GatewayClass");
        let built = with("", own, &managed());
        expect(
            of_type(&built.conditions, "Accepted"),
            False,
            "InvalidParameters",
            &[&words],
        );
        assert!(built.envoys.unchanged);
        for good in [with(own, "", &managed()), with("", own, &in_its_namespace())] {
            assert!(of_type(&good.conditions, "Accepted").is_true(), "{field}");
        }
    }
}

#[test]
fn in_another_namespace_a_gateway_gets_what_is_listed_alone() {
    const ROLE: &str = "eks.amazonaws.com/role-arn";
    const HOST: &str = "external-dns.alpha.kubernetes.io/hostname";
    const BALANCER: &str = "networking.gke.io/load-balancer-type";
    let asked = format!("infrastructure: {{labels: {{team: shop}}, annotations: {{{ROLE}: a, {BALANCER}: Internal}}, ");
    let infrastructure = REFERENCE.replace("infrastructure: {", &asked);
    let annotations = format!("service: {{annotations: {{{HOST}: shop.example, {BALANCER}: External, {ROLE}: b}}}}");
    let own = format!(
        "{CLASS}\nkind: EnvoyDeployment\nmetadata: {{namespace: shop, name: own}}\nspec: {{{annotations}}}\n---"
    );
    let got = |settings: &Settings| {
        let built = gateway(&own, &infrastructure, settings);
        let deployment = built.envoys.deployment.expect("a Deployment");
        let accepted = of_type(&built.conditions, "Accepted");
        assert!(accepted.is_true(), "{accepted:?}");
        let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<Vec<_>>();
        let of_service = names(&deployment.parameters.service.annotations);
        (
            names(&deployment.labels),
            names(&deployment.annotations),
            of_service,
            accepted.message.clone(),
        )
    };
    let (labels, annotations, of_service, message) = got(&managed());
    assert_eq!(
        (labels, annotations, of_service),
        (vec![], vec![BALANCER.to_owned()], vec![BALANCER.to_owned()])
    );
    assert_eq!(
        message,
        format!(
            "Listeners that do not serve: tls. On no object in namespace limpet-system, because \
             envoy.managed.infrastructure of the controller's configuration does not list the name: spec.infrastructure.labels: team, \
             spec.infrastructure.annotations: {ROLE}, EnvoyDeployment shop/own: spec.service.annotations: {ROLE}, \
             EnvoyDeployment shop/own: spec.service.annotations: {HOST}"
        )
    );

    let mut listed = managed();
    listed.managed.as_mut().expect("managed").infrastructure = AllowedMetadata {
        pod_labels: vec!["team".to_owned()],
        service_account_annotations: vec![ROLE.to_owned()],
        service_annotations: vec![HOST.to_owned()],
        ..AllowedMetadata::default()
    };
    let (labels, annotations, of_service, message) = got(&listed);
    assert_eq!((labels, annotations), (vec!["team".to_owned()], vec![ROLE.to_owned()]));
    assert_eq!(of_service, [HOST]);
    assert!(
        message.contains(&format!("annotations: {BALANCER}")) && !message.contains("team"),
        "{message}"
    );

    let (labels, annotations, of_service, message) = got(&in_its_namespace());
    assert_eq!((labels.len(), annotations.len(), of_service.len()), (1, 2, 3));
    assert_eq!(message, "Listeners that do not serve: tls");
}

#[test]
fn of_many_names_that_are_left_out_some_are_told() {
    let names: Vec<String> = (0..100).map(|index| format!("a{index:03}: b")).collect();
    let built = with(
        "",
        &format!("service: {{annotations: {{{}}}}}", names.join(", ")),
        &managed(),
    );
    let message = &of_type(&built.conditions, "Accepted").message;
    assert!(
        message.ends_with("spec.service.annotations: a015 and 84 more"),
        "{message}"
    );
}

#[test]
fn a_gateway_without_a_port_keeps_what_it_has() {
    for port in [ADMIN_PORT, READY_PORT] {
        let manifests = format!(
            "{CLASS}
kind: Gateway
metadata: {{namespace: shop, name: web}}
spec: {{gatewayClassName: limpet, listeners: [{{name: own, port: {port}, protocol: HTTP}}]}}"
        );
        let (graph, _) = build(&objects::read(&manifests), &managed());
        assert!(
            graph.envoys[&ObjectName::new("shop", "web")].unchanged,
            "a Service needs a port"
        );
    }
}
