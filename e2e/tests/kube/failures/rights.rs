//! The controller reports missing verbs of `controller/deploy/rbac.yaml`.

use anyhow::{Context, Result};
use hyper::Method;
use limpet_api::ObjectName;
use limpet_e2e::kube::{Cluster, Controller, Namespace, Release};
use limpet_e2e::poll;
use limpet_model::selector_service;
use serde_json::{Value, json};

use super::objects;
use crate::kept::until_event;
use crate::site::site_objects;

/// The verbs of the role by resource. Those for writing statuses come first: later, nothing is left to write. Objects
/// without statuses need only `patch`.
const NEEDED: &[(&str, &[&str])] = &[
    (
        "get",
        &[
            "backendlbpolicies",
            "backendtlspolicies",
            "gatewayclasses",
            "gateways",
            "grpcroutes",
            "httproutes",
        ],
    ),
    (
        "update",
        &[
            "backendlbpolicies/status",
            "backendtlspolicies/status",
            "gatewayclasses/status",
            "gateways/status",
            "grpcroutes/status",
            "httproutes/status",
        ],
    ),
    (
        "patch",
        &[
            "backendlbpolicies/status",
            "backendtlspolicies/status",
            "grpcroutes/status",
            "httproutes/status",
        ],
    ),
    (
        "list",
        &[
            "customresourcedefinitions",
            "namespaces",
            "services",
            "pods",
            "endpointslices",
            "referencegrants",
            "backendlbpolicies",
            "backendtlspolicies",
            "gatewayclasses",
            "gateways",
            "grpcroutes",
            "httproutes",
        ],
    ),
    (
        "watch",
        &[
            "customresourcedefinitions",
            "namespaces",
            "services",
            "pods",
            "endpointslices",
            "referencegrants",
            "backendlbpolicies",
            "backendtlspolicies",
            "gatewayclasses",
            "gateways",
            "grpcroutes",
            "httproutes",
        ],
    ),
    ("create", &["events"]),
];

/// Takes a verb for these resources from a cluster role, or from the namespace's `Role`, which has no name behind its
/// kind. Waits until the API server refuses it: before, the controller could still do what it does only once.
pub(crate) async fn without(
    namespace: &Namespace,
    kind: &str,
    rules: &Value,
    verb: &str,
    resources: &[&str],
) -> Result<()> {
    let (mut rest, mut taken) = (Vec::new(), Vec::new());
    for rule in rules.as_array().context("no rules")? {
        let named = |value: &Value| resources.iter().any(|resource| value == resource);
        let all = rule["resources"].as_array().context("no resources")?;
        let (less, same): (Vec<_>, Vec<_>) = all.iter().cloned().partition(named);
        for (resources, is_less) in [(less, true), (same, false)] {
            let mut rule = rule.clone();
            rule["resources"] = resources.clone().into();
            if is_less {
                taken.push(rule.clone());
                let verbs = rule["verbs"].as_array_mut().context("no verbs")?;
                verbs.retain(|granted| granted != verb);
            }
            if !resources.is_empty() && rule["verbs"] != json!([]) {
                rest.push(rule);
            }
        }
    }
    let change = json!({"rules": rest});
    let changed = match kind.split_once(' ') {
        Some((kind, name)) => namespace.merge(kind, &namespace.cluster_role(name), &change).await,
        None => namespace.merge(kind, "limpet-controller", &change).await,
    };
    changed?;
    for rule in taken {
        for resource in rule["resources"].as_array().into_iter().flatten() {
            until_taken(
                namespace,
                &rule,
                verb,
                resource.as_str().context("a resource without name")?,
            )
            .await?;
        }
    }
    Ok(())
}

/// Takes the right to list the pods of replicas, from the role of its own namespace.
pub(crate) async fn without_own_pods(namespace: &Namespace) -> Result<()> {
    let rules = namespace.get("Role", "limpet-controller").await?["rules"].take();
    let mut rules: Vec<Value> = rules.as_array().cloned().unwrap_or_default();
    rules.retain(|rule| rule["resources"] != json!(["pods"]));
    let change = json!({"rules": rules});
    namespace.merge("Role", "limpet-controller", &change).await.map(drop)
}

/// Waits until the API server refuses a verb, some time after it has stored the changed role.
async fn until_taken(namespace: &Namespace, rule: &Value, verb: &str, resource: &str) -> Result<()> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": controller_name(namespace),
            "resourceAttributes": {
                "namespace": namespace.name(),
                "verb": verb,
                "group": rule["apiGroups"][0],
                "resource": resource,
                "subresource": subresource,
                "name": rule["resourceNames"][0],
            },
        },
    });
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    poll::until(&format!("{verb} of {resource} to be refused"), async || {
        let answer = namespace
            .call(Method::POST, path, "application/json", Some(&review))
            .await
            .ok()?;
        (answer["status"]["allowed"] == false).then_some(())
    })
    .await
}

