use anyhow::Result;
use limpet_e2e::kube::refused;
use serde_json::{Value, json};

use super::{DELEGATIONS, INGRESS_ROUTES, KIND, apply, cluster, object};

/// Every field of Contour 1.0.0 or its designs.
const FULL: &str = "
virtualhost:
  fqdn: shop.example
  tls: {secretName: certificates/shop, minimumProtocolVersion: '1.3', passthrough: false}
strategy: Random
healthCheck: &check
  path: /healthz
  host: shop
  intervalSeconds: 5
  timeoutSeconds: 2
  unhealthyThresholdCount: 3
  healthyThresholdCount: 2
routes:
- match: /
  enableWebsockets: true
  permitInsecure: true
  prefixRewrite: /web
  timeoutPolicy: {request: 5s}
  retryPolicy: {count: 3, perTryTimeout: 1s}
  services:
  - name: web
    port: 80
    weight: 10
    strategy: StickySession
    stickySessionConfig: {cookie: {name: session, path: /}, header: {name: x-user}, connection: {property: IP}}
    healthCheck: *check
    validation: {caSecret: authority, subjectName: web}
- match: /blog
  delegate: {name: blog, namespace: marketing}
tcpproxy:
  services: [{name: web, port: 80}]
  delegate: {name: blog}
";

#[tokio::test]
async fn every_field_is_kept_as_it_is_written() -> Result<()> {
    let namespace = cluster().await?.namespace("fields").await?;
    let mut spec: Value = serde_saphyr::from_str(FULL)?;
    let kept = apply(&namespace, "web", FULL).await?;
    assert_eq!(kept["spec"], spec, "nothing is added, and nothing taken away");
    // Unknown fields are kept everywhere, so that the status can name them.
    for place in [
        "",
        "/virtualhost",
        "/virtualhost/tls",
        "/healthCheck",
        "/routes/0",
        "/routes/0/timeoutPolicy",
        "/routes/0/retryPolicy",
        "/routes/0/services/0",
        "/routes/0/services/0/stickySessionConfig",
        "/routes/0/services/0/stickySessionConfig/cookie",
        "/routes/0/services/0/stickySessionConfig/header",
        "/routes/0/services/0/stickySessionConfig/connection",
        "/routes/0/services/0/healthCheck",
        "/routes/0/services/0/validation",
        "/routes/1/delegate",
        "/tcpproxy",
        "/tcpproxy/services/0",
        "/tcpproxy/delegate",
    ] {
        let fields = spec.pointer_mut(place).and_then(Value::as_object_mut);
        let fields = fields.ok_or_else(|| anyhow::anyhow!("no {place}"))?;
        fields.insert("unknown".to_owned(), json!({"deep": [1]}));
    }
    let unknown = object("unknown", &spec.to_string())?;
    assert_eq!(namespace.apply_object(&unknown).await?["spec"], spec);

    let delegation = json!({
        "apiVersion": "contour.heptio.com/v1beta1",
        "kind": "TLSCertificateDelegation",
        "metadata": {"name": "web"},
        "spec": {"delegations": [{"secretName": "web", "targetNamespaces": ["*"], "unknown": 1}], "unknown": 1},
    });
    assert_eq!(namespace.apply_object(&delegation).await?["spec"], delegation["spec"]);
    Ok(())
}

