//! Tests of the test bed.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hyper::Method;
use limpet_e2e::kube::{Cluster, Endpoint, Pod, Proxy, Release, refused};
use limpet_e2e::{Visitor, poll, tools};
use serde_json::json;

use crate::clusters;

const ROUTES: &str = "/apis/gateway.networking.k8s.io/v1/httproutes";
const WEB: &[(&str, &str)] = &[("app", "web")];

fn endpoint(pod: &Pod) -> Endpoint {
    Endpoint {
        address: pod.address(),
        pod: pod.name().to_owned(),
        ready: true,
        serving: true,
        terminating: false,
    }
}

#[tokio::test]
async fn users_may_do_what_their_roles_allow_and_nothing_else() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("rbac").await?;
    let reader = cluster.server().service_account(namespace.name(), "reader").await?;
    let reader = namespace.as_user(reader);

    let refusal = refused(reader.list("HTTPRoute", "").await)?;
    assert_eq!((refusal.code, refusal.reason.as_str()), (403, "Forbidden"));
    assert!(
        refusal.message.contains("cannot list resource \"httproutes\""),
        "{refusal}"
    );

    namespace
        .apply(
            "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: reader
rules:
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [list]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: reader
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: reader
subjects:
- kind: ServiceAccount
  name: reader
",
        )
        .await?;
    let allowed = async || reader.list("HTTPRoute", "").await.ok();
    assert!(poll::until("the role to take effect", allowed).await?.is_empty());
    assert_eq!(
        refused(reader.get("HTTPRoute", "web").await)?.code,
        403,
        "get was allowed by list"
    );
    assert_eq!(refused(reader.list("Gateway", "").await)?.code, 403);
    Ok(())
}

#[tokio::test]
async fn rules_of_a_definition_are_enforced() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("cel").await?;
    let policy = |persistence: &str| {
        format!(
            "
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata:
  name: web
spec:
  targetRefs: [{{group: '', kind: Service, name: web}}]
  sessionPersistence: {persistence}
"
        )
    };

    let refusal = refused(
        namespace
            .apply(&policy("{cookieConfig: {lifetimeType: Permanent}}"))
            .await,
    )?;
    assert_eq!((refusal.code, refusal.reason.as_str()), (422, "Invalid"));
    let rule = "AbsoluteTimeout must be specified when cookie lifetimeType is Permanent";
    assert!(refusal.message.contains(rule), "{refusal}");

    let refusal = refused(namespace.apply(&policy("{sessionNames: web}")).await)?;
    let unknown = ".spec.sessionPersistence.sessionNames: field not declared in schema";
    assert!(refusal.message.contains(unknown), "{refusal}");

    namespace
        .apply(&policy(
            "{absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}",
        ))
        .await?;
    let policy = namespace.get("BackendLBPolicy", "web").await?;
    assert_eq!(policy["spec"]["sessionPersistence"]["type"], "Cookie", "by default");
    Ok(())
}

#[tokio::test]
async fn pods_become_endpoints_drain_and_go() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("endpoints").await?;
    namespace.service("web", WEB).await?;
    let a = namespace.pod("a", WEB).await?;
    let b = namespace.pod("b", WEB).await?;
    let other = namespace.pod("other", &[("app", "other")]).await?;
    assert_ne!(other.address(), a.address());
    let both = [endpoint(&a), endpoint(&b)];
    assert_eq!(
        namespace.endpoints("web", |endpoints| endpoints.len() == 2).await?,
        both
    );

    a.drain().await?;
    let draining = Endpoint {
        ready: false,
        terminating: true,
        ..endpoint(&a)
    };
    let expected = [draining, endpoint(&b)];
    namespace.endpoints("web", |endpoints| endpoints == expected).await?;

    b.report(false).await?;
    let unready = Endpoint {
        ready: false,
        serving: false,
        ..endpoint(&b)
    };
    namespace
        .endpoints("web", |endpoints| endpoints.last() == Some(&unready))
        .await?;

    let ip = a.remove().await?;
    namespace
        .endpoints("web", |endpoints| endpoints == [unready.clone()])
        .await?;

    let heir = namespace.pod_at("heir", WEB, ip).await?;
    let expected = [endpoint(&heir), unready];
    namespace.endpoints("web", |endpoints| endpoints == expected).await?;
    Ok(())
}

#[tokio::test]
async fn an_api_server_comes_back_with_its_data() -> Result<()> {
    let mut cluster = clusters::to_stop().await?;
    let namespace = cluster.namespace("restart").await?;
    namespace.service("web", WEB).await?;
    let account = cluster.server().service_account(namespace.name(), "somebody").await?;

    let routes = namespace.call(Method::GET, ROUTES, "", None).await?;
    namespace.service("later", WEB).await?;
    cluster.server_mut().stop();
    let answer = namespace.get("Service", "web").await;
    let error = answer.err().context("the API server answers")?;
    assert!(format!("{error:#}").contains("refused"), "{error:#}");

    cluster.server_mut().start_again().await?;
    let service = namespace.get("Service", "web").await?;
    assert_eq!(service["spec"]["selector"], json!({"app": "web"}));
    let refusal = refused(namespace.as_user(account).get("Service", "web").await)?;
    assert_eq!(refusal.code, 403, "known, but without rights: {refusal}");
    // A watch from a forgotten version gets an error.
    let version = routes["metadata"]["resourceVersion"].as_str().context("no version")?;
    let watch = format!("{ROUTES}?watch=1&timeoutSeconds=1&resourceVersion={version}");
    let event = namespace.call(Method::GET, &watch, "", None).await?;
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    // The controllers have reconnected.
    let pod = namespace.pod("a", WEB).await?;
    namespace
        .endpoints("web", |endpoints| endpoints == [endpoint(&pod)])
        .await?;
    Ok(())
}

