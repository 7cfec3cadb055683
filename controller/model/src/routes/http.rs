//! What an HTTPRoute says.

use std::time::Duration;

use super::expressions::Expressions;
use super::matches;
use super::rule::{RouteInput, RuleInput};
use crate::field_problem::FieldProblem;
use crate::graph::{Match, PathMatch, Retry};
use crate::sessions::literal_prefix;
use limpet_api::{HttpMatch, HttpPathMatch as PathMatchSpec, HttpRouteSpec, HttpRule, Kind, Object};
use limpet_core::time::GatewayDuration;

pub(super) fn input(route: &Object<HttpRouteSpec>, is_judged: bool) -> RouteInput<'_> {
    RouteInput {
        kind: Kind::HttpRoute,
        meta: &route.meta,
        malformed: route.malformed.as_ref(),
        unread: &route.unread,
        parents: &route.spec.parent_refs,
        hostnames: &route.spec.hostnames,
        rules: Expressions::rules(&route.spec.rules, rule_input),
        is_judged,
    }
}

fn rule_input<'a>(expressions: &mut Expressions, index: usize, rule: &'a HttpRule) -> RuleInput<'a> {
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
        timeouts: timeouts(&field, rule),
        retry: retry(&field, rule),
        inline: rule.session_persistence.as_ref(),
        field,
    }
}

fn read_matches(expressions: &mut Expressions, field: &str, all: &[HttpMatch]) -> Result<Vec<Match>, FieldProblem> {
    expressions.count_matches(all.len());
    if all.is_empty() {
        return Ok(vec![Match::default()]);
    }
    let read = |(index, found): (usize, &HttpMatch)| {
        let field = format!("{field}.matches[{index}]");
        Ok(Match {
            path: path(expressions, &format!("{field}.path"), found.path.as_ref())?,
            method: found.method.clone(),
            headers: matches::named(expressions, &format!("{field}.headers"), &found.headers, true)?,
            query: matches::named(expressions, &format!("{field}.queryParams"), &found.query_params, false)?,
            grpc: false,
        })
    };
    all.iter().enumerate().map(read).collect()
}

/// The match's path and method, if they can be read.
fn at_least(found: &HttpMatch) -> Option<Match> {
    let mut at_least = found.path.clone();
    if let Some(path) = &mut at_least
        && path.kind.as_deref() == Some("RegularExpression")
    {
        path.kind = None;
        path.value = path.value.as_deref().map(|value| format!("{}/", literal_prefix(value)));
    }
    Some(Match {
        path: path(&mut Expressions::default(), "", at_least.as_ref()).ok()?,
        method: found.method.clone(),
        ..Match::default()
    })
}

fn path(expressions: &mut Expressions, field: &str, path: Option<&PathMatchSpec>) -> Result<PathMatch, FieldProblem> {
    let Some(path) = path else {
        return Ok(PathMatch::default());
    };
    let value = path.value.as_deref().unwrap_or("/");
    let problem = |field: String, message: String| FieldProblem { field, message };
    match path.kind.as_deref() {
        Some("RegularExpression") => return expressions.read(&format!("{field}.value"), value).map(PathMatch::Regex),
        _ if !value.starts_with('/') => {
            return Err(problem(
                format!("{field}.value"),
                format!("expected a path that begins with /, found {value:?}"),
            ));
        }
        // Envoy refuses a whole route table for a prefix with one of these.
        _ if value.chars().any(|c| c.is_control() || c == '?' || c == '#') => {
            return Err(problem(
                format!("{field}.value"),
                format!("expected a path without query and fragment, found {value:?}"),
            ));
        }
        _ => {}
    }
    match path.kind.as_deref() {
        // `/shop` and `/shop/` are one prefix (Gateway API, `HTTPPathMatch`).
        None | Some("PathPrefix") => Ok(PathMatch::Prefix(value.trim_end_matches('/').to_owned())),
        Some("Exact") => Ok(PathMatch::Exact(value.to_owned())),
        Some(other) => {
            let message = format!("expected PathPrefix, Exact or RegularExpression, found {other}");
            Err(problem(format!("{field}.type"), message))
        }
    }
}

fn timeouts(field: &str, rule: &HttpRule) -> Result<(Option<Duration>, Option<Duration>), FieldProblem> {
    let Some(timeouts) = &rule.timeouts else {
        return Ok((None, None));
    };
    let request = duration(&format!("{field}.timeouts.request"), timeouts.request.as_deref())?;
    let backend = duration(
        &format!("{field}.timeouts.backendRequest"),
        timeouts.backend_request.as_deref(),
    )?;
    Ok((request, backend))
}

fn retry(field: &str, rule: &HttpRule) -> Result<Option<Retry>, FieldProblem> {
    let Some(retry) = &rule.retry else {
        return Ok(None);
    };
    if let Some((index, code)) = retry
        .codes
        .iter()
        .enumerate()
        .find(|(_, code)| !(400..600).contains(*code))
    {
        return Err(FieldProblem {
            field: format!("{field}.retry.codes[{index}]"),
            message: format!("expected 400 to 599, found {code}"),
        });
    }
    let backoff_field = format!("{field}.retry.backoff");
    let backoff = duration(&backoff_field, retry.backoff.as_deref())?;
    if backoff.is_some_and(|backoff| backoff.is_zero()) {
        return Err(FieldProblem {
            field: backoff_field,
            message: "expected at least 1ms, found 0".to_owned(),
        });
    }
    let mut codes = retry.codes.clone();
    codes.sort_unstable();
    codes.dedup();
    Ok(Some(Retry {
        server_errors: false,
        attempts: retry.attempts.unwrap_or(1),
        codes,
        backoff,
    }))
}

fn duration(field: &str, text: Option<&str>) -> Result<Option<Duration>, FieldProblem> {
    let parse = |text: &str| match text.parse::<GatewayDuration>() {
        Ok(duration) => Ok(duration.get()),
        Err(error) => Err(FieldProblem {
            field: field.to_owned(),
            message: error.about(text),
        }),
    };
    text.map(parse).transpose()
}
