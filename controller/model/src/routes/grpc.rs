//! What a GRPCRoute says. A gRPC method is a path, `/<service>/<method>`.

use super::rule::{RouteInput, RuleInput};
use super::{expressions, matches};
use crate::graph::{Match, PathMatch};
use crate::problem::Problem;
use limpet_api::{GrpcMatch, GrpcMethodMatch, GrpcRouteSpec, GrpcRule, Kind, Object};

pub(super) fn input(route: &Object<GrpcRouteSpec>, is_judged: bool) -> RouteInput<'_> {
    RouteInput {
        kind: Kind::GrpcRoute,
        meta: &route.meta,
        malformed: route.malformed.as_ref(),
        unread: &route.unread,
        parents: &route.spec.parent_refs,
        hostnames: &route.spec.hostnames,
        rules: route
            .spec
            .rules
            .iter()
            .enumerate()
            .map(|(index, rule)| rule_input(index, rule))
            .collect(),
        is_judged,
    }
}

fn rule_input(index: usize, rule: &GrpcRule) -> RuleInput<'_> {
    let field = format!("spec.rules[{index}]");
    RuleInput {
        name: rule.name.as_deref(),
        matches: read_matches(&field, &rule.matches),
        filters: &rule.filters,
        backends: &rule.backend_refs,
        timeouts: Ok((None, None)),
        retry: Ok(None),
        inline: rule.session_persistence.as_ref(),
        field,
    }
}

fn read_matches(field: &str, all: &[GrpcMatch]) -> Result<Vec<Match>, Problem> {
    let any = Match {
        grpc: true,
        ..Match::default()
    };
    if all.is_empty() {
        return Ok(vec![any]);
    }
    let read = |(index, found): (usize, &GrpcMatch)| {
        let field = format!("{field}.matches[{index}]");
        Ok(Match {
            path: path(&format!("{field}.method"), found.method.as_ref())?,
            headers: matches::named(&format!("{field}.headers"), &found.headers, true)?,
            ..any.clone()
        })
    };
    all.iter().enumerate().map(read).collect()
}

fn path(field: &str, method: Option<&GrpcMethodMatch>) -> Result<PathMatch, Problem> {
    let Some(found) = method else {
        return Ok(PathMatch::default());
    };
    match (found.kind.as_deref(), found.service.as_deref(), found.method.as_deref()) {
        (None | Some("Exact"), Some(service), Some(method)) => Ok(PathMatch::Exact(format!("/{service}/{method}"))),
        (None | Some("Exact"), Some(service), None) => Ok(PathMatch::Prefix(format!("/{service}"))),
        (None | Some("Exact"), None, Some(method)) => {
            Ok(PathMatch::Regex(format!("/[^/]+/{}", ::regex::escape(method))))
        }
        (Some("RegularExpression"), service, method) if service.or(method).is_some() => {
            let part = |name: &str, text: Option<&str>| match text {
                Some(text) => expressions::regex(&format!("{field}.{name}"), text).map(|text| format!("({text})")),
                None => Ok("[^/]+".to_owned()),
            };
            Ok(PathMatch::Regex(format!(
                "/{}/{}",
                part("service", service)?,
                part("method", method)?
            )))
        }
        (Some(kind), ..) if !["Exact", "RegularExpression"].contains(&kind) => Err(Problem {
            field: format!("{field}.type"),
            message: format!("expected Exact or RegularExpression, found {kind}"),
        }),
        _ => Err(Problem {
            field: field.to_owned(),
            message: "expected service, method or both".to_owned(),
        }),
    }
}
