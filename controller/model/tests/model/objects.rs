//! Objects from manifests.

use serde_json::Value;

use limpet_model::{Objects, SessionPolicyKind, SessionPolicyName};

/// An object that cannot be read is an error in the test.
pub(crate) fn read(manifests: &str) -> Objects {
    let objects = read_any(manifests);
    let malformed = objects.malformed();
    assert!(malformed.is_empty(), "{malformed:?}");
    objects
}

pub(crate) fn read_any(manifests: &str) -> Objects {
    let mut objects = Objects::default();
    for text in manifests.split("\n---\n").filter(|text| !text.trim().is_empty()) {
        let value: Value = serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        add(&mut objects, &value);
    }
    objects
}

fn add(objects: &mut Objects, value: &Value) {
    let meta = |namespace: &str, name: &str| limpet_api::ObjectName::new(namespace, name);
    macro_rules! insert {
        ($into:ident) => {{
            let read = limpet_api::readable(value);
            objects.$into.insert(read.meta.object_name(), read.into());
        }};
    }
    match value["kind"].as_str().expect("a kind") {
        "GatewayClass" => {
            let read: limpet_api::Object<limpet_api::GatewayClassSpec> = limpet_api::readable(value);
            objects.gateway_classes.insert(read.meta.name.clone(), read.into());
        }
        "Gateway" => insert!(gateways),
        "HTTPRoute" => insert!(http_routes),
        "GRPCRoute" => insert!(grpc_routes),
        "ReferenceGrant" => insert!(reference_grants),
        "Service" => insert!(services),
        "XBackend" => insert!(backends),
        "BackendTLSPolicy" => insert!(backend_tls_policies),
        "EnvoyDeployment" => insert!(envoy_deployments),
        "IngressRoute" => insert!(ingress_routes),
        "TLSCertificateDelegation" => insert!(certificate_delegations),
        // Its data are certificates, if any.
        "ConfigMap" => {
            let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
            let authorities = value["data"]["ca.crt"].as_str().map(limpet_model::Authorities::of_pem);
            let authorities = authorities.ok_or_else(|| "expected data.ca.crt".to_owned());
            objects
                .authorities
                .insert(meta(text("namespace"), text("name")), authorities);
        }
        kind @ ("BackendLBPolicy" | "XBackendTrafficPolicy") => {
            let read: limpet_api::Object<limpet_api::SessionPolicySpec> = limpet_api::readable(value);
            let name = SessionPolicyName {
                kind: if kind == "BackendLBPolicy" {
                    SessionPolicyKind::BackendLbPolicy
                } else {
                    SessionPolicyKind::XBackendTrafficPolicy
                },
                name: read.meta.object_name(),
            };
            objects.session_policies.insert(name, read.into());
        }
        "Namespace" => {
            let labels = serde_json::from_value(value["metadata"]["labels"].clone()).unwrap_or_default();
            objects
                .namespaces
                .insert(value["metadata"]["name"].as_str().expect("a name").into(), labels);
        }
        // Invalid with the annotation `broken`.
        "Secret" => {
            let text = |field: &str| value["metadata"][field].as_str().unwrap_or_default();
            let certificate = match value["metadata"]["annotations"]["broken"].as_str() {
                Some(error) => Err(error.to_owned()),
                None => Ok(limpet_model::Certificate {
                    chain: std::sync::Arc::from(&b"chain"[..]),
                    key: std::sync::Arc::new(zeroize::Zeroizing::new(b"key".to_vec())),
                }),
            };
            objects
                .certificates
                .insert(meta(text("namespace"), text("name")), certificate);
        }
        other => panic!("no objects of kind {other} are read"),
    }
}