#[tokio::test]
async fn every_release_has_its_own_kinds_and_fields() -> Result<()> {
    let route = |persistence: &str| {
        format!(
            "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: web
spec:
  rules:
  - sessionPersistence: {persistence}
"
        )
    };
    for (release, policy, named, other) in [
        (
            Release::V1_2_1,
            "BackendLBPolicy",
            "{sessionName: web}",
            "{cookie: {name: web}}",
        ),
        (
            Release::V1_6_1,
            "XBackendTrafficPolicy",
            "{sessionName: web}",
            "{cookie: {name: web}}",
        ),
        (
            Release::V1_7_0,
            "XBackend",
            "{type: Cookie, cookie: {name: web}}",
            "{sessionName: web}",
        ),
    ] {
        let namespace = Cluster::shared(release).await?.namespace("release").await?;
        assert!(namespace.list(policy, "").await?.is_empty());
        namespace.gateway_class().await?;
        let class = namespace.get("GatewayClass", namespace.name()).await?;
        assert_eq!(class["spec"]["controllerName"], namespace.controller_name());
        namespace.apply(&route(named)).await?;
        let refusal = refused(namespace.apply(&route(other)).await)?;
        assert!(refusal.message.contains("field not declared"), "{refusal}");
    }
    Ok(())
}

#[tokio::test]
async fn owned_objects_are_deleted_with_their_owner() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("garbage").await?;
    namespace
        .apply(
            "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: owner
spec:
  hostnames: [shop.example]
",
        )
        .await?;
    let owner = namespace.get("HTTPRoute", "owner").await?;
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "owned", "ownerReferences": [{
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }]},
        "spec": {"ports": [{"port": 80}]},
    });
    namespace.apply_object(&service).await?;
    namespace.delete("HTTPRoute", "owner").await?;
    namespace.until_gone("Service", "owned").await?;

    namespace.service("left", WEB).await?;
    namespace.delete("Namespace", namespace.name()).await?;
    namespace.until_gone("Service", "left").await?;
    namespace.until_gone("Namespace", namespace.name()).await
}

#[tokio::test]
async fn a_stock_envoy_reaches_the_pods() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    let namespace = cluster.namespace("envoy").await?;
    let pod = namespace.pod("a", WEB).await?;
    let address = |ip: &str, port: u16| json!({"socket_address": {"address": ip, "port_value": port}});
    let own = namespace.next_address()?.to_string();
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.\
            HttpConnectionManager",
        "stat_prefix": "web",
        "route_config": {"virtual_hosts": [{
            "name": "web",
            "domains": ["*"],
            "routes": [{"match": {"prefix": "/"}, "route": {"cluster": "web"}}],
        }]},
        "http_filters": [{
            "name": "router",
            "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"},
        }],
    });
    let bootstrap = json!({
        "admin": {"address": address(&own, 0)},
        "static_resources": {
            "listeners": [{
                "name": "web",
                "address": address(&own, 80),
                "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}]}],
            }],
            "clusters": [{
                "name": "web",
                "type": "STATIC",
                "load_assignment": {"cluster_name": "web", "endpoints": [{"lb_endpoints": [{
                    "endpoint": {"address": address(&pod.address().ip().to_string(), pod.address().port())},
                }]}]},
            }],
        },
    });
    let mut proxy = Proxy::start(&bootstrap.to_string(), &[]).await?;
    proxy.until_ready().await?;
    let mut visitor = Visitor::of(proxy.listener("web").await?);
    assert_eq!(visitor.get("/").await?.backend(), Some("a"));
    assert_eq!(proxy.admin().stat("cluster.web.upstream_rq_200").await?, 1);
    Ok(())
}

/// Its parent's end reaches it as SIGTERM: `setpriv` and the Makefile see to that.
#[tokio::test]
async fn a_network_namespace_outlives_a_signal() -> Result<()> {
    for signal in ["-INT", "-TERM", "-HUP"] {
        // A shell cannot trap what its parent ignores, as `nohup` does.
        let mut bed = Command::new("env")
            .arg("--default-signal=INT,TERM,HUP")
            .arg(tools::checkout().join("e2e/tools/in-netns.sh"))
            .args(["sh", "-c", "echo $TMPDIR; (trap '' INT TERM HUP; sleep 1000) & wait"])
            .stdout(Stdio::piped())
            .spawn()?;
        let mut folder = String::new();
        // It stays open for as long as a process of the namespace lives.
        let mut output = BufReader::new(bed.stdout.take().context("no output")?);
        output.read_line(&mut folder)?;
        let folder = Path::new(folder.trim());
        ensure!(folder.is_dir(), "no folder {}", folder.display());
        let sent = Command::new("kill").args([signal, &bed.id().to_string()]).status()?;
        ensure!(sent.success(), "cannot send a signal");
        poll::until("the script to end", async || bed.try_wait().ok().flatten()).await?;
        let rest = tokio::task::spawn_blocking(move || output.read_line(&mut String::new()));
        let rest = tokio::time::timeout(std::time::Duration::from_secs(10), rest).await;
        assert_eq!(rest.context("a process is left")??.ok(), Some(0), "after {signal}");
        assert!(!folder.exists(), "{} is left after {signal}", folder.display());
    }
    Ok(())
}
