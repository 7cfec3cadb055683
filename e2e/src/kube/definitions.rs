//! Custom resource definitions.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Client, manifest};
use crate::poll;

impl Client {
    /// Applies custom resource definitions and admission policies (YAML), and waits until they are in force.
    ///
    /// # Errors
    /// If a definition is refused, or its kind is not served.
    pub async fn define(&self, definitions: &str) -> Result<()> {
        let definitions = manifest::objects(definitions)?;
        for definition in &definitions {
            let applied = self.apply_object(definition).await;
            applied.with_context(|| format!("the definition {}", definition["metadata"]["name"]))?;
        }
        // The API server needs a moment for each, all at the same time.
        for definition in &definitions {
            match definition["kind"].as_str() {
                Some("CustomResourceDefinition") => self.until_defined(definition).await?,
                Some("ValidatingAdmissionPolicy") => self.until_definitions_are_judged(true).await?,
                _ => (),
            }
        }
        Ok(())
    }

    /// As [`Client::define`], for these files.
    ///
    /// # Errors
    /// As [`Client::define`], or if a file cannot be read.
    pub async fn define_all(&self, files: &[PathBuf]) -> Result<()> {
        let mut yaml = String::new();
        for file in files {
            yaml += &std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
            yaml += "\n---\n";
        }
        self.define(&yaml).await
    }

    /// Waits until an admission policy of the Gateway API is in force, or no longer.
    ///
    /// # Errors
    /// If that does not happen.
    pub async fn until_definitions_are_judged(&self, judged: bool) -> Result<()> {
        poll::until("the admission policy of the Gateway API", async || {
            let answer = self.dry_run(&of_no_release()).await;
            let refused = answer.is_err_and(|error| format!("{error:#}").contains("ValidatingAdmissionPolicy"));
            (refused == judged).then_some(())
        })
        .await
    }
}

/// A definition in the Gateway API's group without its release.
fn of_no_release() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "probes.gateway.networking.k8s.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
        },
        "spec": {
            "group": "gateway.networking.k8s.io",
            "scope": "Namespaced",
            "names": {"kind": "Probe", "plural": "probes"},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }],
        },
    })
}