/// An `XBackend` of a route, for which the controller creates a Service.
const BACKEND: &str = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {name: web}
spec:
  type: EndpointSelector
  endpointSelector: {matchLabels: {app: web}}
  port: {number: 8000}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: backend}
spec:
  parentRefs: [{name: web}]
  hostnames: [backend.example]
  rules: [{backendRefs: [{group: gateway.networking.x-k8s.io, kind: XBackend, name: web}]}]
";

/// A controller with a route to [`BACKEND`], which does not run yet.
async fn with_backend(cluster: &Cluster, prefix: &str) -> Result<(Namespace, Controller, String)> {
    let namespace = cluster.namespace(prefix).await?;
    namespace.gateway_class().await?;
    namespace.apply(&site_objects(&namespace)).await?;
    namespace.apply(BACKEND).await?;
    let controller = Controller::prepare(cluster.server(), &namespace, |_| ()).await?;
    let service = selector_service(&ObjectName::new(namespace.name(), "web")).name;
    Ok((namespace, controller, service.to_string()))
}

fn programmed(backend: &Value) -> Option<&Value> {
    let conditions = backend["status"]["ancestors"][0]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Programmed")
}

async fn until_refused(namespace: &Namespace, words: &str) -> Result<()> {
    let role = format!("ClusterRole {} ", namespace.cluster_role("limpet-xbackends"));
    let refused = |backend: &Value| {
        let message = programmed(backend).filter(|condition| condition["reason"] == "ServiceRefused");
        let message = message.and_then(|condition| condition["message"].as_str());
        message.is_some_and(|message| message.contains(words) && message.contains(&role))
    };
    namespace
        .until("the missing right", "XBackend", "web", refused)
        .await
        .map(drop)
}

#[tokio::test]
async fn an_xbackend_says_which_role_its_service_needs() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let (namespace, mut controller, service) = with_backend(cluster, "no-services").await?;
    controller.launch()?;
    controller.until_ready().await?;
    let words = "cannot get resource \"services\"";
    until_refused(&namespace, words).await?;
    until_event(&namespace, "XBackend", "web", "ServiceRefused", words).await?;
    // It is tried repeatedly, and said once: by the reconciler and by the Event.
    let tries = || {
        let requests = cluster.server().requests_of(&controller_name(&namespace))?;
        let of_service = requests.iter().filter(|request| request.uri.contains(&service));
        anyhow::Ok(of_service.count())
    };
    poll::until("three tries", async || tries().ok().filter(|tries| *tries > 2)).await?;
    let log = controller.log()?;
    assert_eq!(
        log.matches("the Service of an XBackend may not be written").count(),
        1,
        "{log}"
    );
    assert_eq!(log.matches("Its Service is missing").count(), 1, "{log}");

    namespace.bind("limpet-xbackends").await?;
    namespace.until("the Service", "v1/Service", &service, |_| true).await?;
    let healed = |backend: &Value| programmed(backend).is_some_and(|condition| condition["reason"] != "ServiceRefused");
    namespace
        .until("no complaint", "XBackend", "web", healed)
        .await
        .map(drop)
}

fn controller_name(namespace: &Namespace) -> String {
    format!("system:serviceaccount:{}:limpet-controller", namespace.name())
}

#[tokio::test]
async fn each_missing_verb_for_services_is_reported() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let (namespace, mut controller, service) = with_backend(cluster, "rights").await?;
    namespace.bind("limpet-xbackends").await?;
    let rules = namespace
        .get("ClusterRole", &namespace.cluster_role("limpet-xbackends"))
        .await?["rules"]
        .take();
    for verb in ["get", "create", "patch", "delete"] {
        without(&namespace, "ClusterRole limpet-xbackends", &rules, verb, &["services"]).await?;
        controller.launch()?;
        if verb == "delete" {
            // First the controller creates the Service, to have something to change or delete.
            namespace.until("the Service", "v1/Service", &service, |_| true).await?;
            let external = json!({
                "type": "ExternalHostname",
                "endpointSelector": null,
                "externalHostname": {"hostname": "web.example"},
            });
            let change = json!({"spec": external});
            namespace.merge("XBackend", "web", &change).await?;
        }
        let text = format!("cannot {verb} resource \"services\"");
        let told = async || controller.log().ok()?.replace('\\', "").contains(&text).then_some(());
        let told = poll::until(&format!("the controller to miss {verb}"), told).await;
        told.with_context(|| controller.log().unwrap_or_default())?;
        if verb != "delete" {
            until_refused(&namespace, &text).await?;
        }
        controller.kill();
    }
    namespace.get("v1/Service", &service).await.map(drop)
}

