//! Objects that `limpet controller --target envoy-gateway` writes.

mod carriers;
mod failures;
mod sessions;

use anyhow::Result;
use limpet_e2e::Build;
use limpet_e2e::kube::{Controller, Output, Proxy};
use serde_json::Value;

use crate::site::EnvoyGatewaySite;

/// A session policy for the Service, in the only dialect of Envoy Gateway's definitions.
pub(crate) const POLICY: &str = "
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XBackendTrafficPolicy
metadata: {name: shop}
spec:
  targetRefs: [{group: '', kind: Service, name: shop}]
  sessionPersistence: {sessionName: limpet-session}
";

pub(crate) struct ControlledSite {
    pub(crate) site: EnvoyGatewaySite,
    pub(crate) controller: Controller,
    pub(crate) envoy: Proxy,
}

impl ControlledSite {
    pub(crate) async fn start(prefix: &str) -> Result<Self> {
        Self::start_with(prefix, |_| ()).await
    }

    /// `change` may change the controller's configuration.
    pub(crate) async fn start_with(prefix: &str, change: impl FnOnce(&mut Value)) -> Result<Self> {
        let site = EnvoyGatewaySite::prepare(prefix, Build::Module).await?;
        let server = site.gateway.cluster().server();
        let mut controller = Controller::prepare_for(Output::EnvoyGateway, server, &site.namespace, |config| {
            config["propagationTime"] = "500ms".into();
            config["keyring"]["phaseTime"] = "500ms".into();
            change(config);
        })
        .await?;
        controller.launch()?;
        controller.until_ready().await?;
        let key = controller.key_encryption_key();
        site.secret("limpet", &key.variable, &key.key).await?;
        site.namespace.apply(&gateway_and_route(&site, &key.variable)?).await?;
        site.namespace.apply(POLICY).await?;
        let envoy = site.envoy().await?;
        site.until_sessions().await?;
        Ok(Self {
            site,
            controller,
            envoy,
        })
    }

    /// Waits until the session policy has this condition. Returns its message.
    pub(crate) async fn until_programmed(&self, expected: &str) -> Result<String> {
        let found = self
            .site
            .until_policy("XBackendTrafficPolicy", "shop", "Programmed", expected)
            .await?;
        let conditions = found["status"]["ancestors"][0]["conditions"].clone();
        let programmed = conditions
            .as_array()
            .into_iter()
            .flatten()
            .find(|condition| condition["type"] == "Programmed");
        let message = programmed.and_then(|condition| condition["message"].as_str());
        Ok(message.unwrap_or_default().to_owned())
    }

    pub(crate) async fn written(&self) -> Result<Vec<String>> {
        let mut written = Vec::new();
        for kind in ["EnvoyExtensionPolicy", "EnvoyPatchPolicy"] {
            for object in self
                .site
                .namespace
                .list(kind, "app.kubernetes.io/managed-by=limpet")
                .await?
            {
                // Envoy Gateway writes the objects' statuses, which change their versions.
                written.push(format!(
                    "{kind} {} {}",
                    object["metadata"]["name"], object["metadata"]["generation"]
                ));
            }
        }
        Ok(written)
    }
}

/// The objects of module.yaml that the controller does not write.
fn gateway_and_route(site: &EnvoyGatewaySite, variable: &str) -> Result<String> {
    let example = site.manifest("module.yaml")?.replace("LIMPET_KEY", variable);
    let is_users = |document: &&str| !document.contains("kind: EnvoyExtensionPolicy");
    Ok(example
        .split("\n---\n")
        .filter(is_users)
        .collect::<Vec<_>>()
        .join("\n---\n"))
}
