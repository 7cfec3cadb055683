//! References between objects: what they refer to.

use std::sync::Arc;

use super::Objects;
use super::affinity;
use super::backend_tls::TlsPolicies;
use super::grants::{GrantedReferences, Referrer};
use super::graph::{BackendTls, Balance, Cluster, ClusterName, Protocol};
use super::manager::{MANAGED_BY, MANAGER};
use super::objects::RuleBackend;
use super::pod_labels::pod_labels;
use super::sessions::never_begins;
use super::short_hash::short_hash;
use limpet_api::{BackendRef, Kind, Object, ObjectName, ServicePort, ServiceSpec, XBackendSpec};

/// The Gateway API defines no such reason.
const INVALID_TLS_POLICY: &str = "InvalidBackendTLSPolicy";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ResolvedBackend {
    pub(super) cluster: ClusterName,
    pub(super) spec: Cluster,
    pub(super) object: RuleBackend,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnresolvedBackend {
    /// One of `ResolvedRefs`.
    pub(super) reason: &'static str,
    /// Below the reference, like `.port`; empty for the reference itself.
    pub(super) field: &'static str,
    pub(super) message: String,
    /// An XBackend that exists but cannot be used by any rule, and why.
    pub(super) refused: Option<Box<(ObjectName, String)>>,
}

#[derive(Debug)]
pub(super) struct References<'a> {
    objects: &'a Objects,
    pub(super) granted: GrantedReferences<'a>,
    tls: Option<&'a TlsPolicies<'a>>,
    follows_affinity: bool,
}

impl<'a> References<'a> {
    pub(super) fn new(objects: &'a Objects) -> Self {
        Self {
            objects,
            granted: GrantedReferences::new(objects),
            tls: None,
            follows_affinity: false,
        }
    }

    /// Resolves with policies for TLS towards backends, and with the affinity of Services.
    pub(super) fn for_serving(objects: &'a Objects, tls: &'a TlsPolicies<'a>, follows_affinity: bool) -> Self {
        Self {
            tls: Some(tls),
            follows_affinity,
            ..Self::new(objects)
        }
    }

    pub(super) fn tls(&self, backend: &RuleBackend, port: &str) -> Result<Option<BackendTls>, String> {
        self.tls.map_or(Ok(None), |tls| tls.resolve(backend, port))
    }

    /// See [`GrantedReferences::permitted`].
    pub(super) fn permitted(&self, from: Referrer<'_>, group: &str, kind: &str, to: &ObjectName) -> bool {
        self.granted.permitted(from, group, kind, to)
    }

    /// The default protocol of a gRPC route is HTTP/2.
    pub(super) fn backend(
        &self,
        from: Referrer<'_>,
        reference: &BackendRef,
    ) -> Result<ResolvedBackend, UnresolvedBackend> {
        let namespace = reference.namespace.as_deref().unwrap_or(from.namespace);
        let name = ObjectName::new(namespace, &reference.name);
        match Kind::find(&reference.group, &reference.kind) {
            Some(Kind::Service) => self.service(from, reference, &name),
            Some(Kind::XBackend) => self.x_backend(from, reference, &name),
            _ => {
                let (group, kind) = (&reference.group, &reference.kind);
                let message = format!("expected a Service or an XBackend, found {kind} of group {group:?}");
                Err(unresolved("InvalidKind", ".kind", message))
            }
        }
    }

    fn service(
        &self,
        from: Referrer<'_>,
        reference: &BackendRef,
        name: &ObjectName,
    ) -> Result<ResolvedBackend, UnresolvedBackend> {
        if !self.permitted(from, Kind::Service.group(), Kind::Service.as_str(), name) {
            let message = format!("expected a ReferenceGrant in {} for Service {name}", name.namespace);
            return Err(unresolved("RefNotPermitted", "", message));
        }
        let service = self.with_endpoints(name)?;
        let (number, port) = port_of(service, name, reference.port)?;
        let object = RuleBackend::Service(name.clone());
        let tls = self.tls(&object, &port.name);
        let tls = tls.map_err(|message| unresolved(INVALID_TLS_POLICY, "", message))?;
        let app_protocol = protocol_in(port.app_protocol.as_deref(), tls.is_some());
        let protocol = spoken_by_service(app_protocol, from.kind).map_err(|other| {
            let message = format!(
                "expected port {number} of Service {name} to have the appProtocol http, kubernetes.io/h2c or \
                 kubernetes.io/ws, or https or kubernetes.io/wss and a BackendTLSPolicy, found {other}"
            );
            unresolved("UnsupportedProtocol", ".port", message)
        })?;
        Ok(ResolvedBackend {
            cluster: ClusterName::new(&format!("service/{}/{}/{number}", name.namespace, name.name), protocol),
            spec: Cluster {
                port_name: port.name.clone(),
                tls,
                balance: if self.follows_affinity && matches!(affinity::of(&service.spec), Ok(Some(_))) {
                    Balance::RingHash
                } else {
                    Balance::default()
                },
                never_begins: never_begins(service),
                ..Cluster::new(name.clone(), number, protocol)
            },
            object,
        })
    }