/// Sets statuses by the name of their list: without one, the controller sends another request.
async fn set_statuses(namespace: &Namespace, status: impl Fn(&str) -> Value) -> Result<()> {
    let lists = [
        ("HTTPRoute", "parents"),
        ("GRPCRoute", "parents"),
        ("BackendLBPolicy", "ancestors"),
        ("BackendTLSPolicy", "ancestors"),
    ];
    for (kind, list) in lists {
        for object in namespace.list(kind, "").await? {
            let name = object["metadata"]["name"].as_str().context("no name")?;
            namespace.merge_status(kind, name, &status(list)).await?;
        }
    }
    Ok(())
}

#[tokio::test]
async fn each_missing_verb_of_the_role_is_reported() -> Result<()> {
    // This test changes only the namespace's own cluster roles.
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("rights").await?;
    let _pods = objects(&namespace).await?;
    let grpc = "
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: grpc}
spec:
  parentRefs: [{name: web}]
  hostnames: [grpc.example]
  rules: [{backendRefs: [{name: gone, port: 80}]}]
";
    namespace.apply(grpc).await?;
    let tls = "
apiVersion: gateway.networking.k8s.io/v1alpha3
kind: BackendTLSPolicy
metadata: {name: web}
spec:
  targetRefs: [{group: '', kind: Service, name: web}]
  validation: {hostname: web.example, wellKnownCACertificates: System}
";
    namespace.apply(tls).await?;
    let mut controller = Controller::prepare(cluster.server(), &namespace, |_| ()).await?;
    let rules = namespace
        .get("ClusterRole", &namespace.cluster_role("limpet-controller"))
        .await?["rules"]
        .take();
    without_own_pods(&namespace).await?;
    set_statuses(&namespace, |list| json!({list: []})).await?;
    for (verb, resources) in NEEDED {
        controller.kill();
        if *verb == "patch" {
            set_statuses(&namespace, |_| Value::Null).await?;
        }
        without(&namespace, "ClusterRole limpet-controller", &rules, verb, resources).await?;
        controller.launch()?;
        let mut missing = Vec::new();
        let told = async || {
            let log = controller.log().ok()?;
            let is_told = |resource: &&str| log.contains(&format!("cannot {verb} resource \"{resource}\""));
            missing = resources
                .iter()
                .copied()
                .filter(|resource| !is_told(resource))
                .collect();
            missing.is_empty().then_some(())
        };
        let told = poll::until(&format!("the controller to miss {verb}"), told).await;
        told.with_context(|| {
            format!(
                "it does not say that it lacks {verb} of {missing:?}:\n{}",
                controller.log().unwrap_or_default()
            )
        })?;
        if *verb == "list" {
            let ready = controller.page("/readyz").await?;
            let words = String::from_utf8_lossy(&ready.body).into_owned();
            assert_eq!(ready.status, 503);
            for kind in ["HTTPRoute", "Gateway", "Service", "EndpointSlice", "Namespace"] {
                assert!(words.contains(kind), "{words}");
            }
        } else {
            let is_ready = async || (controller.page("/readyz").await.ok()?.status == 200).then_some(());
            poll::until("it to be ready all the same", is_ready).await?;
        }
    }

    // A failed Event is written later, and the problem is logged once.
    let missed = || {
        controller
            .log()
            .map(|log| log.matches("an Event cannot be written").count())
    };
    let before = missed()?;
    let late = grpc.replace("name: grpc", "name: late").replace("gone", "away");
    namespace.apply(&late).await?;
    let tried = async || (controller.log().ok()?.contains("away") && missed().ok()? > before).then_some(());
    poll::until("the controller to log that it cannot write the Event", tried).await?;
    namespace
        .merge(
            "ClusterRole",
            &namespace.cluster_role("limpet-controller"),
            &json!({"rules": rules}),
        )
        .await?;
    let note = until_event(&namespace, "GRPCRoute", "late", "BackendNotFound", "away").await?;
    let log = controller.log()?;
    assert_eq!(log.matches(&note).count(), 1, "{note}\n{log}");

    controller.kill();
    controller.launch()?;
    controller.until_ready().await?;
    let accepted = |object: &Value| object["status"]["parents"][0]["conditions"][0]["type"] == "Accepted";
    for kind in ["HTTPRoute", "GRPCRoute"] {
        let name = if kind == "GRPCRoute" { "grpc" } else { "web" };
        namespace.until("its status", kind, name, accepted).await?;
    }
    let log = controller.log()?;
    assert!(!log.contains("forbidden"), "{log}");
    Ok(())
}
