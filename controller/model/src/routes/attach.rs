//! Which listeners a route attaches to (Gateway API, `ParentReference` and `AllowedRoutes`).

use std::collections::{BTreeMap, BTreeSet};

use super::rule::RouteInput;
use crate::gateways::{GatewayState, ListenerState};
use crate::graph::Hostname;
use crate::reports::{Condition, UNSUPPORTED_VALUE};
use crate::{Objects, Settings};
use limpet_api::{GatewayListener, Kind, ObjectName, ObjectRef, ParentRef};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attachment {
    pub(crate) gateway: ObjectName,
    /// Its index in the Gateway.
    pub(crate) listener: usize,
    /// The hosts of both.
    pub(crate) hostnames: Vec<Hostname>,
    /// Whether the listener is for HTTP, without TLS.
    pub(crate) is_plain: bool,
}

#[derive(Debug)]
pub(crate) struct Parent {
    pub(crate) reference: ParentRef,
    /// `Accepted`, without what the rules of the route add.
    pub(crate) accepted: Condition,
    pub(crate) is_served: bool,
}

pub(crate) fn gateway_name(namespace: &str, parent: &ParentRef) -> Option<ObjectName> {
    let is_gateway = Kind::find(&parent.group, &parent.kind) == Some(Kind::Gateway);
    is_gateway.then(|| ObjectName::new(parent.namespace.as_deref().unwrap_or(namespace), &parent.name))
}

/// The Gateways that a route names, or the one of all `IngressRoute`s.
#[must_use]
pub fn gateways_of(objects: &Objects, settings: &Settings, route: &ObjectRef) -> BTreeSet<ObjectName> {
    if route.kind == Kind::IngressRoute {
        return settings.contour.iter().map(|contour| contour.gateway.clone()).collect();
    }
    let references = objects.route(route);
    let parents = references.iter().flat_map(|route| route.parents);
    parents
        .filter_map(|parent| gateway_name(&route.name.namespace, parent))
        .collect()
}

pub(super) fn attach(
    route: &RouteInput<'_>,
    hostnames: &[Hostname],
    objects: &Objects,
    gateways: &BTreeMap<&ObjectName, GatewayState<'_>>,
) -> (Vec<Attachment>, Vec<Parent>) {
    let mut attachments: Vec<Attachment> = Vec::new();
    let mut parents = Vec::new();
    for reference in route.parents {
        let Some(name) = gateway_name(&route.meta.namespace, reference) else {
            continue;
        };
        let Some(gateway) = gateways.get(&name) else {
            continue;
        };
        if let Some(error) = route.malformed {
            // The specification has no better reason for a value of another shape.
            let accepted = Condition::fails("Accepted", UNSUPPORTED_VALUE, error.to_string());
            parents.push(Parent {
                reference: reference.clone(),
                accepted,
                is_served: false,
            });
            continue;
        }
        let mut obstacle = Obstacle::NoListener;
        let (serves, mut is_served) = (gateway.serves(), false);
        for (index, state) in gateway.listeners.iter().enumerate() {
            match meet(route, reference, hostnames, &name, state, objects) {
                Err(found) => obstacle = obstacle.max(found),
                Ok(hostnames) => {
                    obstacle = Obstacle::None;
                    is_served |= serves && state.serves();
                    // Two references may lead to one listener; that makes one attachment.
                    if !attachments
                        .iter()
                        .any(|known| known.gateway == name && known.listener == index)
                    {
                        attachments.push(Attachment {
                            gateway: name.clone(),
                            listener: index,
                            hostnames,
                            is_plain: state.listener.protocol == "HTTP",
                        });
                    }
                }
            }
        }
        parents.push(Parent {
            reference: reference.clone(),
            accepted: obstacle.condition(&name, is_served),
            is_served,
        });
    }
    (attachments, parents)
}

/// Whether a listener of a Gateway in `of_gateway` lets routes of `namespace` attach.
pub(crate) fn allows(listener: &GatewayListener, of_gateway: &str, namespace: &str, objects: &Objects) -> bool {
    let namespaces = &listener.allowed_routes.namespaces;
    match namespaces.from.as_deref() {
        None | Some("Same") => namespace == of_gateway,
        Some("All") => true,
        Some("Selector") => {
            let labels = objects.namespaces.get(namespace);
            let selector = namespaces.selector.as_ref();
            selector.is_some_and(|selector| labels.is_some_and(|labels| selector.matches(labels)))
        }
        Some(_) => false,
    }
}

/// Why a route does not attach to a parent. The most specific one, the last, is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Obstacle {
    NoListener,
    NotAllowed,
    NoHostname,
    None,
}

impl Obstacle {
    fn condition(self, gateway: &ObjectName, is_served: bool) -> Condition {
        let fails = |reason, message: String| Condition::fails("Accepted", reason, message);
        match self {
            Self::NoListener => fails(
                "NoMatchingParent",
                format!("spec.parentRefs: expected a listener of Gateway {gateway} with this sectionName and port"),
            ),
            Self::NotAllowed => fails(
                "NotAllowedByListeners",
                format!(
                    "spec.parentRefs: expected a listener of Gateway {gateway} whose allowedRoutes accept this route"
                ),
            ),
            Self::NoHostname => fails(
                "NoMatchingListenerHostname",
                format!("spec.hostnames: expected one that a listener of Gateway {gateway} serves"),
            ),
            Self::None if is_served => Condition::holds("Accepted", "Accepted", "The route is served"),
            Self::None => Condition::holds(
                "Accepted",
                "Accepted",
                format!("The route is attached, but the listeners of Gateway {gateway} that accept it do not serve"),
            ),
        }
    }
}

fn meet(
    route: &RouteInput<'_>,
    reference: &ParentRef,
    hostnames: &[Hostname],
    gateway: &ObjectName,
    state: &ListenerState<'_>,
    objects: &Objects,
) -> Result<Vec<Hostname>, Obstacle> {
    let named = reference
        .section_name
        .as_ref()
        .is_none_or(|name| *name == state.listener.name);
    if !named || reference.port.is_some_and(|port| port != state.listener.port) {
        return Err(Obstacle::NoListener);
    }
    let is_allowed = allows(state.listener, &gateway.namespace, &route.meta.namespace, objects);
    if !is_allowed || !state.kinds.contains(&route.kind) {
        return Err(Obstacle::NotAllowed);
    }
    let mut common: Vec<Hostname> = if hostnames.is_empty() {
        vec![state.hostname.clone()]
    } else {
        hostnames
            .iter()
            .filter_map(|hostname| state.hostname.intersection(hostname))
            .collect()
    };
    common.sort();
    common.dedup();
    if common.is_empty() {
        Err(Obstacle::NoHostname)
    } else {
        Ok(common)
    }
}
