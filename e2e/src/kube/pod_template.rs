//! What a kubelet derives from a container's specification.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Client;
use super::envoy_gateway::{secret, text};
use super::root::Root;

#[derive(Debug)]
pub(super) struct Container<'a> {
    pod: &'a Value,
    spec: &'a Value,
    name: &'a str,
}

impl<'a> Container<'a> {
    pub(super) fn of(pod: &'a Value, container: &str, name: &'a str) -> Result<Self> {
        let spec = each(&pod["containers"])
            .find(|candidate| candidate["name"] == container)
            .with_context(|| format!("no container {container}"))?;
        Ok(Self { pod, spec, name })
    }

    pub(super) fn arguments(&self, environment: &BTreeMap<String, String>) -> Vec<String> {
        let expanded = |argument: &Value| {
            let mut argument = argument.as_str().unwrap_or_default().to_owned();
            for (name, value) in environment {
                argument = argument.replace(&format!("$({name})"), value);
            }
            argument
        };
        each(&self.spec["args"]).map(expanded).collect()
    }

    /// The environment; variables from the pod's status are empty.
    pub(super) async fn environment(&self, client: &Client) -> Result<BTreeMap<String, String>> {
        let mut environment = BTreeMap::new();
        for variable in each(&self.spec["env"]) {
            let from = &variable["valueFrom"];
            let value = if let Some(reference) = from.get("secretKeyRef") {
                let key = text(reference, "key")?;
                let content = secret(client, text(reference, "name")?).await?;
                let found = content.into_iter().find(|(name, _)| name == key);
                String::from_utf8(found.with_context(|| format!("no {key} in the Secret"))?.1)?
            } else if let Some(reference) = from.get("fieldRef") {
                match text(reference, "fieldPath")? {
                    "metadata.name" => self.name.to_owned(),
                    _ => String::new(),
                }
            } else {
                variable["value"].as_str().unwrap_or_default().to_owned()
            };
            environment.insert(text(variable, "name")?.to_owned(), value);
        }
        Ok(environment)
    }

    pub(super) async fn mount_into(&self, root: &Root, client: &Client) -> Result<()> {
        for mount in each(&self.spec["volumeMounts"]) {
            let name = text(mount, "name")?;
            let path = text(mount, "mountPath")?;
            let volume = each(&self.pod["volumes"])
                .find(|volume| volume["name"] == name)
                .with_context(|| format!("no volume {name}"))?;
            root.directory(path)?;
            for (file, content) in content(volume, client).await? {
                root.write(&format!("{path}/{file}"), content)?;
            }
        }
        Ok(())
    }
}

async fn content(volume: &Value, client: &Client) -> Result<Vec<(String, Vec<u8>)>> {
    if let Some(source) = volume.get("secret") {
        return secret(client, text(source, "secretName")?).await;
    }
    if let Some(source) = volume.get("configMap") {
        let map = client.get("v1/ConfigMap", text(source, "name")?).await?;
        let file = |item: &Value| {
            let key = text(item, "key")?;
            let content = text(&map["data"], key)?.as_bytes().to_vec();
            Ok((text(item, "path")?.to_owned(), content))
        };
        return each(&source["items"]).map(file).collect();
    }
    if volume.get("emptyDir").is_some() {
        return Ok(Vec::new());
    }
    bail!("the test bed does not know this kind of volume: {volume}")
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
