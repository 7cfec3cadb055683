//! A GRPCRoute. A gRPC method is a path, `/<service>/<method>`.

use super::expressions::Expressions;
use super::rule::{RouteInput, RuleInput};
use super::{matches, token};
use crate::field_problem::FieldProblem;
use crate::graph::{Match, PathMatch};
use limpet_api::{GrpcMatch, GrpcMethodMatch, GrpcRouteSpec, GrpcRule, Kind, Object};

const ANY: &str = "[^/]+";

pub(super) fn input(route: &Object<GrpcRouteSpec>, is_judged: bool) -> RouteInput<'_> {
    RouteInput {
        kind: Kind::GrpcRoute,
        meta: &route.meta,
        malformed: route.malformed.as_ref(),
        unread: &route.unread,
        parents: &route.spec.parent_refs,
        hostnames: &route.spec.hostnames,
        rules: Expressions::rules(&route.spec.rules, rule_input),
        is_judged,
    }
}

fn rule_input<'a>(expressions: &mut Expressions, index: usize, rule: &'a GrpcRule) -> RuleInput<'a> {
    let field = format!("spec.rules[{index}]");
    let matches = read_matches(expressions, &field, &rule.matches);
    RuleInput {
        name: rule.name.as_deref(),
        otherwise: match &matches {
            Ok(_) => Vec::new(),
            Err(_) => rule.matches.iter().filter_map(at_least).collect(),
        },
        matches,
        filters: &rule.filters,
        backends: &rule.backend_refs,
        timeouts: Ok((None, None)),
        retry: Ok(None),
        inline: rule.session_persistence.as_ref(),
        field,
    }
}

fn read_matches(expressions: &mut Expressions, field: &str, all: &[GrpcMatch]) -> Result<Vec<Match>, FieldProblem> {
    expressions.count_matches(all.len());
    if all.is_empty() {
        return Ok(vec![any()]);
    }
    let read = |(index, found): (usize, &GrpcMatch)| {
        let field = format!("{field}.matches[{index}]");
        Ok(Match {
            path: path(expressions, &format!("{field}.method"), found.method.as_ref())?,
            headers: matches::named(expressions, &format!("{field}.headers"), &found.headers, true)?,
            ..any()
        })
    };
    all.iter().enumerate().map(read).collect()
}

fn any() -> Match {
    Match {
        grpc: true,
        ..Match::default()
    }
}

/// The match without its expressions, if that can be read.
fn at_least(found: &GrpcMatch) -> Option<Match> {
    let is_expression = |method: &&GrpcMethodMatch| method.kind.as_deref() == Some("RegularExpression");
    let path = match found.method.as_ref().filter(is_expression) {
        Some(_) => PathMatch::default(),
        None => path(&mut Expressions::default(), "", found.method.as_ref()).ok()?,
    };
    Some(Match { path, ..any() })
}

fn path(
    expressions: &mut Expressions,
    field: &str,
    method: Option<&GrpcMethodMatch>,
) -> Result<PathMatch, FieldProblem> {
    let Some(found) = method else {
        return Ok(PathMatch::default());
    };
    let service_field = format!("{field}.service");
    let method_field = format!("{field}.method");
    match (found.kind.as_deref(), found.service.as_deref(), found.method.as_deref()) {
        (None | Some("Exact"), Some(service), Some(method)) => {
            let service = token::grpc_service(&service_field, service)?;
            let method = token::grpc_method(&method_field, method)?;
            Ok(PathMatch::Exact(format!("/{service}/{method}")))
        }
        (None | Some("Exact"), Some(service), None) => {
            let service = token::grpc_service(&service_field, service)?;
            Ok(PathMatch::Prefix(format!("/{service}")))
        }
        (None | Some("Exact"), None, Some(method)) => {
            let method = token::grpc_method(&method_field, method)?;
            Ok(PathMatch::Regex(format!("/{ANY}/{method}")))
        }
        (Some("RegularExpression"), service, method) if service.or(method).is_some() => {
            let mut part = |field: &str, text: Option<&str>| match text {
                Some(text) => expressions.read_part(field, text),
                None => Ok(ANY.to_owned()),
            };
            let service = part(&service_field, service)?;
            let method = part(&method_field, method)?;
            // Each part is within the limit, but both together may not be.
            let both = format!("/{service}/{method}");
            Expressions::default().read(field, &both).map(PathMatch::Regex)
        }
        (Some(kind), ..) if !["Exact", "RegularExpression"].contains(&kind) => Err(FieldProblem {
            field: format!("{field}.type"),
            message: format!("expected Exact or RegularExpression, found {kind}"),
        }),
        _ => Err(FieldProblem {
            field: field.to_owned(),
            message: "expected service, method or both".to_owned(),
        }),
    }
}
