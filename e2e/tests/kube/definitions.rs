//! The definition of `BackendLBPolicy` that Limpet ships.

use anyhow::{Context, Result, bail};
use limpet_e2e::kube::{Cluster, Namespace, Release, refused};
use limpet_e2e::tools;
use serde_json::{Value, json};

use crate::clusters;

pub(crate) const SHIPPED: &str = include_str!("../../../controller/deploy/crds/backendlbpolicies.yaml");

/// A release without this definition, and Limpet's.
pub(crate) async fn shipped() -> Result<&'static Cluster> {
    let cluster = Cluster::shared(Release::V1_7_0).await?;
    cluster.define(SHIPPED).await?;
    Ok(cluster)
}

async fn stored(namespace: &Namespace, spec: &str) -> Result<Result<Value, Vec<String>>> {
    let policy = format!(
        "
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: BackendLBPolicy
metadata: {{name: web}}
spec: {spec}
"
    );
    let applied = namespace.apply(&policy).await;
    if applied.is_ok() {
        let spec = namespace.get("BackendLBPolicy", "web").await?["spec"].take();
        namespace.delete("BackendLBPolicy", "web").await?;
        return Ok(Ok(spec));
    }
    let refusal = refused(applied)?;
    if ![400, 422, 500].contains(&refusal.code) {
        bail!("{spec}: {refusal}");
    }
    let fields = [
        "targetRefs",
        "sessionPersistence",
        "sessionName",
        "absoluteTimeout",
        "idleTimeout",
        "type",
        "lifetimeType",
        "kind",
        "name",
        "other",
    ];
    Ok(Err(fields
        .into_iter()
        .filter(|field| refusal.message.contains(field))
        .map(str::to_owned)
        .collect()))
}

#[tokio::test]
async fn limpets_definition_accepts_what_the_released_one_does() -> Result<()> {
    let released = Cluster::shared(Release::V1_2_1).await?.namespace("released").await?;
    let shipped = shipped().await?.namespace("shipped").await?;
    let target = "targetRefs: [{group: '', kind: Service, name: web}]";
    let good = [
        String::new(),
        ", sessionPersistence: {}".to_owned(),
        ", sessionPersistence: {sessionName: s, absoluteTimeout: 1h30m, idleTimeout: 500ms, type: Header}".to_owned(),
        ", sessionPersistence: {absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}".to_owned(),
        ", sessionPersistence: {cookieConfig: {}}".to_owned(),
        format!(", sessionPersistence: {{sessionName: {}}}", "n".repeat(128)),
    ];
    for rest in good {
        let spec = format!("{{{target}{rest}}}");
        let expected = stored(&released, &spec).await?;
        assert!(expected.is_ok(), "{spec}: {expected:?}");
        assert_eq!(stored(&shipped, &spec).await?, expected, "{spec}");
    }
    let targets: Vec<String> = (0..17)
        .map(|number| format!("{{group: '', kind: Service, name: web-{number}}}"))
        .collect();
    let too_many = targets.join(", ");
    let bad = [
        "{}".to_owned(),
        "{targetRefs: []}".to_owned(),
        format!("{{targetRefs: [{too_many}]}}"),
        "{targetRefs: [{group: '', kind: Service, name: web}, {group: '', kind: Service, name: web}]}".to_owned(),
        "{targetRefs: [{group: '', kind: Service}]}".to_owned(),
        "{targetRefs: [{group: '', kind: 'a b', name: web}]}".to_owned(),
        format!("{{{target}, other: 1}}"),
        format!("{{{target}, sessionPersistence: {{absoluteTimeout: 1d}}}}"),
        format!("{{{target}, sessionPersistence: {{idleTimeout: '1.5h'}}}}"),
        format!("{{{target}, sessionPersistence: {{type: Query}}}}"),
        format!("{{{target}, sessionPersistence: {{cookieConfig: {{lifetimeType: Forever}}}}}}"),
        format!("{{{target}, sessionPersistence: {{cookieConfig: {{lifetimeType: Permanent}}}}}}"),
        format!("{{{target}, sessionPersistence: {{sessionName: {}}}}}", "n".repeat(129)),
    ];
    for spec in bad {
        let expected = stored(&released, &spec).await?;
        assert!(
            expected.as_ref().is_err_and(|fields| !fields.is_empty()),
            "{spec}: {expected:?}"
        );
        assert_eq!(stored(&shipped, &spec).await?, expected, "{spec}");
    }
    Ok(())
}

