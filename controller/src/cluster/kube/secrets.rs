use std::collections::BTreeMap;

use base64::Engine as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use serde::Deserialize;
use zeroize::Zeroizing;

use super::certificate;
use super::item::dynamic_resource;
use super::named_object::{self, ObservedObject};
use super::update::{StoreUpdate, UpdateSender};
use limpet_api::{GatewayListener, Kind, Meta, ObjectName};
use limpet_model::{Certificate, GrantedReferences, Objects, Referrer};

const TLS: &str = "kubernetes.io/tls";

/// The values are in base64.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawSecret {
    metadata: ObjectMeta,
    #[serde(rename = "type")]
    secret_type: String,
    data: BTreeMap<String, SecretText>,
}

/// Wiped when it is dropped.
#[derive(Clone, Deserialize)]
#[serde(from = "String")]
struct SecretText(Zeroizing<String>);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

dynamic_resource!(RawSecret);

pub(super) async fn watch(client: Client, name: ObjectName, updates: UpdateSender) {
    let update = |found: ObservedObject<RawSecret>| {
        let found = match found {
            Ok(secret) => secret.as_ref().map(read),
            Err(_) => Some(Err(format!(
                "limpet has no right to read it: grant list and watch on the Secret {name}"
            ))),
        };
        StoreUpdate::Secret(name.clone(), found)
    };
    named_object::send(client, ("Secret", "secrets"), &name, &updates, update).await;
}

pub(super) fn read(secret: &RawSecret) -> Result<Certificate, String> {
    if secret.secret_type != TLS {
        return Err(format!("expected the type {TLS}, found {}", secret.secret_type));
    }
    let value = |field: &str| {
        let text = secret.data.get(field).ok_or_else(|| format!("expected data.{field}"))?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text.0.as_bytes());
        bytes
            .map(Zeroizing::new)
            .map_err(|_| format!("data.{field}: expected base64"))
    };
    certificate::read(&value("tls.crt")?, value("tls.key")?)
}

/// The Secrets that listeners of our Gateways name, and may name, each with the Gateway.
pub(super) fn referenced<'a>(objects: &'a Objects, controller: &str) -> Vec<(&'a Meta, ObjectName)> {
    let references = GrantedReferences::new(objects);
    let mut wanted = Vec::new();
    for (gateway, object) in &objects.gateways {
        let class = objects.gateway_classes.get(&object.spec.gateway_class_name);
        if class.is_none_or(|class| class.spec.controller_name != controller) {
            continue;
        }
        let names = object
            .spec
            .listeners
            .iter()
            .flat_map(|listener| secrets(listener, gateway));
        let referrer = Referrer {
            kind: Kind::Gateway,
            namespace: &gateway.namespace,
        };
        let names = names.filter(|name| references.permitted(referrer, "", "Secret", name));
        wanted.extend(names.map(|name| (&object.meta, name)));
    }
    wanted
}

fn secrets<'a>(listener: &'a GatewayListener, gateway: &'a ObjectName) -> impl Iterator<Item = ObjectName> + 'a {
    let refs = listener.tls.iter().flat_map(|tls| &tls.certificate_refs);
    refs.filter(|reference| reference.group.is_empty() && reference.kind == "Secret")
        .map(|reference| {
            let namespace = reference.namespace.as_deref().unwrap_or(&gateway.namespace);
            ObjectName::new(namespace, &reference.name)
        })
}
