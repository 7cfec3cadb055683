//! Where a rule's requests go.

use super::filters;
use super::rule::{BackendRefError, RouteInput, RouteRule, RuleInput};
use crate::grants::Referrer;
use crate::graph::{Destination, HeaderChanges, Target};
use crate::references::{References, ResolvedBackend};
use crate::reports::UNSUPPORTED_VALUE;
use crate::sessions::TwinReferences;
use crate::unknown_fields::UnknownFields;
use limpet_api::{BackendRef, RouteFilter};

/// The destinations of a rule, with those whose reference is invalid.
pub(super) fn destinations(
    route: &RouteInput<'_>,
    input: &RuleInput<'_>,
    references: &References<'_>,
    rule: &mut RouteRule<'_>,
    not_followed: &mut Vec<String>,
) -> Vec<Destination> {
    let mut destinations: Vec<Destination> = Vec::new();
    for (index, reference) in input.backends.iter().enumerate() {
        let field = format!("{}.backendRefs[{index}]", input.field);
        let mut destination = Destination {
            weight: reference.weight.unwrap_or(1),
            target: Target::Invalid { reason: String::new() },
            request_headers: HeaderChanges::default(),
            response_headers: HeaderChanges::default(),
        };
        let resolved = resolve(route, &field, reference, references, rule);
        let backend = resolved.and_then(|backend| {
            change_headers(route, &field, &reference.filters, &mut destination, not_followed)?;
            distinct(&field, &rule.backends, backend)
        });
        destination.target = match backend {
            Ok(backend) => {
                let name = backend.cluster.clone();
                rule.backends.push(backend);
                Target::Cluster(name)
            }
            Err(bad) => {
                let reason = format!("{}: {}", bad.field, bad.message);
                rule.unresolved.push(bad);
                Target::Invalid { reason }
            }
        };
        destinations.push(destination);
    }
    rule.twins = twins(input.backends, &destinations);
    destinations
}

/// The first two references to one cluster whose filters differ. Tokens name only a cluster.
fn twins(references: &[BackendRef], destinations: &[Destination]) -> Option<TwinReferences> {
    if references.iter().all(|reference| reference.filters.is_empty()) {
        return None;
    }
    let mut earlier: Vec<(usize, &[u8], &[RouteFilter])> = Vec::new();
    for (second, (reference, destination)) in references.iter().zip(destinations).enumerate() {
        let Target::Cluster(cluster) = &destination.target else {
            continue;
        };
        let (base, filters) = (cluster.base(), reference.filters.as_slice());
        let is_twin =
            |(_, other, of_other): &&(usize, &[u8], &[RouteFilter])| *other == base && !are_alike(of_other, filters);
        if let Some((first, ..)) = earlier.iter().find(is_twin) {
            return Some(TwinReferences { first: *first, second });
        }
        earlier.push((second, base, filters));
    }
    None
}

/// Whether both do the same. What a filter of another control plane does is not known.
fn are_alike(one: &[RouteFilter], other: &[RouteFilter]) -> bool {
    one == other && !one.iter().any(|filter| filter.kind == "ExtensionRef")
}

fn resolve(
    route: &RouteInput<'_>,
    field: &str,
    reference: &BackendRef,
    references: &References<'_>,
    rule: &mut RouteRule<'_>,
) -> Result<ResolvedBackend, BackendRefError> {
    let referrer = Referrer {
        kind: route.kind,
        namespace: &route.meta.namespace,
    };
    references.backend(referrer, reference).map_err(|unresolved| {
        rule.refused_backends.extend(unresolved.refused.map(|refused| *refused));
        BackendRefError {
            reason: unresolved.reason,
            field: format!("{field}{}", unresolved.field),
            message: unresolved.message,
        }
    })
}

fn change_headers(
    route: &RouteInput<'_>,
    field: &str,
    filters: &[RouteFilter],
    destination: &mut Destination,
    not_followed: &mut Vec<String>,
) -> Result<(), BackendRefError> {
    match filters::of_backend(field, &UnknownFields::new(route.unread), filters) {
        Ok(changes) => (destination.request_headers, destination.response_headers) = changes,
        Err(problem) if route.is_judged => {
            return Err(BackendRefError {
                reason: UNSUPPORTED_VALUE,
                field: problem.field,
                message: problem.message,
            });
        }
        Err(problem) => not_followed.push(problem.field),
    }
    Ok(())
}

/// Refuses a second base with the same hash, which is four bytes in tokens.
fn distinct(
    field: &str,
    known: &[ResolvedBackend],
    backend: ResolvedBackend,
) -> Result<ResolvedBackend, BackendRefError> {
    let own = &backend.cluster;
    let twin = |other: &&ResolvedBackend| {
        other.cluster.base() != own.base() && other.cluster.destination() == own.destination()
    };
    match known.iter().find(twin) {
        None => Ok(backend),
        Some(twin) => Err(BackendRefError {
            reason: UNSUPPORTED_VALUE,
            field: field.to_owned(),
            message: format!(
                "expected a backend whose short hash differs from the hash of {}, because tokens of this rule could \
                 not tell them apart",
                twin.cluster
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Cluster, ClusterName, Protocol};
    use crate::objects::RuleBackend;
    use limpet_api::ObjectName;

    fn backend(cluster: &str) -> ResolvedBackend {
        let service = ObjectName::new("shop", "v1");
        ResolvedBackend {
            cluster: ClusterName(cluster.into()),
            spec: Cluster::new(service.clone(), 80, Protocol::Http1),
            object: RuleBackend::Service(service),
        }
    }

    #[test]
    fn clusters_that_differ_behind_a_hash_are_one_destination() {
        let known = ["service/shop/b12273/80#1f2e"].map(backend);
        for (cluster, is_distinct) in [
            ("service/shop/b12273/80#3d4c", true),
            ("service/shop/b46585/80#1f2e", false),
            ("service/shop/b46585/80", false),
        ] {
            let found = distinct("", &known, backend(cluster));
            assert_eq!(found.is_ok(), is_distinct, "{cluster}");
        }
    }
}
