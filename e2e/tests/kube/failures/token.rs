//! What a thief of the controller's token can do with the roles of `controller/deploy`, by the API server's judgement.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use hyper::Method;
use limpet_api::ObjectName;
use limpet_e2e::kube::{Client, Cluster, Controller, Namespace, Release, refused};
use limpet_model::selector_service;
use serde_json::{Value, json};

use super::WEB;
use crate::site::site_objects;

/// What the token may change in every namespace.
const EVERYWHERE: &[&str] = &[
    "create events",
    "patch backendlbpolicies/status",
    "patch backendtlspolicies/status",
    "patch gatewayclasses/status",
    "patch gateways/status",
    "patch grpcroutes/status",
    "patch httproutes/status",
    "patch xbackends/status",
    "patch xbackendtrafficpolicies/status",
    "update backendlbpolicies/status",
    "update backendtlspolicies/status",
    "update gatewayclasses/status",
    "update gateways/status",
    "update grpcroutes/status",
    "update httproutes/status",
    "update xbackends/status",
    "update xbackendtrafficpolicies/status",
];

const AT_HOME: &[&str] = &[
    "create configmaps",
    "create leases",
    "create secrets",
    "delete leases limpet-controller",
    "delete secrets",
    "patch configmaps limpet-controller-memory",
    "patch configmaps limpet-fences",
    "patch leases limpet-controller-replicas",
    "patch secrets",
    "update leases limpet-controller",
    "update secrets limpet-keyring",
    "update secrets limpet-xds-authority",
];

/// What it may read in every namespace: nothing with a key.
const READABLE: &[&str] = &[
    "backendlbpolicies",
    "backendtlspolicies",
    // Public certificates, which every service account may read from Kubernetes 1.37 on.
    "clustertrustbundles",
    "customresourcedefinitions",
    "endpointslices",
    "envoydeployments",
    "gatewayclasses",
    "gateways",
    "grpcroutes",
    "httproutes",
    "namespaces",
    "nodes",
    "pods",
    "referencegrants",
    "services",
    "xbackends",
    "xbackendtrafficpolicies",
];

/// Permitted changes and readings in a namespace, without those of every account.
async fn permitted(token: &Client, namespace: &str) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    });
    let review = token
        .call(Method::POST, path, "application/json", Some(&review))
        .await?;
    ensure!(review["status"]["incomplete"] == false, "{review}");
    let texts = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap_or_default() };
    let (mut changes, mut readings) = (BTreeSet::new(), BTreeSet::new());
    for rule in review["status"]["resourceRules"].as_array().context("no rules")? {
        for (verb, resource) in texts(&rule["verbs"]).iter().flat_map(|verb| {
            texts(&rule["resources"])
                .into_iter()
                .map(move |resource| (verb, resource))
        }) {
            // Every account may ask for its rights.
            if resource.starts_with("selfsubject") {
                continue;
            }
            let names = texts(&rule["resourceNames"]);
            if matches!(verb.as_str(), "get" | "list" | "watch") {
                if names.is_empty() {
                    readings.insert(resource);
                }
            } else if names.is_empty() {
                changes.insert(format!("{verb} {resource}"));
            } else {
                changes.extend(names.iter().map(|name| format!("{verb} {resource} {name}")));
            }
        }
    }
    Ok((changes, readings))
}

fn set(of: &[&str]) -> BTreeSet<String> {
    of.iter().map(ToString::to_string).collect()
}

/// Whether the token's rights do not suffice.
fn forbidden<T>(what: &str, result: Result<T>) -> Result<()> {
    let refusal = refused(result).with_context(|| what.to_owned())?;
    ensure!(refusal.code == 403, "{what}: {refusal}");
    Ok(())
}

