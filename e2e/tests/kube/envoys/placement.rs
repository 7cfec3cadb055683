//! `envoy.managed.namespace`: the namespace of Envoys, and all that they need there.

use anyhow::{Context, Result};
use limpet_api::ObjectName;
use limpet_e2e::kube::{Client, Controller, Namespace};
use limpet_model::{envoys_certificate, envoys_keys, envoys_name};
use serde_json::{Value, json};

use super::{DEPLOYMENT, KINDS, SECRET, allow_in, allow_secrets, gateway_of, namespace, parameters, refers_to};
use crate::keyring::KEK;
use crate::site::condition;

/// A controller in a namespace, and a Gateway `web` in another one.
struct Apart {
    controller: Controller,
    system: Namespace,
    shop: Namespace,
    gateway: ObjectName,
}

impl Apart {
    /// `place` is `envoy.managed.namespace`. The controller has its own keyring and authority.
    async fn start(prefix: &str, place: &str) -> Result<Self> {
        let (cluster, system) = namespace(prefix).await?;
        let shop = cluster.namespace(&format!("{prefix}-shop")).await?;
        let namespaces = json!([system.name(), shop.name()]);
        let mut controller = Controller::prepare(cluster.server(), &system, |config| {
            config["namespaces"] = namespaces;
            config["keyring"] = json!({});
            config["envoy"]["managed"] = json!({"namespace": place});
            config["xds"] = json!({"address": config["xds"]["address"], "tls": {"authority": {}}});
        })
        .await?;
        controller.launch()?;
        controller.until_ready().await?;
        gateway_of(&shop, system.name(), "web", &json!({})).await?;
        Ok(Self {
            gateway: ObjectName::new(shop.name(), "web"),
            controller,
            system,
            shop,
        })
    }

    fn objects(&self) -> Vec<(&'static str, String)> {
        let name = envoys_name(&self.gateway);
        let written = KINDS.into_iter().map(|kind| (kind, name.clone()));
        let certificate = (SECRET, envoys_certificate(&self.gateway));
        written.chain([certificate]).collect()
    }

    /// Waits until all objects are `here`, and none of them `there`.
    async fn until_all_in(&self, here: &Client, there: &Client) -> Result<Vec<Value>> {
        let mut found = Vec::new();
        for (kind, name) in self.objects() {
            let object = here.until("it to be there", kind, &name, |_| true).await;
            found.push(object.with_context(|| self.controller.log().unwrap_or_default())?);
            assert_eq!(there.find(kind, &name).await?, None, "{kind}");
        }
        Ok(found)
    }

    async fn until_gone_from(&self, here: &Client) -> Result<()> {
        self.shop.delete("Gateway", "web").await?;
        for (kind, name) in self.objects() {
            here.until_gone(kind, &name).await?;
        }
        Ok(())
    }

    /// Parameters that would run any program beside the controller's keys.
    async fn ask_for_an_image(&self) -> Result<()> {
        let spec = json!({"envoy": {"image": "mine"}});
        parameters(&self.shop, "mine", &spec).await?;
        gateway_of(&self.shop, self.system.name(), "web", &refers_to("mine")).await
    }
}

#[tokio::test]
async fn envoys_in_the_controllers_namespace_leave_none_elsewhere() -> Result<()> {
    let site = Apart::start("own-place", "Controller").await?;
    let objects = site.until_all_in(&site.system, &site.shop).await?;
    // An owner in another namespace would count as gone.
    for object in &objects {
        assert!(object["metadata"]["ownerReferences"].is_null(), "{object:#}");
    }
    let keys = &objects[0]["spec"]["template"]["spec"]["containers"][0]["envFrom"];
    assert_eq!(keys[0]["secretRef"]["name"], KEK);
    site.ask_for_an_image().await?;
    let refused = |object: &Value| condition(&object["status"]["conditions"], "Accepted") == "False/InvalidParameters";
    let gateway = site.shop.until("the refusal", "Gateway", "web", refused).await?;
    let message = gateway["status"]["conditions"].to_string();
    assert!(message.contains("spec.envoy.image"), "{message}");
    site.until_gone_from(&site.system).await
}

#[tokio::test]
async fn envoys_in_the_gateways_namespace_have_all_they_need_there() -> Result<()> {
    let site = Apart::start("their-place", "Gateway").await?;
    // The controller may not write there.
    let unwritten = |object: &Value| {
        let found = condition(&object["status"]["conditions"], "Programmed");
        found == "False/EnvoysNotWritten"
    };
    let gateway = site
        .shop
        .until("the missing right", "Gateway", "web", unwritten)
        .await?;
    let message = gateway["status"]["conditions"].to_string();
    assert!(message.contains(site.shop.name()), "{message}");
    allow_secrets(&site.system).await?;
    allow_in(&site.system, &site.shop).await?;

    let objects = site.until_all_in(&site.shop, &site.system).await?;
    let uid = &gateway["metadata"]["uid"];
    for object in &objects {
        let owner = &object["metadata"]["ownerReferences"][0];
        assert_eq!((&owner["kind"], &owner["uid"]), (&json!("Gateway"), uid), "{object:#}");
    }
    // A pod reads Secrets of its own namespace only.
    let copy = envoys_keys(&site.gateway);
    let envoy = &objects[0]["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(envoy["envFrom"][0]["secretRef"]["name"], copy.as_str());
    let keys = site.system.get(SECRET, KEK).await?["data"].clone();
    let is_copied = |copy: &Value| copy["data"] == keys;
    site.shop.until("a copy of the keys", SECRET, &copy, is_copied).await?;

    // Writers of Gateways run programs here anyway.
    site.ask_for_an_image().await?;
    let name = envoys_name(&site.gateway);
    let has_image = |object: &Value| object["spec"]["template"]["spec"]["containers"][0]["image"] == "mine";
    site.shop.until("the image", DEPLOYMENT, &name, has_image).await?;
    site.until_gone_from(&site.shop).await?;
    site.shop.until_gone(SECRET, &copy).await
}
