//! `GatewayClass` and `Gateway`: which listeners serve, and why the others do not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::envoys::{ADMIN_PORT, Envoys, ParameterLayer, READY_PORT, envoys, is_http, of_class};
use super::grants::Referrer;
use super::graph::Hostname;
use super::parameters_room::ParametersRoom;
use super::references::References;
use super::reports::{Address, ClassReport, Condition, GatewayReport, ListenerReport};
use super::unknown_fields::{UnknownFields, no_effect};
use super::{Objects, Settings, addresses};
use limpet_api::{GatewayListener, GatewaySpec, Kind, KindRef, Object, ObjectName, SecretRef, Text};

#[derive(Debug)]
pub(super) struct GatewayState<'a> {
    pub(super) object: &'a Object<GatewaySpec>,
    pub(super) listeners: Vec<ListenerState<'a>>,
    /// Why no listener serves.
    refused: Option<Condition>,
    /// Its Envoys, and why their parameters are invalid: then the Envoys stay as they are.
    pub(super) envoys: Envoys,
    parameters: Option<Condition>,
    /// Its addresses, if known, and why it does not have those that it asks for.
    addresses: Option<Vec<Address>>,
    without_address: Option<Condition>,
    unready: Option<Condition>,
    /// Unsupported fields.
    ignored: Vec<String>,
    class_is_gone: bool,
}

#[derive(Debug)]
pub(super) struct ListenerState<'a> {
    pub(super) listener: &'a GatewayListener,
    pub(super) hostname: Hostname,
    pub(super) kinds: Vec<Kind>,
    /// Its Secrets if it terminates TLS.
    pub(super) certificates: Option<Vec<ObjectName>>,
    pub(super) accepted: Condition,
    pub(super) resolved: Condition,
    /// Whether it serves without `resolved`, with the last valid certificate of a Secret.
    keeps_certificate: bool,
    pub(super) conflicted: Option<Condition>,
    pub(super) attached: i32,
}

impl ListenerState<'_> {
    pub(super) fn serves(&self) -> bool {
        let has_refs = self.resolved.is_true() || self.keeps_certificate;
        self.accepted.is_true() && has_refs && self.conflicted.is_none()
    }
}

pub(super) const KEPT_CERTIFICATE: &str = "its last valid certificate stays in use";

const CLIENT_CERTIFICATES: &str = "client certificates (validation of the frontend) are not supported";

const UNCHANGED: &str = "Its Envoys stay as they are, because its parameters are invalid";

pub(super) fn classes<'a>(
    objects: &'a Objects,
    settings: &Settings,
) -> (BTreeMap<Text, ClassReport>, BTreeSet<&'a str>) {
    let mut reports = BTreeMap::new();
    let mut accepted = BTreeSet::new();
    for (name, class) in &objects.gateway_classes {
        if !settings.selects(&class.spec.controller_name) {
            continue;
        }
        if !settings.serves() {
            accepted.insert(name.as_str());
            continue;
        }
        // Its Gateways are served in any case: a mistake in the parameters must not end what runs.
        accepted.insert(name.as_str());
        if objects.gone_classes.contains(name) {
            continue;
        }
        let condition = match of_class(class, objects).and_then(|layer| layer.check()) {
            Ok(()) => Condition::holds("Accepted", "Accepted", "Its Gateways are served"),
            Err(message) => Condition::fails("Accepted", "InvalidParameters", message),
        };
        let report = ClassReport {
            observed_generation: class.meta.generation,
            conditions: vec![condition],
        };
        reports.insert(name.clone(), report);
    }
    (reports, accepted)
}

pub(super) fn gateways<'a>(
    objects: &'a Objects,
    classes: &BTreeSet<&str>,
    references: &References<'_>,
    settings: &Settings,
) -> BTreeMap<&'a ObjectName, GatewayState<'a>> {
    let ours = objects
        .gateways
        .iter()
        .filter(|(_, gateway)| classes.contains(gateway.spec.gateway_class_name.as_str()));
    let room = objects.parameters_room.clone().unwrap_or_else(|| {
        let mut room = ParametersRoom::default();
        let is_ours = |class: &str| settings.managed.is_some() && classes.contains(class);
        room.catch_up(&objects.gateways, &objects.envoy_deployments, is_ours);
        Arc::new(room)
    });
    let read = |object| {
        if settings.serves() {
            gateway(object, objects, references, (settings, &room))
        } else {
            somebody_elses(object)
        }
    };
    ours.map(|(name, object)| (name, read(object))).collect()
}