/// Tries to lead a namespace's requests elsewhere, and to read its secrets.
async fn try_everything(token: &Client, namespace: &Namespace) -> Result<()> {
    let elsewhere = json!({"spec": {"selector": {"app": "thief"}}});
    forbidden("another selector", token.merge("v1/Service", "web", &elsewhere).await)?;
    forbidden("no Service", token.delete("v1/Service", "web").await)?;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "thief", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.9.9.9"]}],
        "ports": [{"port": 80}],
    });
    let others = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "thief"},
        "spec": {"ports": [{"port": 80}]},
    });
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "thief", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "thief", "image": "thief"}]},
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "thief"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": namespace.cluster_role("limpet-xbackends"),
        },
        "subjects": [{"kind": "ServiceAccount", "name": "limpet-controller", "namespace": "limpet-system"}],
    });
    for object in [slice, others, pod, binding] {
        let kind = object["kind"].as_str().unwrap_or_default();
        let named = object["metadata"]["name"].as_str().unwrap_or_default();
        forbidden(&format!("{kind} {named}"), token.apply_object(&object).await)?;
    }
    let hostnames = json!({"spec": {"hostnames": ["thief.example"]}});
    forbidden("a route", token.merge("HTTPRoute", "web", &hostnames).await)?;
    let class = json!({"spec": {"gatewayClassName": "thief"}});
    forbidden("a Gateway", token.merge("Gateway", "web", &class).await)?;
    let path = format!("/api/v1/namespaces/{}/serviceaccounts/default/token", namespace.name());
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let answer = token
        .call(Method::POST, &path, "application/json", Some(&request))
        .await;
    forbidden("another's token", answer)
}

async fn victim(namespace: &Namespace) -> Result<()> {
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    namespace.apply(&site_objects(namespace)).await
}

#[tokio::test]
async fn a_stolen_token_redirects_nobody() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let home = cluster.namespace("token").await?;
    let away = cluster.namespace("victim").await?;
    let _controller = Controller::prepare(cluster.server(), &home, |_| ()).await?;
    victim(&away).await?;
    victim(&home).await?;
    let token = cluster
        .server()
        .service_account(home.name(), "limpet-controller")
        .await?;
    let token = cluster.server().client(token);

    let (changes, readings) = permitted(&token, away.name()).await?;
    assert_eq!(changes, set(EVERYWHERE));
    assert_eq!(readings, set(READABLE));
    let (changes, readings) = permitted(&token, home.name()).await?;
    assert_eq!(changes, &set(EVERYWHERE) | &set(AT_HOME));
    // The names of Gateways' Secrets are not known in advance.
    assert_eq!(readings, &set(READABLE) | &set(&["secrets"]));
    forbidden("Secrets", token.in_namespace(away.name()).list("v1/Secret", "").await)?;
    for namespace in [&away, &home] {
        try_everything(&token.in_namespace(namespace.name()), namespace).await?;
    }
    Ok(())
}

/// With a role that names an `XBackend`'s Service, the token changes only this Service.
#[tokio::test]
async fn a_role_may_name_the_services_of_xbackends() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("named").await?;
    victim(&namespace).await?;
    let name = selector_service(&ObjectName::new(namespace.name(), "blue")).name;
    let role = format!(
        "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: limpet-xbackends}}
rules:
- apiGroups: ['']
  resources: [services]
  resourceNames: [{name}]
  verbs: [create, delete, get, patch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: limpet-xbackends}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: limpet-xbackends}}
subjects: [{{kind: ServiceAccount, name: limpet-controller, namespace: {0}}}]
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackend
metadata: {{name: blue}}
spec:
  type: EndpointSelector
  endpointSelector: {{matchLabels: {{app: web}}}}
  port: {{number: 8000}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: blue}}
spec:
  parentRefs: [{{name: web}}]
  hostnames: [blue.example]
  rules: [{{backendRefs: [{{group: gateway.networking.x-k8s.io, kind: XBackend, name: blue}}]}}]
",
        namespace.name()
    );
    namespace.apply(&role).await?;
    let _controller = Controller::start(cluster.server(), &namespace, |_| ()).await?;
    let made = namespace.until("the Service", "v1/Service", &name, |_| true).await?;
    assert_eq!(made["spec"]["selector"], json!({"app": "web"}));
    let token = cluster
        .server()
        .service_account(namespace.name(), "limpet-controller")
        .await?;
    let token = cluster.server().client(token).in_namespace(namespace.name());
    try_everything(&token, &namespace).await
}