#[tokio::test]
async fn admission_policies_of_releases_accept_the_definition() -> Result<()> {
    let cluster = clusters::bare().await?;
    let admin = cluster.server().admin();
    let definition: Value = serde_saphyr::from_str(SHIPPED)?;
    for release in [Release::V1_6_1, Release::V1_7_0] {
        // The two channels' policies of one name differ.
        for channel in ["standard", "experimental"] {
            let what = format!("{} {channel}", release.tag());
            let files = release.channel(channel)?;
            let policy = files.iter().find(|file| file.to_string_lossy().contains("_vap_"));
            let policy = std::fs::read_to_string(policy.with_context(|| format!("{what}: no policy"))?)?;
            cluster.define(&policy).await?;
            admin.dry_run(&definition).await.context(what)?;
            for kind in ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"] {
                admin.delete(kind, "safe-upgrades.gateway.networking.k8s.io").await?;
            }
            cluster.until_definitions_are_judged(false).await?;
        }
    }
    Ok(())
}

/// `sessionPersistence`, valid and not, in the shapes of all releases.
fn shapes() -> Vec<Value> {
    let long = |length| "n".repeat(length);
    vec![
        json!({}),
        json!({"type": "Cookie"}),
        json!({"type": "Header"}),
        json!({"type": "Query"}),
        json!({"sessionName": "s"}),
        json!({"sessionName": long(128)}),
        json!({"sessionName": long(129)}),
        json!({"sessionName": "X-S", "type": "Header"}),
        json!({"absoluteTimeout": "1h"}),
        json!({"absoluteTimeout": "1 h"}),
        json!({"absoluteTimeout": "123456s"}),
        json!({"absoluteTimeout": "1h1m1s1ms1h"}),
        json!({"idleTimeout": "1h"}),
        json!({"idleTimeout": "soon"}),
        json!({"cookieConfig": {}}),
        json!({"cookieConfig": {"lifetimeType": "Permanent"}}),
        json!({"cookieConfig": {"lifetimeType": "Permanent"}, "absoluteTimeout": "1h"}),
        json!({"cookieConfig": {"lifetimeType": "Forever"}}),
        json!({"cookieConfig": {}, "type": "Header"}),
        json!({"cookie": {}}),
        json!({"cookie": {"lifetimeType": "Permanent"}}),
        json!({"cookie": {"lifetimeType": "Permanent"}, "absoluteTimeout": "1h"}),
        json!({"cookie": {"lifetimeType": "Forever"}}),
        json!({"cookie": {"name": ""}}),
        json!({"cookie": {"name": "a b"}}),
        json!({"cookie": {"name": long(256)}}),
        json!({"cookie": {"name": long(257)}}),
        json!({"cookie": {"path": format!("/{}", long(1023))}}),
        json!({"cookie": {"path": format!("/{}", long(1024))}}),
        json!({"cookie": {}, "type": "Header"}),
        json!({"cookie": {}, "header": {"name": "X-S"}}),
        json!({"header": {"name": "X-S"}, "type": "Header"}),
        json!({"header": {"name": "X-S"}}),
        json!({"header": {}, "type": "Header"}),
        json!({"header": {"name": ""}, "type": "Header"}),
        json!({"header": {"name": "X S"}, "type": "Header"}),
        json!({"header": {"name": long(257)}, "type": "Header"}),
        json!({"cookie": {}, "sessionName": "s"}),
        json!({"cookie": {}, "idleTimeout": "1h"}),
    ]
}

/// Objects with these sessions, of the kinds that the release has.
fn with_sessions(release: Release, persistence: &Value) -> Vec<Value> {
    let object = |group: &str, version: &str, kind: &str, spec: Value| {
        let api_version = format!("gateway.networking.{group}/{version}");
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": spec})
    };
    let rules = json!([{"backendRefs": [{"name": "web", "port": 80}], "sessionPersistence": persistence}]);
    let route = |kind: &str| {
        object(
            "k8s.io",
            "v1",
            kind,
            json!({"parentRefs": [{"name": "web"}], "rules": rules}),
        )
    };
    let target = json!([{"group": "", "kind": "Service", "name": "web"}]);
    let policy = json!({"targetRefs": target, "sessionPersistence": persistence});
    let mut objects = vec![route("HTTPRoute"), route("GRPCRoute")];
    if release == Release::V1_2_1 {
        objects.push(object("k8s.io", "v1alpha2", "BackendLBPolicy", policy));
    } else {
        objects.push(object("x-k8s.io", "v1alpha1", "XBackendTrafficPolicy", policy));
    }
    if release == Release::V1_7_0 {
        let selector = json!({"matchLabels": {"app": "web"}});
        let spec = json!({
            "type": "EndpointSelector", "endpointSelector": selector, "port": {"number": 80},
            "sessionPersistence": persistence,
        });
        objects.push(object("x-k8s.io", "v1alpha1", "XBackend", spec));
    }
    objects
}