    fn with_endpoints(&self, name: &ObjectName) -> Result<&'a Object<ServiceSpec>, UnresolvedBackend> {
        let expected = |message: String| unresolved("BackendNotFound", ".name", message);
        let Some(service) = self.objects.services.get(name) else {
            return Err(expected(format!("expected Service {name}, which does not exist")));
        };
        if let Some(error) = &service.malformed {
            return Err(expected(format!(
                "expected Service {name}, which cannot be read: {error}"
            )));
        }
        if service.spec.kind.as_deref() == Some("ExternalName") {
            let message = format!("expected a Service with endpoints, found {name} of type ExternalName");
            return Err(expected(message));
        }
        Ok(service)
    }

    fn x_backend(
        &self,
        from: Referrer<'_>,
        reference: &BackendRef,
        name: &ObjectName,
    ) -> Result<ResolvedBackend, UnresolvedBackend> {
        if name.namespace != from.namespace {
            let message = format!("expected an XBackend of the route's namespace, found {name}");
            return Err(unresolved("RefNotPermitted", ".namespace", message));
        }
        if reference.port.is_some() {
            let message = "expected no port, because an XBackend has its own".to_owned();
            return Err(unresolved("InvalidKind", ".port", message));
        }
        let Some(backend) = self.objects.backends.get(name) else {
            let message = format!("expected XBackend {name}, which does not exist");
            return Err(unresolved("BackendNotFound", ".name", message));
        };
        let refused = |reason, message: String| UnresolvedBackend {
            refused: Some(Box::new((name.clone(), message.clone()))),
            ..unresolved(reason, ".name", format!("XBackend {name}: {message}"))
        };
        if let Some(error) = &backend.malformed {
            return Err(refused("BackendNotFound", error.to_string()));
        }
        let port = selected_port(&backend.spec, from.kind);
        let (number, protocol) = port.map_err(|message| refused("UnsupportedProtocol", message))?;
        let made = selector_service(name);
        let is_others = |service: &Arc<Object<_>>| !is_ours(service);
        if self.objects.services.get(&made).is_some_and(is_others) {
            // The XBackend would get the endpoints that this Service selects.
            let message =
                format!("expected the Service {made} that Limpet makes for its pods, found another one of this name");
            return Err(refused("BackendNotFound", message));
        }
        let object = RuleBackend::XBackend(name.clone());
        let tls = self
            .tls(&object, "")
            .map_err(|message| refused(INVALID_TLS_POLICY, message))?;
        Ok(ResolvedBackend {
            cluster: ClusterName::new(&format!("xbackend/{}/{}", name.namespace, name.name), protocol),
            spec: Cluster {
                tls,
                ..Cluster::new(made, number, protocol)
            },
            object,
        })
    }
}

fn port_of<'s>(
    service: &'s Object<ServiceSpec>,
    name: &ObjectName,
    number: Option<u16>,
) -> Result<(u16, &'s ServicePort), UnresolvedBackend> {
    let expected = |message: String| unresolved("BackendNotFound", ".port", message);
    let number = number.ok_or_else(|| expected(format!("expected a port of Service {name}")))?;
    let is_tcp = |port: &&ServicePort| port.protocol.as_deref().unwrap_or("TCP") == "TCP";
    let port = service.spec.ports_at(number).find(is_tcp);
    let missing = || expected(format!("expected a TCP port of Service {name}, found {number}"));
    Ok((number, port.ok_or_else(missing)?))
}

/// The protocol for a route of this kind.
///
/// # Errors
/// An `appProtocol` that is not supported.
fn spoken_by_service(app_protocol: Option<&str>, route: Kind) -> Result<Protocol, &str> {
    match (app_protocol, route) {
        (None | Some("http" | "kubernetes.io/ws"), Kind::GrpcRoute) | (Some("kubernetes.io/h2c" | "grpc"), _) => {
            Ok(Protocol::H2c)
        }
        (None | Some("http" | "kubernetes.io/ws"), _) => Ok(Protocol::Http1),
        (Some(other), _) => Err(other),
    }
}

