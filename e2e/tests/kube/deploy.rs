//! What `controller/deploy` installs. No container runs here: the test starts what a kubelet would, with the objects'
//! commands and files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::prelude::{BASE64_STANDARD, Engine};
use hyper::Method;
use limpet_api::ObjectName;
use limpet_e2e::kube::{Client, Cluster, Controller, Proxy, Release, refused};
use limpet_e2e::{Request, Visitor, poll, tools};
use limpet_model::{envoys_certificate, envoys_uri};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::mounted::Mounted;
use crate::site::{POLICY, condition, site_objects};

const WEB: &[(&str, &str)] = &[("app", "web")];
const SYSTEM: &str = "limpet-system";

fn directory() -> PathBuf {
    tools::checkout().join("controller/deploy")
}

fn objects(file: &str) -> Result<Vec<Value>> {
    let text = fs::read_to_string(directory().join(file)).with_context(|| format!("cannot read {file}"))?;
    parsed(&text).with_context(|| file.to_owned())
}

fn parsed(text: &str) -> Result<Vec<Value>> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn listed(folder: &str) -> Result<Vec<String>> {
    let kustomization = objects(&format!("{folder}kustomization.yaml"))?;
    let resources = kustomization[0]["resources"].as_array().context("no resources")?;
    let names = resources.iter().filter_map(Value::as_str);
    let names = names.filter(|name| !name.starts_with("../"));
    Ok(names.map(|name| format!("{folder}{name}")).collect())
}

fn find(file: &str, kind: &str, name: &str) -> Result<Value> {
    let mut all = objects(file)?.into_iter();
    all.find(|object| object["kind"] == kind && object["metadata"]["name"] == name)
        .with_context(|| format!("{file} has no {kind} {name}"))
}

fn configuration(file: &str) -> Result<String> {
    let map = find(file, "ConfigMap", "limpet-controller")?;
    let text = map["data"]["controller.yaml"].as_str();
    Ok(text.context("no controller.yaml")?.to_owned())
}

/// A pod from a Deployment's template (dry run).
async fn try_pod(client: &Client, template: &Value) -> Result<Value> {
    let mut pod = template.clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "try".into();
    let path = format!("/api/v1/namespaces/{SYSTEM}/pods?dryRun=All&fieldValidation=Strict");
    client.call(Method::POST, &path, "application/json", Some(&pod)).await
}

#[test]
fn every_manifest_is_listed() -> Result<()> {
    fn walk(folder: &Path, found: &mut BTreeSet<String>) -> Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.ends_with("chart") {
                // It has templates.
            } else if path.is_dir() {
                walk(&path, found)?;
            } else if path.extension().is_some_and(|extension| extension == "yaml")
                && !path.ends_with("kustomization.yaml")
            {
                found.insert(path.strip_prefix(directory())?.display().to_string());
            }
        }
        Ok(())
    }
    let mut found = BTreeSet::new();
    walk(&directory(), &mut found)?;
    let mut expected = BTreeSet::new();
    for folder in [
        "",
        "cert-manager/",
        "contour/",
        "crds/",
        "crds/contour/",
        "envoy/",
        "envoy-gateway/",
        "istio/",
        "monitoring/",
    ] {
        expected.extend(listed(folder)?);
    }
    // For a Prometheus without an operator.
    expected.insert("monitoring/limpet.rules.yaml".to_owned());
    assert_eq!(found, expected);
    Ok(())
}

/// As `kubectl apply -k`. The namespaces accept only restricted pods.
async fn install(cluster: &Cluster, files: &[String]) -> Result<usize> {
    let client = cluster.server().admin();
    let mut deployments = 0;
    for file in files {
        if file.starts_with("crds/") {
            let definition = fs::read_to_string(directory().join(file))?;
            cluster.define(&definition).await?;
            continue;
        }
        for object in objects(file)? {
            let applied = client.apply_object(&object).await;
            applied.with_context(|| format!("{file}: {} {}", object["kind"], object["metadata"]["name"]))?;
            if object["kind"] == "Deployment" {
                deployments += 1;
                let template = &object["spec"]["template"];
                try_pod(&client, template).await.with_context(|| file.clone())?;
                let mut root = template.clone();
                root["spec"]["securityContext"]["runAsNonRoot"] = false.into();
                let refusal = refused(try_pod(&client, &root).await)?;
                ensure!(refusal.message.contains("runAsNonRoot"), "{refusal}");
            }
        }
    }
    Ok(deployments)
}

#[tokio::test]
async fn the_api_server_accepts_every_object() -> Result<()> {
    for release in Release::ALL {
        let cluster = Cluster::shared(release).await?;
        let mut files = [
            listed("")?,
            listed("envoy/")?,
            listed("crds/contour/")?,
            listed("contour/")?,
            listed("envoy-gateway/")?,
            listed("istio/")?,
        ]
        .concat();
        if release == Release::V1_2_1 {
            // This release has the definition itself.
            files.retain(|file| file != "crds/backendlbpolicies.yaml");
        }
        let deployments = install(cluster, &files).await;
        assert_eq!(deployments.with_context(|| release.tag())?, 6);
    }
    Ok(())
}

