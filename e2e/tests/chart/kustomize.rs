//! The folders for kustomize have the objects that the chart prints.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use limpet_e2e::{helm, tools};
use serde_json::Value;

use crate::{checkout, compare};

const HEAD: &str = "# Written by `make manifests` from controller/deploy/chart.\n";

/// For kustomize, the class is in an example, the definitions are in files, and certificates are made elsewhere.
const VALUES: &str = "gatewayClass.create=false,crds.install=false";

/// A folder: its place in `controller/deploy`, its namespace, more values, and its files with the chart's templates
/// that they are made of.
struct Folder {
    path: &'static str,
    namespace: &'static str,
    values: &'static str,
    files: &'static [(&'static str, &'static [&'static str])],
}

const ROLES: (&str, &[&str]) = ("rbac.yaml", &["rbac.yaml", "optional-roles.yaml"]);
const CONTOUR_ROLES: (&str, &[&str]) = ("rbac.yaml", &["rbac.yaml", "optional-roles.yaml", "contour.yaml"]);
const CONFIG: (&str, &[&str]) = ("config.yaml", &["config.yaml"]);
const CONTROLLER: (&str, &[&str]) = ("controller.yaml", &["controller.yaml"]);

const FOLDERS: [Folder; 5] = [
    Folder {
        path: "",
        namespace: "limpet-system",
        values: "target=envoy",
        files: &[ROLES, CONFIG, CONTROLLER],
    },
    Folder {
        path: "contour/",
        namespace: "limpet-system",
        values: "config.contour.gateway=limpet-system/contour",
        files: &[CONTOUR_ROLES, CONFIG, CONTROLLER],
    },
    Folder {
        path: "cert-manager/",
        namespace: "limpet-system",
        values: "xds.certificates=CertManager,xds.gateways={default/web}",
        files: &[("certificates.yaml", &["cert-manager.yaml"])],
    },
    Folder {
        path: "istio/",
        namespace: "limpet-istio",
        // Your own image takes its place: docs/get-started/istio.md.
        values: "target=istio,config.istio.url=oci://registry.example.com/limpet:1",
        files: &[ROLES, CONFIG, CONTROLLER],
    },
    Folder {
        path: "envoy-gateway/",
        namespace: "limpet-envoy-gateway",
        values: "target=envoy-gateway",
        files: &[ROLES, CONFIG, CONTROLLER],
    },
];

#[test]
fn the_manifests_for_kustomize_are_what_the_chart_prints() -> Result<()> {
    for folder in &FOLDERS {
        let made = tempfile::tempdir()?;
        let chart = helm::chart();
        helm::run(&[
            "template",
            "limpet",
            chart.to_str().context("a path")?,
            "--namespace",
            folder.namespace,
            "--set",
            &format!("{VALUES},{}", folder.values),
            "--output-dir",
            made.path().to_str().context("a path")?,
        ])?;
        for (file, templates) in folder.files {
            let mut text = HEAD.to_owned();
            for template in *templates {
                // A template that makes nothing has no file.
                let path = made.path().join("limpet/templates").join(template);
                let printed = fs::read_to_string(path).unwrap_or_default();
                text.push_str(&without_source(&printed));
            }
            ensure!(text != HEAD, "{}{file} is empty", folder.path);
            compare(&checkout(&format!("controller/deploy/{}{file}", folder.path)), &text)?;
        }
    }
    Ok(())
}

/// As `kubectl apply -k` reads it. The definitions are the chart's, through a link.
#[test]
fn kustomize_builds_each_folder() -> Result<()> {
    for (folder, kinds) in [
        ("", &["Namespace", "CustomResourceDefinition", "Deployment"][..]),
        ("envoy", &["Gateway", "Deployment"]),
        (
            "contour",
            &["Namespace", "CustomResourceDefinition", "ClusterRoleBinding", "Service"],
        ),
        ("crds/contour", &["CustomResourceDefinition"]),
        ("istio", &["Namespace", "Deployment"]),
        ("envoy-gateway", &["Namespace", "Deployment"]),
        ("monitoring", &["PrometheusRule", "ConfigMap"]),
    ] {
        let output = Command::new(tools::helm()?.with_file_name("kubectl"))
            .arg("kustomize")
            .arg(checkout("controller/deploy").join(folder))
            .output()?;
        ensure!(
            output.status.success(),
            "{folder}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let objects: Vec<Value> = serde_saphyr::from_multiple(&String::from_utf8(output.stdout)?)?;
        for kind in kinds {
            ensure!(
                objects.iter().any(|object| object["kind"] == *kind),
                "{folder} has no {kind}"
            );
        }
    }
    Ok(())
}

/// The text without Helm's lines about an object's template, and the empty ones in front of them.
fn without_source(printed: &str) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for line in printed.lines() {
        if line == "---" {
            while lines.last() == Some(&"") {
                lines.pop();
            }
        }
        if !line.starts_with("# Source: ") {
            lines.push(line);
        }
    }
    let text = lines.join("\n");
    format!("{}\n", text.trim_end())
}