/// A Gateway that another control plane serves. Nothing is refused here, since that control plane does it.
fn somebody_elses(object: &Object<GatewaySpec>) -> GatewayState<'_> {
    fn read(listener: &GatewayListener) -> ListenerState<'_> {
        ListenerState {
            listener,
            hostname: Hostname::parse(listener.hostname.as_deref()),
            kinds: kinds(listener).0,
            certificates: None,
            accepted: if is_http(listener) {
                Condition::holds("Accepted", "Accepted", "It may have sessions")
            } else {
                Condition::fails("Accepted", "UnsupportedProtocol", "It has no sessions")
            },
            resolved: Condition::holds("ResolvedRefs", "ResolvedRefs", ""),
            keeps_certificate: false,
            conflicted: None,
            attached: 0,
        }
    }
    GatewayState {
        object,
        listeners: object.spec.listeners.iter().map(read).collect(),
        refused: None,
        envoys: Envoys::default(),
        parameters: None,
        addresses: None,
        without_address: None,
        unready: None,
        ignored: Vec::new(),
        class_is_gone: false,
    }
}

fn gateway<'a>(
    object: &'a Object<GatewaySpec>,
    objects: &Objects,
    references: &References<'_>,
    (settings, room): (&Settings, &ParametersRoom),
) -> GatewayState<'a> {
    let unread = UnknownFields::new(&object.unread);
    // A listener that asks for client certificates must not be served without checking them.
    let tls = unread.below("spec.tls").first().map(|field| {
        let what = if field.starts_with("spec.tls.backend") {
            "a client certificate for backends is not supported"
        } else {
            CLIENT_CERTIFICATES
        };
        Condition::fails("Accepted", "Invalid", format!("{field}: {what}"))
    });
    let malformed = object.malformed.as_ref();
    let malformed = malformed.map(|error| Condition::fails("Accepted", "Invalid", error.to_string()));
    let refused = malformed.or(tls).or_else(|| addresses::unsupported(&object.spec));
    let (mut envoys, mut wrong) = envoys(object, class_layer(object, objects), objects, settings);
    if envoys.deployment.is_some()
        && let Some(lacks) = room.shortage(&object.meta.object_name())
    {
        wrong = Some(lacks);
        envoys.deployment = None;
        envoys.unchanged = true;
    }
    // The Envoys stay until the mistake is mended.
    envoys.unchanged |= object.malformed.is_some();
    let parameters = wrong.map(|message| Condition::fails("Accepted", "InvalidParameters", message));
    let addresses = addresses::of_gateway(&envoys, objects);
    let without_address = match &parameters {
        _ if refused.is_some() => None,
        Some(_) => Some(Condition::fails("Programmed", "Invalid", UNCHANGED)),
        None => addresses::missing(&object.spec, &envoys, addresses.as_deref(), objects),
    };
    let mut listeners: Vec<ListenerState<'a>> = object
        .spec
        .listeners
        .iter()
        .enumerate()
        .map(|(index, listener)| read_listener(object, index, listener, &unread, objects, references))
        .collect();
    find_conflicts(&mut listeners);
    let ignored = object
        .unread
        .iter()
        .filter(|field| !field.starts_with("spec.tls") && !field.contains(".tls."))
        .map(|field| match field.as_str() {
            "spec.allowedListeners" => format!("{field} (no ListenerSet is served)"),
            _ => field.clone(),
        })
        .chain(for_nobody(object, &envoys))
        .collect();
    GatewayState {
        object,
        listeners,
        refused,
        unready: addresses::unready(&envoys, objects),
        envoys,
        parameters,
        addresses,
        without_address,
        ignored,
        class_is_gone: objects.gone_classes.contains(object.spec.gateway_class_name.as_str()),
    }
}

