//! Our annotations that are not read, because they are misspelt or on the wrong object.

use std::collections::BTreeMap;

use super::contour;
use super::envoys::SERVICE;
use super::reports::Condition;
use super::{Objects, Settings};
use limpet_api::{Kind, Meta, ObjectRef, Text};

const DOMAIN: &str = "limpet.dev";
/// Read on objects that have sessions, and checked there.
const OF_SESSIONS: &str = "session.limpet.dev/";
const ANY_OF_SESSIONS: &str = "session.limpet.dev/*";
/// Written by the controller on Services.
const DIGEST: &str = "limpet.dev/digest";

/// Whether an annotation of this name has a meaning, or is misspelt.
#[must_use]
pub fn reads_annotation(annotation: &str) -> bool {
    is_ours(annotation) || contour::reads(annotation)
}

fn is_ours(annotation: &str) -> bool {
    let domain = annotation.split_once('/').map(|(domain, _)| domain);
    let below = domain.and_then(|domain| domain.strip_suffix(DOMAIN));
    below.is_some_and(|below| below.is_empty() || below.ends_with('.'))
}

/// The problem of annotations of our domains that are none of `known`.
#[must_use]
pub fn unknown_annotations<'a>(names: impl IntoIterator<Item = &'a String>, known: &[&str]) -> Option<String> {
    let names = names.into_iter().filter(|name| is_ours(name));
    let expected = match known {
        [] => String::new(),
        known => format!(", but {}", known.join(", ")),
    };
    let told: Vec<String> = names
        .filter(|name| !known.contains(&name.as_str()))
        .map(|name| {
            format!("metadata.annotations[{name}]: expected no annotation of this name{expected}; it has no effect")
        })
        .collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// Problems of annotations of our Gateways, and of objects that may have sessions.
pub(super) fn problems(objects: &Objects, settings: &Settings) -> BTreeMap<ObjectRef, Condition> {
    let is_ours = |class: &Text| {
        let class = objects.gateway_classes.get(class);
        class.is_some_and(|class| settings.selects(&class.spec.controller_name))
    };
    let gateways = objects.gateways.values();
    let gateways = gateways.filter(|gateway| is_ours(&gateway.spec.gateway_class_name));
    let of_gateways = gateways.filter_map(|gateway| {
        let known: &[&str] = if settings.serves() { &[SERVICE] } else { &[] };
        problem(
            Kind::Gateway,
            &gateway.meta,
            unknown_annotations(gateway.meta.annotations.keys(), known),
        )
    });
    let routes = objects.http_routes.values().map(|route| (Kind::HttpRoute, &route.meta));
    let routes = routes.chain(objects.grpc_routes.values().map(|route| (Kind::GrpcRoute, &route.meta)));
    let policies = objects.session_policies.iter();
    let policies = policies.map(|(name, policy)| (name.kind.into(), &policy.meta));
    let backends = objects.backends.values().map(|backend| (Kind::XBackend, &backend.meta));
    let services = objects.services.values().map(|service| (Kind::Service, &service.meta));
    let of_contour = settings
        .contour
        .iter()
        .flat_map(|contour| contour::ours(objects, contour));
    let of_contour = of_contour.map(|(_, route)| (Kind::IngressRoute, &route.meta));
    let with_sessions = routes.chain(policies).chain(backends).chain(services).chain(of_contour);
    let others = with_sessions.filter_map(|(kind, meta)| {
        let names = meta.annotations.keys();
        let names = names.filter(|name| !name.starts_with(OF_SESSIONS) && *name != DIGEST);
        problem(kind, meta, unknown_annotations(names, &[ANY_OF_SESSIONS]))
    });
    of_gateways.chain(others).collect()
}

fn problem(kind: Kind, meta: &Meta, message: Option<String>) -> Option<(ObjectRef, Condition)> {
    let name = meta.object_name();
    Some((
        ObjectRef { kind, name },
        Condition::fails("Accepted", "Invalid", message?),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_of_our_domains_that_nobody_reads_are_named() {
        let names = [
            "limpet.dev/revok",
            "limpet.dev/revoke",
            "session.limpet.dev/strict",
            "notlimpet.dev/revok",
            "example.com/limpet.dev",
            "limpet.dev",
        ]
        .map(str::to_owned);
        let words = |name: &str| {
            format!(
                "metadata.annotations[{name}]: expected no annotation of this name, but limpet.dev/revoke; it has no \
                 effect"
            )
        };
        let expected = format!("{}; {}", words("limpet.dev/revok"), words("session.limpet.dev/strict"));
        assert_eq!(unknown_annotations(&names, &["limpet.dev/revoke"]), Some(expected));
        assert_eq!(unknown_annotations(&names[3..], &[]), None);
    }
}
