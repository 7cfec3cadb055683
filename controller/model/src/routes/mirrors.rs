//! Copies of a rule's requests.

use super::rule::{BackendRefError, RouteInput, RouteRule};
use crate::field_problem::FieldProblem;
use crate::grants::Referrer;
use crate::graph::Mirror;
use crate::references::References;
use limpet_api::{Kind, RequestMirror};

const MILLION: u64 = 1_000_000;

/// `None` if its reference is invalid: the requests are served without it (Gateway API, `HTTPRequestMirrorFilter`).
pub(super) fn mirror(
    route: &RouteInput<'_>,
    field: &str,
    wanted: &RequestMirror,
    references: &References<'_>,
    rule: &mut RouteRule<'_>,
) -> Result<Option<Mirror>, FieldProblem> {
    let field = format!("{field}.requestMirror");
    let per_million = share(&field, wanted)?;
    let referrer = Referrer {
        kind: route.kind,
        namespace: &route.meta.namespace,
    };
    let reference = &wanted.backend_ref;
    if Kind::find(&reference.group, &reference.kind) != Some(Kind::Service) {
        // An XBackend has endpoints only where rules lead to it.
        rule.unresolved.push(BackendRefError {
            reason: "InvalidKind",
            field: format!("{field}.backendRef.kind"),
            message: format!(
                "expected a Service, found {} of group {:?}",
                reference.kind, reference.group
            ),
        });
        return Ok(None);
    }
    match references.backend(referrer, reference) {
        Ok(backend) => {
            let cluster = backend.cluster.clone();
            rule.mirrors.push(backend);
            Ok(Some(Mirror { cluster, per_million }))
        }
        Err(unresolved) => {
            rule.unresolved.push(BackendRefError {
                reason: unresolved.reason,
                field: format!("{field}.backendRef{}", unresolved.field),
                message: unresolved.message,
            });
            Ok(None)
        }
    }
}

fn share(field: &str, wanted: &RequestMirror) -> Result<u32, FieldProblem> {
    let (field, numerator, denominator) = match (wanted.percent, &wanted.fraction) {
        (None, None) => return Ok(1_000_000),
        (Some(percent), None) => (format!("{field}.percent"), percent, 100),
        (None, Some(fraction)) => (
            format!("{field}.fraction"),
            fraction.numerator,
            fraction.denominator.unwrap_or(100),
        ),
        (Some(_), Some(_)) => {
            return Err(FieldProblem {
                field: field.to_owned(),
                message: "expected percent or fraction, found both".to_owned(),
            });
        }
    };
    if denominator == 0 || numerator > denominator {
        return Err(FieldProblem {
            field,
            message: format!("expected a part of all requests, found {numerator} of {denominator}"),
        });
    }
    // Rounded up, so that no part becomes none.
    let per_million = (u64::from(numerator) * MILLION).div_ceil(u64::from(denominator));
    Ok(u32::try_from(per_million).unwrap_or(u32::MAX))
}