fn for_nobody(object: &Object<GatewaySpec>, envoys: &Envoys) -> impl Iterator<Item = String> {
    let asked = &object.spec.infrastructure;
    let is_by_hand = envoys.deployment.is_none() && !envoys.unchanged;
    let given = [
        ("labels", !asked.labels.is_empty()),
        ("annotations", !asked.annotations.is_empty()),
    ];
    let given = given.into_iter().filter(move |(_, is_given)| is_by_hand && *is_given);
    given.map(|(name, _)| format!("spec.infrastructure.{name}"))
}

pub(super) fn envoys_service(
    gateway: &Object<GatewaySpec>,
    objects: &Objects,
    settings: &Settings,
) -> Option<ObjectName> {
    envoys(gateway, class_layer(gateway, objects), objects, settings)
        .0
        .service
}

fn class_layer<'a>(object: &Object<GatewaySpec>, objects: &'a Objects) -> Result<ParameterLayer<'a>, String> {
    let name = &object.spec.gateway_class_name;
    let class = objects.gateway_classes.get(name);
    class.map_or(Ok(ParameterLayer::default()), |class| {
        of_class(class, objects).map_err(|message| format!("GatewayClass {name}: {message}"))
    })
}

fn read_listener<'a>(
    gateway: &'a Object<GatewaySpec>,
    index: usize,
    listener: &'a GatewayListener,
    unread: &UnknownFields<'_>,
    objects: &Objects,
    references: &References<'_>,
) -> ListenerState<'a> {
    let field = format!("spec.listeners[{index}]");
    let mut resolved = Condition::holds("ResolvedRefs", "ResolvedRefs", "All references are resolved");
    let mut accepted = Condition::holds("Accepted", "Accepted", "It is valid");
    let mut certificates = None;
    match listener.protocol.as_str() {
        "HTTP" => {}
        "HTTPS" => match tls(gateway, &field, listener, unread, objects, references) {
            Ok(names) => certificates = Some(names),
            Err(condition) if condition.kind == "Accepted" => accepted = condition,
            Err(condition) => resolved = condition,
        },
        other => {
            let message = format!("{field}.protocol: expected HTTP or HTTPS, found {other}");
            accepted = Condition::fails("Accepted", "UnsupportedProtocol", message);
        }
    }
    if [ADMIN_PORT, READY_PORT].contains(&listener.port) {
        let message = format!(
            "{field}.port: expected one that is not Envoy's own, like {ADMIN_PORT} and {READY_PORT}, found {}",
            listener.port
        );
        accepted = Condition::fails("Accepted", "PortUnavailable", message);
    }
    let (kinds, refused) = kinds(listener);
    if let Some(kind) = refused
        && resolved.is_true()
    {
        let message = format!(
            "{field}.allowedRoutes.kinds: expected HTTPRoute or GRPCRoute of group {}, found {} of group {:?}",
            Kind::HttpRoute.group(),
            kind.kind,
            kind.group
        );
        resolved = Condition::fails("ResolvedRefs", "InvalidRouteKinds", message);
    }
    let kept = kept_certificates(&field, certificates.as_deref().unwrap_or_default(), objects);
    let kept = kept.filter(|_| resolved.is_true());
    let keeps_certificate = kept.is_some();
    ListenerState {
        listener,
        hostname: Hostname::parse(listener.hostname.as_deref()),
        kinds,
        certificates,
        accepted,
        resolved: kept.unwrap_or(resolved),
        keeps_certificate,
        conflicted: None,
        attached: 0,
    }
}