/// The status says all else.
#[tokio::test]
async fn only_types_and_what_is_missing_are_refused() -> Result<()> {
    let namespace = cluster().await?.namespace("types").await?;
    for good in [
        "{}",
        "{virtualhost: {fqdn: ''}}",
        "{virtualhost: {fqdn: '*.shop example'}, strategy: Unknown}",
        "{virtualhost: {fqdn: a, tls: {minimumProtocolVersion: '0.9'}}}",
        "{routes: [{match: blog, timeoutPolicy: {request: soon}}]}",
        "{routes: [{match: /, services: [{name: 'a b', port: -1}]}]}",
        "{routes: [{match: /, services: [], delegate: {name: ''}}]}",
        "{routes: [{match: /, retryPolicy: {count: -1}, service: [{name: web}]}]}",
        "{routes: [{match: /, services: [{name: web, port: 80, stickySessionConfig: {cookie: {}}}]}]}",
    ] {
        apply(&namespace, "web", good).await?;
        namespace.delete(KIND, "web").await?;
    }
    for (bad, field) in [
        ("{virtualhost: {}}", "spec.virtualhost.fqdn"),
        ("{virtualhost: {fqdn: 1}}", "spec.virtualhost.fqdn"),
        ("{routes: [{}]}", "spec.routes[0].match"),
        (
            "{routes: [{match: /, enableWebsockets: 'yes'}]}",
            "spec.routes[0].enableWebsockets",
        ),
        (
            "{routes: [{match: /, services: [{name: web}]}]}",
            "spec.routes[0].services[0].port",
        ),
        (
            "{routes: [{match: /, services: [{name: web, port: http}]}]}",
            "spec.routes[0].services[0].port",
        ),
        (
            "{routes: [{match: /, services: [{name: web, port: 80, weight: -1}]}]}",
            "spec.routes[0].services[0].weight",
        ),
        (
            "{routes: [{match: /, services: [{name: web, port: 80, healthCheck: {host: a}}]}]}",
            "spec.routes[0].services[0].healthCheck.path",
        ),
        ("{routes: [{match: /, delegate: {}}]}", "spec.routes[0].delegate.name"),
    ] {
        // JSON's path of an applied object has no index.
        let said = match apply(&namespace, "web", bad).await {
            Ok(_) => anyhow::bail!("{bad} is accepted"),
            refused_object => refused(refused_object)?,
        };
        let last = field.rsplit('.').next().unwrap_or_default();
        assert!(said.message.contains(last), "{bad}: {said}");
    }
    Ok(())
}

#[tokio::test]
async fn the_status_is_no_part_of_the_object() -> Result<()> {
    let namespace = cluster().await?.namespace("subresource").await?;
    let applied = apply(&namespace, "web", "{routes: []}").await?;
    let status = json!({"currentStatus": "valid", "description": "by hand", "unknown": {"deep": 1}});
    let written = namespace.merge_status(KIND, "web", &status).await?;
    assert_eq!(written["status"], status);
    assert_eq!(written["metadata"]["generation"], applied["metadata"]["generation"]);
    let change = json!({"status": {"currentStatus": "invalid"}, "spec": {"unknown": 1}});
    let changed = namespace.merge(KIND, "web", &change).await?;
    assert_eq!((&changed["status"], &changed["spec"]["unknown"]), (&status, &json!(1)));
    Ok(())
}

#[test]
fn the_definitions_have_contours_names_and_columns() -> Result<()> {
    for (definition, names, columns) in [
        (
            INGRESS_ROUTES,
            ["IngressRoute", "ingressroutes", "ingressroute"],
            &[
                ("FQDN", ".spec.virtualhost.fqdn"),
                ("TLS Secret", ".spec.virtualhost.tls.secretName"),
                ("First route", ".spec.routes[0].match"),
                ("Status", ".status.currentStatus"),
                ("Status Description", ".status.description"),
            ][..],
        ),
        (
            DELEGATIONS,
            [
                "TLSCertificateDelegation",
                "tlscertificatedelegations",
                "tlscertificatedelegation",
            ],
            &[],
        ),
    ] {
        let definition: Value = serde_saphyr::from_str(definition)?;
        let spec = &definition["spec"];
        let of = |field: &str| spec["names"][field].as_str().unwrap_or_default();
        assert_eq!([of("kind"), of("plural"), of("singular")], names);
        assert_eq!(
            (&spec["group"], &spec["scope"]),
            (&json!("contour.heptio.com"), &json!("Namespaced"))
        );
        let version = &spec["versions"][0];
        assert_eq!(version["name"], "v1beta1");
        let found = version["additionalPrinterColumns"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let found: Vec<_> = found
            .iter()
            .map(|column| {
                let of = |field: &str| column[field].as_str().unwrap_or_default();
                (of("name"), of("jsonPath"))
            })
            .collect();
        assert_eq!(found, columns);
    }
    Ok(())
}