/// Whether `limpet render` accepts the object, with what it needs, for this release.
fn renders(folder: &std::path::Path, release: &str, object: &Value) -> Result<bool> {
    let meta = |name: &str| json!({"name": name});
    let api = "gateway.networking.k8s.io/v1";
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let x_backend = json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": "web"});
    let mut items = vec![
        json!({"apiVersion": api, "kind": "GatewayClass", "metadata": meta("limpet"),
            "spec": {"controllerName": "limpet.dev/controller"}}),
        json!({"apiVersion": api, "kind": "Gateway", "metadata": meta("web"),
            "spec": {"gatewayClassName": "limpet", "listeners": listeners}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta("web"), "spec": {"ports": [{"port": 80}]}}),
        object.clone(),
    ];
    if !object["kind"].as_str().unwrap_or_default().ends_with("Route") {
        let backend = if object["kind"] == "XBackend" {
            x_backend
        } else {
            json!({"name": "web", "port": 80})
        };
        items.push(json!({"apiVersion": api, "kind": "HTTPRoute", "metadata": meta("web"),
            "spec": {"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": [backend]}]}}));
    }
    let file = folder.join("objects.json");
    std::fs::write(
        &file,
        json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string(),
    )?;
    let file = file.to_string_lossy();
    let output = tools::run_limpet(&["render", "-f", &file, "--gateway-api", release], &[])?;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(2) => Ok(false),
        _ => bail!("{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// An empty object of each served version.
fn objects_of(definition: &Value) -> Vec<Value> {
    let spec = &definition["spec"];
    let group = spec["group"].as_str().unwrap_or_default();
    let versions = spec["versions"].as_array().into_iter().flatten();
    let served = versions.filter(|version| version["served"] == true);
    let names = served.filter_map(|version| version["name"].as_str());
    let object = |version| {
        let api_version = format!("{group}/{version}");
        json!({"apiVersion": api_version, "kind": spec["names"]["kind"], "metadata": {"name": "a"}, "spec": {}})
    };
    names.map(object).collect()
}

/// Other objects of the Gateway API among the manifests are no mistake.
#[test]
fn render_knows_every_kind_of_every_release() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut kinds = 0;
    for release in [Release::V1_2_1, Release::V1_6_1, Release::V1_7_0] {
        for file in release.channel("experimental")? {
            let documents: Vec<Value> = serde_saphyr::from_multiple(&std::fs::read_to_string(file)?)?;
            for definition in documents.iter().filter(|one| one["kind"] == "CustomResourceDefinition") {
                for object in objects_of(definition) {
                    let file = folder.path().join("object.json");
                    std::fs::write(&file, object.to_string())?;
                    let output = tools::run_limpet(&["render", "-f", &file.to_string_lossy()], &[])?;
                    let report = String::from_utf8_lossy(&output.stdout);
                    assert!(
                        !report.contains("notKnown") && output.stderr.is_empty(),
                        "{release:?}: {object}: {output:?}"
                    );
                    kinds += 1;
                }
            }
        }
    }
    assert!(kinds > 30, "{kinds} kinds");
    Ok(())
}

/// Limpet may be stricter than a definition, but never accepts what it refuses.
#[tokio::test]
async fn render_is_as_strict_as_each_releases_definitions() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut differences = Vec::new();
    for (release, name) in [
        (Release::V1_2_1, "1.2"),
        (Release::V1_6_1, "1.6"),
        (Release::V1_7_0, "1.7"),
    ] {
        let namespace = Cluster::shared(release).await?.namespace("strict").await?;
        let (mut accepted, mut refusals) = (0, 0);
        for persistence in shapes() {
            for object in with_sessions(release, &persistence) {
                let is_accepted = namespace.dry_run(&object).await.is_ok();
                let is_rendered = renders(folder.path(), name, &object)?;
                if is_rendered && !is_accepted {
                    differences.push(format!("{name}: {} {persistence}", object["kind"]));
                }
                accepted += usize::from(is_accepted && is_rendered);
                refusals += usize::from(!is_accepted);
            }
        }
        assert!(
            accepted >= 12 && refusals >= 40,
            "{name}: {accepted} accepted, {refusals} refused"
        );
    }
    assert!(differences.is_empty(), "{differences:#?}");
    Ok(())
}