fn tls(
    gateway: &Object<GatewaySpec>,
    field: &str,
    listener: &GatewayListener,
    unread: &UnknownFields<'_>,
    objects: &Objects,
    references: &References<'_>,
) -> Result<Vec<ObjectName>, Condition> {
    let refuse = |field: &str, message: &str| Condition::fails("Accepted", "Invalid", format!("{field}: {message}"));
    if let Some(unread) = unread.below(&format!("{field}.tls")).first() {
        let name = unread.rsplit('.').next().unwrap_or(unread);
        let message = match name {
            "frontendValidation" => CLIENT_CERTIFICATES.to_owned(),
            _ => format!("{name} is not supported"),
        };
        return Err(refuse(unread, &message));
    }
    let Some(tls) = &listener.tls else {
        return Err(refuse(
            &format!("{field}.tls"),
            "expected certificates, because the protocol is HTTPS",
        ));
    };
    if let Some(mode) = tls.mode.as_deref().filter(|mode| *mode != "Terminate") {
        return Err(refuse(
            &format!("{field}.tls.mode"),
            &format!("expected Terminate, found {mode}"),
        ));
    }
    if tls.certificate_refs.is_empty() {
        return Err(refuse(
            &format!("{field}.tls.certificateRefs"),
            "expected at least one certificate",
        ));
    }
    let all = tls.certificate_refs.iter().enumerate();
    let names = all.map(|(index, reference)| {
        let resolved = certificate(&gateway.meta.namespace, reference, objects, references);
        resolved.map_err(|(reason, message)| {
            let message = format!("{field}.tls.certificateRefs[{index}]: {message}");
            Condition::fails("ResolvedRefs", reason, message)
        })
    });
    names.collect()
}

/// `names`: the listener's Secrets, of which some only have a certificate from before.
fn kept_certificates(field: &str, names: &[ObjectName], objects: &Objects) -> Option<Condition> {
    let kept = names.iter().enumerate().filter_map(|(index, name)| {
        let why = objects.kept_certificates.get(name)?;
        Some(format!(
            "{field}.tls.certificateRefs[{index}]: Secret {name}: {why}; {KEPT_CERTIFICATE}"
        ))
    });
    let messages: Vec<String> = kept.collect();
    (!messages.is_empty()).then(|| Condition::fails("ResolvedRefs", "InvalidCertificateRef", messages.join("; ")))
}

/// # Errors
/// A reason of `ResolvedRefs`, and what was expected.
fn certificate(
    own: &str,
    reference: &SecretRef,
    objects: &Objects,
    references: &References<'_>,
) -> Result<ObjectName, (&'static str, String)> {
    let (group, kind) = (&reference.group, &reference.kind);
    if (group.as_str(), kind.as_str()) != ("", "Secret") {
        let message = format!("expected a Secret, found {kind} of group {group:?}");
        return Err(("InvalidCertificateRef", message));
    }
    let namespace = reference.namespace.as_deref().unwrap_or(own);
    let name = ObjectName::new(namespace, &reference.name);
    let referrer = Referrer {
        kind: Kind::Gateway,
        namespace: own,
    };
    if !references.permitted(referrer, "", "Secret", &name) {
        let message = format!("expected a ReferenceGrant in {namespace} for Secret {name}");
        return Err(("RefNotPermitted", message));
    }
    let message = match objects.certificates.get(&name) {
        Some(Ok(_)) => return Ok(name),
        Some(Err(error)) => format!("Secret {name}: {error}"),
        None => format!("expected Secret {name}, which does not exist"),
    };
    Err(("InvalidCertificateRef", message))
}

fn kinds(listener: &GatewayListener) -> (Vec<Kind>, Option<&KindRef>) {
    if !is_http(listener) {
        return (Vec::new(), None);
    }
    if listener.allowed_routes.kinds.is_empty() {
        return (ROUTE_KINDS.to_vec(), None);
    }
    let known = |kind: &KindRef| Kind::find(&kind.group, &kind.kind).filter(|kind| ROUTE_KINDS.contains(kind));
    let kinds = &listener.allowed_routes.kinds;
    let mut all: Vec<Kind> = kinds.iter().filter_map(known).collect();
    all.sort_unstable();
    all.dedup();
    (all, kinds.iter().find(|kind| known(kind).is_none()))
}

const ROUTE_KINDS: [Kind; 2] = [Kind::GrpcRoute, Kind::HttpRoute];