/// The controller's image has no shell, and Envoy's may have none.
#[test]
fn no_container_runs_a_shell() -> Result<()> {
    for file in [
        "controller.yaml",
        "envoy/envoy.yaml",
        "contour/controller.yaml",
        "contour/envoy.yaml",
        "istio/controller.yaml",
        "envoy-gateway/controller.yaml",
    ] {
        let text = objects(file)?.iter().map(Value::to_string).collect::<String>();
        for shell in ["\"sh\"", "\"bash\"", "/bin/"] {
            ensure!(!text.replace("/usr/local/bin/", "").contains(shell), "{file}: {shell}");
        }
    }
    Ok(())
}

#[test]
fn the_controller_accepts_its_configuration() -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("controller.yaml");
    let check = |text: &str| -> Result<(Option<i32>, String)> {
        fs::write(&file, text)?;
        let name = file.to_str().context("a path")?;
        let output = tools::run_limpet(&["controller", "--check", "--config", name], &[])?;
        Ok((
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    };
    let with_contour = configuration("contour/config.yaml")?;
    ensure!(with_contour.contains("contour:"), "{with_contour}");
    assert_eq!(check(&with_contour)?, (Some(0), String::new()));
    let text = configuration("config.yaml")?;
    assert_eq!(check(&text)?, (Some(0), String::new()));
    let (code, complaint) = check(&format!("{text}\nother: 1\n"))?;
    assert_eq!(code, Some(2));
    assert!(complaint.contains("other"), "{complaint}");
    Ok(())
}

/// Printed by `certificates.sh` for these Gateways.
fn certificates(folder: &Path, gateways: &[&str]) -> Result<Vec<Value>> {
    let made = Command::new(directory().join("certificates.sh"))
        .arg(folder)
        .args(gateways)
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    parsed(&String::from_utf8(made.stdout)?)
}

#[test]
fn a_gateways_secret_has_one_name_whoever_makes_it() -> Result<()> {
    let gateways = [
        "default/web",
        "shop/a.very.long.name-of-a-gateway.-that-ends",
        "a-b/0.1",
    ];
    let name = |gateway: &str| {
        let (namespace, name) = gateway.split_once('/').unwrap_or_default();
        envoys_certificate(&ObjectName::new(namespace, name))
    };
    let folder = TempDir::new()?;
    let printed = certificates(&folder.path().join("authority"), &gateways)?;
    let printed: Vec<_> = printed.iter().map(|secret| &secret["metadata"]["name"]).collect();
    let mut expected = vec![json!("limpet-xds-server")];
    expected.extend(gateways.map(|gateway| json!(name(gateway))));
    assert_eq!(printed, expected.iter().collect::<Vec<_>>());

    for (file, deployment, gateway) in [
        ("envoy/envoy.yaml", "limpet-envoy-web", "default/web"),
        ("contour/envoy.yaml", "limpet-envoy-contour", "limpet-system/contour"),
    ] {
        let secret = name(gateway);
        let deployment = find(file, "Deployment", deployment)?;
        let volumes = deployment["spec"]["template"]["spec"]["volumes"].as_array();
        let mut mounted = volumes.context("no volumes")?.iter();
        assert!(
            mounted.any(|volume| volume["secret"]["secretName"] == *secret),
            "{secret}"
        );
    }

    let web = name("default/web");
    let file = "cert-manager/certificates.yaml";
    let client = &find(file, "Certificate", &web)?["spec"];
    assert_eq!(client["secretName"], *web);
    assert_eq!(client["uris"], json!([envoys_uri(&ObjectName::new("default", "web"))]));
    let server = find(file, "Certificate", "limpet-xds-server")?;
    let names = server["spec"]["dnsNames"].as_array().context("no names")?;
    assert!(names.contains(&json!("limpet-controller.limpet-system")));
    Ok(())
}

#[test]
fn the_script_says_what_it_expects() -> Result<()> {
    let folder = TempDir::new()?;
    let authority = folder.path().join("authority");
    for wrong in [&[][..], &["web"], &["default/web", "a/b/c"], &["default/"]] {
        let error = certificates(&authority, wrong)
            .err()
            .context("it is taken")?
            .to_string();
        assert!(error.contains("usage:") && error.contains("NAMESPACE/NAME"), "{error}");
    }
    assert!(!authority.exists());
    Ok(())
}

/// The arguments of an init container, with replacements. It has no command: the image's is `limpet`.
fn arguments_of(pod: &Value, container: &str, replaced: &[(&str, String)]) -> Result<Vec<String>> {
    let mut all = pod["initContainers"].as_array().into_iter().flatten();
    let found = all.find(|candidate| candidate["name"] == container);
    let found = found.with_context(|| format!("no init container {container}"))?;
    ensure!(found.get("command").is_none(), "{found}");
    let arguments = found["args"].as_array().context("no arguments")?;
    let argument = |argument: &Value| {
        let mut argument = argument.as_str().context("not text")?.to_owned();
        // In turn, so that a path is replaced once.
        if let Some((from, to)) = replaced.iter().find(|(from, _)| argument.contains(from)) {
            argument = argument.replace(from, to);
        }
        Ok(argument)
    };
    arguments.iter().map(argument).collect()
}

/// The test replaces addresses and folders only.
#[tokio::test]
async fn the_deployed_envoy_is_configured_over_mutual_tls() -> Result<()> {
    let cluster = Cluster::shared(Release::V1_2_1).await?;
    let namespace = cluster.namespace("deploy").await?;
    namespace.gateway_class().await?;
    namespace.service("web", WEB).await?;
    let _pod = namespace.pod("a", WEB).await?;
    namespace.apply(&site_objects(&namespace)).await?;
    namespace.apply(POLICY).await?;

    let folder = TempDir::new()?;
    let shipped = parsed(&configuration("config.yaml")?)?.remove(0);
    let controller = Controller::start(cluster.server(), &namespace, |config| {
        let address = config["xds"]["address"].clone();
        config["xds"] = shipped["xds"].clone();
        config["xds"]["address"] = address;
        config["keyring"] = json!({});
    })
    .await?;

    let client = folder.path().join("limpet-xds");
    let secret = envoys_certificate(&ObjectName::new(namespace.name(), "web"));
    let _mounted = Mounted::new(&namespace, &secret, &client).await?;
    let deployment = find("envoy/envoy.yaml", "Deployment", "limpet-envoy-web")?;
    let pod = &deployment["spec"]["template"]["spec"];
    let etc = folder.path().join("etc");
    let host = format!("limpet-controller.{}", namespace.name());
    let server_name = format!("--server-name={host}");
    let image = tools::wasm()?.parent().context("in no folder")?.display().to_string();
    let replaced = [
        ("default/web", format!("{}/web", namespace.name())),
        ("limpet-controller.limpet-system:18000", controller.xds().to_string()),
        ("$(POD_NAME)", "web-0".to_owned()),
        ("/etc/limpet-xds", client.display().to_string()),
        ("/etc/limpet", etc.display().to_string()),
    ];
    for (container, more) in [
        ("install", ["--from", &image].as_slice()),
        ("bootstrap", &[&server_name]),
    ] {
        let arguments = arguments_of(pod, container, &replaced)?;
        let arguments: Vec<&str> = arguments
            .iter()
            .map(String::as_str)
            .chain(more.iter().copied())
            .collect();
        let ran = tools::run_limpet(&arguments, &[])?;
        ensure!(
            ran.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
    assert_eq!(fs::read(etc.join("limpet.wasm"))?, fs::read(tools::wasm()?)?);

    let data = namespace.get("v1/Secret", "limpet-key-encryption-key").await?["data"].take();
    let mut environment = Vec::new();
    for (variable, text) in data.as_object().context("no keys")? {
        let key = BASE64_STANDARD.decode(text.as_str().context("not text")?)?;
        environment.push((variable.as_str(), String::from_utf8(key)?));
    }
    let environment: Vec<_> = environment.iter().map(|(name, key)| (*name, key.as_str())).collect();
    let bootstrap = fs::read_to_string(etc.join("envoy.yaml"))?;
    let mut envoy = Proxy::start(&bootstrap, &environment).await?;
    assert_eq!(
        envoy.admin().address().port(),
        19000,
        "not the port of the preStop hook"
    );
    envoy.until_ready().await?;
    // As a kubelet asks.
    let probe = &pod["containers"][0]["readinessProbe"]["httpGet"];
    assert_eq!(*probe, json!({"path": "/ready", "port": "ready"}));
    let ready = Request::get(([127, 0, 0, 1], 19001).into(), "/ready").send().await?;
    assert_eq!(ready.status, 200);
    let programmed = |object: &Value| condition(&object["status"]["conditions"], "Programmed") == "True/Programmed";
    namespace.until("acknowledgement", "Gateway", "web", programmed).await?;
    let mut visitor = Visitor::of(controller.address(8080));
    poll::until("a session", async || {
        visitor.get("/").await.ok()?;
        visitor.cookie("shop").map(drop)
    })
    .await?;

    // The page documents each metric.
    let page = fs::read_to_string(tools::checkout().join("docs/reference/metrics.md"))?;
    let metrics = controller.page("/metrics").await?.body;
    let metrics = String::from_utf8_lossy(&metrics).into_owned();
    let families = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let mut told = 0;
    for family in families {
        let (name, kind) = family.split_once(' ').context("no type")?;
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        ensure!(
            page.contains(&format!("`{name}{suffix}`")),
            "{name} ({kind}) is not in docs/reference/metrics.md"
        );
        told += 1;
    }
    ensure!(told > 10, "{metrics}");
    Ok(())
}
