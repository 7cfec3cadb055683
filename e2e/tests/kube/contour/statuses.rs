//! The controller's statuses, with the role as shipped.

use anyhow::Result;
use limpet_e2e::kube::{Controller, Namespace};
use serde_json::{Value, json};

use super::{
    HOST, KIND, ORPHANED, VALID, apply, blog, cluster, configure, may_read_secrets, root, stands_still, until_status,
};
use crate::certificates::Authority;
use crate::kept::event;

const WEB: &[(&str, &str)] = &[("app", "web")];

#[tokio::test]
async fn statuses_have_contours_words_and_are_written_once() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("words").await?;
    namespace.service("web", WEB).await?;
    let web = "{match: /, services: [{name: web, port: 80}]}";
    apply(
        &namespace,
        "root",
        &root(HOST, &format!("{web}, {{match: /blog, delegate: {{name: blog}}}}")),
    )
    .await?;
    apply(&namespace, "blog", &blog("web")).await?;
    apply(&namespace, "alone", &blog("web")).await?;
    apply(&namespace, "one", &root("two.example", web)).await?;
    apply(&namespace, "two", &root("two.example", web)).await?;
    apply(
        &namespace,
        "missing",
        &root("missing.example", "{match: /, services: [{name: none, port: 80}]}"),
    )
    .await?;
    apply(&namespace, "typed", "{routes: [{match: /, retryPolicy: {count: -1}}]}").await?;
    let _controller = Controller::start(cluster.server(), &namespace, configure).await?;

    let shared = format!(
        "fqdn \"two.example\" is used in multiple IngressRoutes: {0}/one, {0}/two",
        namespace.name()
    );
    for (name, state, description) in [
        ("root", "valid", VALID),
        ("blog", "valid", VALID),
        ("alone", "orphaned", ORPHANED),
        ("one", "invalid", &*shared),
        ("two", "invalid", &*shared),
        ("missing", "invalid", "Service [none:80] is invalid or missing"),
    ] {
        let written = until_status(&namespace, name, state, description).await?;
        assert_eq!(written["metadata"]["generation"], 1, "the object itself is not written");
    }
    // Ours begin with the path of the field.
    let is_told = |object: &Value| {
        object["status"]["currentStatus"] == "invalid"
            && object["status"]["description"]
                .as_str()
                .is_some_and(|text| text.contains("count"))
    };
    namespace.until("what cannot be read", KIND, "typed", is_told).await?;
    let told = event(&namespace, KIND, "missing", "Invalid", "Service [none:80]").await?;
    assert_eq!(told["type"], "Warning");
    for name in ["root", "alone", "one"] {
        stands_still(&namespace, name).await?;
    }
    // What others write is mended.
    let theirs = json!({"currentStatus": "valid", "description": "by hand"});
    namespace.merge_status(KIND, "missing", &theirs).await?;
    until_status(
        &namespace,
        "missing",
        "invalid",
        "Service [none:80] is invalid or missing",
    )
    .await?;
    Ok(())
}

/// An object of another class is as if it were not there.
#[tokio::test]
async fn an_object_of_another_class_is_left_alone() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("class").await?;
    namespace.service("web", WEB).await?;
    let web = "{match: /, services: [{name: web, port: 80}]}";
    apply(&namespace, "one", &root(HOST, web)).await?;
    apply(&namespace, "two", &root(HOST, web)).await?;
    let _controller = Controller::start(cluster.server(), &namespace, |config| {
        configure(config);
        config["contour"]["ingressClass"] = "limpet".into();
    })
    .await?;
    let shared = format!(
        "fqdn \"{HOST}\" is used in multiple IngressRoutes: {0}/one, {0}/two",
        namespace.name()
    );
    until_status(&namespace, "one", "invalid", &shared).await?;
    until_status(&namespace, "two", "invalid", &shared).await?;

    let class = |class: Value| json!({"metadata": {"annotations": {"kubernetes.io/ingress.class": class}}});
    namespace.merge(KIND, "two", &class(json!("contour"))).await?;
    until_status(&namespace, "one", "valid", VALID).await?;
    let theirs = json!({"currentStatus": "orphaned", "description": "of another controller"});
    namespace.merge_status(KIND, "two", &theirs).await?;
    stands_still(&namespace, "two").await?;

    namespace.merge(KIND, "two", &class(json!("limpet"))).await?;
    until_status(&namespace, "two", "invalid", &shared).await?;
    until_status(&namespace, "one", "invalid", &shared).await?;
    namespace.merge(KIND, "one", &class(json!("contour"))).await?;
    until_status(&namespace, "two", "valid", VALID).await?;
    // Objects without a class are read as well.
    namespace.merge(KIND, "two", &class(Value::Null)).await?;
    namespace.delete(KIND, "one").await?;
    stands_still(&namespace, "two").await?;
    until_status(&namespace, "two", "valid", VALID).await?;
    Ok(())
}

async fn secret(namespace: &Namespace, name: &str) -> Result<()> {
    let certificate = Authority::new("shop")?.sign(HOST)?;
    namespace.apply_object(&certificate.secret(name)).await.map(drop)
}

/// A Secret of another namespace needs a right of the controller there, and a delegation.
#[tokio::test]
async fn a_certificate_takes_a_role_and_a_delegation() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = cluster.namespace("tls").await?;
    let certificates = cluster.namespace("certificates").await?;
    namespace.service("web", WEB).await?;
    secret(&certificates, "shop").await?;
    let named = format!("{}/shop", certificates.name());
    let spec = format!(
        "{{virtualhost: {{fqdn: {HOST}, tls: {{secretName: {named}}}}}, \
         routes: [{{match: /, services: [{{name: web, port: 80}}]}}]}}"
    );
    apply(&namespace, "root", &spec).await?;
    let _controller = Controller::start(cluster.server(), &namespace, |config| {
        configure(config);
        config["namespaces"] = json!([namespace.name(), certificates.name()]);
    })
    .await?;
    let missing = format!("TLS Secret [{named}] not found or is malformed");
    until_status(&namespace, "root", "invalid", &missing).await?;

    // As the chart binds it: in the Secret's namespace.
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "limpet-certificates"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": namespace.cluster_role("limpet-certificates"),
        },
        "subjects": [{"kind": "ServiceAccount", "name": "limpet-controller", "namespace": namespace.name()}],
    });
    certificates.apply_object(&binding).await?;
    let refused = format!("{named}: certificate delegation not permitted");
    until_status(&namespace, "root", "invalid", &refused).await?;
    let delegation = json!({
        "apiVersion": "contour.heptio.com/v1beta1",
        "kind": "TLSCertificateDelegation",
        "metadata": {"name": "shop"},
        "spec": {"delegations": [{"secretName": "shop", "targetNamespaces": [namespace.name()]}]},
    });
    certificates.apply_object(&delegation).await?;
    until_status(&namespace, "root", "valid", VALID).await?;
    certificates.delete("TLSCertificateDelegation", "shop").await?;
    until_status(&namespace, "root", "invalid", &refused).await?;

    // A Secret of its own namespace needs no delegation.
    secret(&namespace, "shop").await?;
    may_read_secrets(&namespace).await?;
    let own = json!({"spec": {"virtualhost": {"tls": {"secretName": "shop"}}}});
    namespace.merge(KIND, "root", &own).await?;
    until_status(&namespace, "root", "valid", VALID).await?;
    Ok(())
}