/// None of these listeners serves, since none takes precedence.
fn find_conflicts(listeners: &mut [ListenerState<'_>]) {
    let facts: Vec<(u16, String, Hostname)> = listeners
        .iter()
        .map(|state| {
            (
                state.listener.port,
                state.listener.protocol.clone(),
                state.hostname.clone(),
            )
        })
        .collect();
    for (index, state) in listeners.iter_mut().enumerate() {
        let Some((port, protocol, hostname)) = facts.get(index) else {
            continue;
        };
        let others = || {
            facts
                .iter()
                .enumerate()
                .filter(|(other, fact)| *other != index && fact.0 == *port)
        };
        if let Some((other, fact)) = others().find(|(_, fact)| fact.1 != *protocol) {
            let message = format!(
                "spec.listeners[{index}].protocol: expected one protocol on port {port}, found {} in \
                 spec.listeners[{other}]",
                fact.1
            );
            state.conflicted = Some(Condition::holds("Conflicted", "ProtocolConflict", message));
        } else if let Some((other, _)) = others().find(|(_, fact)| fact.2 == *hostname) {
            let message = format!(
                "spec.listeners[{index}].hostname: expected it once on port {port}, found it in spec.listeners[{other}]"
            );
            state.conflicted = Some(Condition::holds("Conflicted", "HostnameConflict", message));
        }
    }
}

impl GatewayState<'_> {
    pub(super) fn serves(&self) -> bool {
        self.refused.is_none()
    }

    pub(super) fn report(&self) -> GatewayReport {
        let bad: Vec<&str> = self
            .listeners
            .iter()
            .filter(|state| !state.serves())
            .map(|state| state.listener.name.as_str())
            .collect();
        let accepted = match self.refused.as_ref().or(self.parameters.as_ref()) {
            Some(condition) => condition.clone(),
            None if self.listeners.is_empty() => Condition::fails(
                "Accepted",
                "ListenersNotValid",
                "spec.listeners: expected at least one listener",
            ),
            None if bad.is_empty() => {
                let message = format!("It is valid{}", self.notes());
                Condition::holds("Accepted", "Accepted", no_effect(&message, &self.ignored))
            }
            None => {
                let message = no_effect(
                    &format!("Listeners that do not serve: {}{}", bad.join(", "), self.notes()),
                    &self.ignored,
                );
                let some = bad.len() < self.listeners.len();
                let condition = if some { Condition::holds } else { Condition::fails };
                condition("Accepted", "ListenersNotValid", message)
            }
        };
        GatewayReport {
            observed_generation: self.object.meta.generation,
            conditions: std::iter::once(accepted).chain(self.without_address.clone()).collect(),
            listeners: self.listeners.iter().map(listener_report).collect(),
            addresses: self.addresses.clone(),
            unready: self.unready.clone(),
            ignored: self.ignored.clone(),
        }
    }

    /// Notes that the class is gone, and what the Gateway asks for and does not get.
    fn notes(&self) -> String {
        let class = &self.object.spec.gateway_class_name;
        let mut notes = String::new();
        if self.class_is_gone {
            notes = format!(". GatewayClass {class} is gone; the Gateway is served as before");
        }
        if let Some(left_out) = &self.envoys.left_out {
            notes.push_str(". ");
            notes.push_str(left_out);
        }
        notes
    }
}

fn listener_report(state: &ListenerState<'_>) -> ListenerReport {
    let distinct = || {
        Condition::fails(
            "Conflicted",
            "NoConflicts",
            "No other listener has its port and hostname",
        )
    };
    let kind = |kind: &Kind| KindRef {
        group: kind.group().to_owned(),
        kind: kind.as_str().to_owned(),
    };
    ListenerReport {
        name: state.listener.name.clone(),
        supported_kinds: state.kinds.iter().map(kind).collect(),
        attached_routes: state.attached,
        conditions: vec![
            state.accepted.clone(),
            state.conflicted.clone().unwrap_or_else(distinct),
            state.resolved.clone(),
        ],
        keeps_certificate: state.keeps_certificate,
    }
}