/// The port of the pods that an XBackend selects, and its protocol.
///
/// # Errors
/// What is not supported of the XBackend.
fn selected_port(spec: &XBackendSpec, route: Kind) -> Result<(u16, Protocol), String> {
    if spec.kind != "EndpointSelector" {
        return Err(format!("spec.type: expected EndpointSelector, found {}", spec.kind));
    }
    let tls = spec.tls.as_ref().and_then(|tls| tls.mode.as_deref());
    if let Some(mode) = tls.filter(|mode| *mode != "None") {
        return Err(format!("spec.tls.mode: expected None, found {mode}"));
    }
    pod_labels(spec)?;
    let Some(port) = &spec.port else {
        return Err("spec.port: expected a port".to_owned());
    };
    let protocol = match (spec.protocol.as_deref(), route) {
        (Some("HTTP2"), _) => {
            return Err("spec.protocol: expected H2C, which is HTTP/2 without TLS, found HTTP2".to_owned());
        }
        (Some("H2C" | "GRPC"), _) | (None | Some("HTTP"), Kind::GrpcRoute) => Protocol::H2c,
        (None | Some("HTTP" | "HTTP11" | "MCP"), _) => Protocol::Http1,
        (Some(other), _) => {
            let message = format!("spec.protocol: expected HTTP, HTTP11, H2C, GRPC or MCP, found {other}");
            return Err(message);
        }
    };
    Ok((port.number, protocol))
}

/// HTTPS is HTTP in TLS, so it needs a policy that says how to verify the backend.
fn protocol_in(app_protocol: Option<&str>, is_tls: bool) -> Option<&str> {
    match app_protocol {
        Some(https) if is_tls && https.eq_ignore_ascii_case("https") => None,
        Some("kubernetes.io/wss") if is_tls => None,
        other => other,
    }
}

fn unresolved(reason: &'static str, field: &'static str, message: String) -> UnresolvedBackend {
    UnresolvedBackend {
        reason,
        field,
        message,
        refused: None,
    }
}

/// Whether Limpet made this Service.
#[must_use]
pub fn is_ours(service: &Object<ServiceSpec>) -> bool {
    service.meta.labels.get(MANAGED_BY).is_some_and(|by| by == MANAGER)
}

/// The name of an XBackend's Service, by which the cluster keeps EndpointSlices of its pods: at most 63 characters.
#[must_use]
pub fn selector_service(backend: &ObjectName) -> ObjectName {
    let hash = short_hash(backend.name.as_bytes());
    let head: String = backend
        .name
        .chars()
        .map(|c| if c == '.' { '-' } else { c })
        .take(40)
        .collect();
    ObjectName::new(
        &backend.namespace,
        &format!("xbackend-{}-{hash}", head.trim_end_matches('-')),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::looked;

    #[test]
    fn each_reference_looked_at_all_grants_of_a_namespace() {
        const MANY: usize = 200;
        let mut objects = Objects::default();
        for index in 0..MANY {
            let name = index.to_string();
            let grant = json!({
                "metadata": {"namespace": "shop", "name": name},
                "spec": {
                    "from": [{"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "namespace": "web"}],
                    "to": [{"group": "", "kind": "Service", "name": name}],
                },
            });
            let grant = limpet_api::readable(&grant);
            objects
                .reference_grants
                .insert(ObjectName::new("shop", &name), grant.into());
        }
        let references = References::new(&objects);
        let from = |kind, namespace| Referrer { kind, namespace };
        let to = ObjectName::new("shop", "0");
        looked::take();
        assert!(!references.permitted(from(Kind::HttpRoute, "other"), "", "Service", &to));
        assert_eq!(looked::take(), MANY);
        for index in 0..MANY {
            let to = ObjectName::new("shop", &index.to_string());
            assert!(references.permitted(from(Kind::HttpRoute, "web"), "", "Service", &to));
            assert!(!references.permitted(from(Kind::HttpRoute, "web"), "", "Secret", &to));
            assert!(!references.permitted(from(Kind::GrpcRoute, "web"), "", "Service", &to));
            assert!(!references.permitted(from(Kind::HttpRoute, "other"), "", "Service", &to));
        }
        assert!(looked::take() <= 4 * MANY);
    }
}
