//! Filters of rules and backends.

use super::rule::{RouteInput, RouteRule, RuleAction, RuleInput, not_supported};
use super::{cors, mirrors, token};
use crate::field_problem::FieldProblem;
use crate::graph::{
    Destination, Forward, HeaderChanges, Match, Mirror, PathChange, PathMatch, Redirect, Rewrite, Target,
};
use crate::references::References;
use crate::unknown_fields::UnknownFields;
use limpet_api::{HeaderModifier, PathModifier, RequestRedirect, RouteFilter};

/// What filters ask for beside changes of headers and CORS, which are in the rule.
#[derive(Default)]
struct FilterEffects {
    redirect: Option<Redirect>,
    rewrite: Option<Rewrite>,
    mirrors: Vec<Mirror>,
}

/// Sets the header changes in `rule`.
pub(super) fn action(
    route: &RouteInput<'_>,
    input: &RuleInput<'_>,
    references: &References<'_>,
    destinations: &[Destination],
    rule: &mut RouteRule<'_>,
) -> Result<RuleAction, FieldProblem> {
    let unread = UnknownFields::new(route.unread);
    if let Some(field) = unread.below(&format!("{}.filters", input.field)).first() {
        return Err(not_supported(field));
    }
    let mut asked = FilterEffects::default();
    for (index, filter) in input.filters.iter().enumerate() {
        let field = format!("{}.filters[{index}]", input.field);
        asked.read(route, &field, filter, references, rule)?;
    }
    let FilterEffects {
        redirect,
        rewrite,
        mirrors,
    } = asked;
    // Envoy answers a redirect before any of these.
    if redirect.is_some() && (rule.cors.is_some() || !mirrors.is_empty()) {
        let message = "expected neither a CORS filter nor a RequestMirror beside a RequestRedirect";
        return Err(problem(&format!("{}.filters", input.field), message));
    }
    match (redirect, rewrite) {
        (Some(_), Some(_)) => Err(problem(
            &format!("{}.filters", input.field),
            "expected a RequestRedirect or a URLRewrite, found both",
        )),
        (Some(redirect), None) => Ok(RuleAction::Redirect(redirect)),
        (None, rewrite) => {
            let rewrite = rewrite.unwrap_or_default();
            let retry = if route.is_judged { input.retry.clone()? } else { None };
            let asked = Forward {
                rewrite,
                retry,
                mirrors,
                ..Forward::default()
            };
            forward(input, destinations, asked)
        }
    }
}

impl FilterEffects {
    fn read(
        &mut self,
        route: &RouteInput<'_>,
        field: &str,
        filter: &RouteFilter,
        references: &References<'_>,
        rule: &mut RouteRule<'_>,
    ) -> Result<(), FieldProblem> {
        match filter.kind.as_str() {
            "RequestHeaderModifier" | "ResponseHeaderModifier" => {
                modify(field, filter, &mut rule.request_headers, &mut rule.response_headers)?;
            }
            "RequestRedirect" => {
                let wanted = present(field, "requestRedirect", filter.request_redirect.as_ref())?;
                once(field, self.redirect.is_none())?;
                self.redirect = Some(redirect(&format!("{field}.requestRedirect"), wanted, &rule.matches)?);
            }
            "URLRewrite" => {
                let wanted = present(field, "urlRewrite", filter.url_rewrite.as_ref())?;
                once(field, self.rewrite.is_none())?;
                self.rewrite = Some(Rewrite {
                    hostname: printable(&format!("{field}.urlRewrite.hostname"), wanted.hostname.as_ref())?,
                    path: path_change(&format!("{field}.urlRewrite"), wanted.path.as_ref(), &rule.matches)?,
                });
            }
            // Other control planes follow these. They change nothing about sessions.
            "RequestMirror" | "CORS" if !route.is_judged => {}
            "RequestMirror" => {
                let wanted = present(field, "requestMirror", filter.request_mirror.as_ref())?;
                self.mirrors
                    .extend(mirrors::mirror(route, field, wanted, references, rule)?);
            }
            "CORS" => {
                let wanted = present(field, "cors", filter.cors.as_ref())?;
                once(field, rule.cors.is_none())?;
                rule.cors = Some(cors::cors(&format!("{field}.cors"), wanted)?);
            }
            other => {
                let message = format!(
                    "{other} is not supported; expected RequestHeaderModifier, ResponseHeaderModifier, \
                     RequestRedirect, URLRewrite, RequestMirror or CORS"
                );
                return Err(problem(&format!("{field}.type"), &message));
            }
        }
        Ok(())
    }
}

pub(super) fn forward_unchanged(destinations: Vec<Destination>) -> RuleAction {
    RuleAction::Forward(Forward {
        destinations,
        ..Forward::default()
    })
}

fn forward(input: &RuleInput<'_>, destinations: &[Destination], asked: Forward) -> Result<RuleAction, FieldProblem> {
    let leads_somewhere = |destination: &Destination| matches!(destination.target, Target::Cluster(_));
    if !destinations.iter().any(leads_somewhere) {
        return Ok(RuleAction::Respond {
            status: 500,
            reason: format!("{}.backendRefs: no valid backend", input.field),
        });
    }
    // Envoy adds the weights in 32 bits and refuses the whole route table if the sum overflows.
    let sum: u64 = destinations
        .iter()
        .map(|destination| u64::from(destination.weight))
        .sum();
    if sum > u64::from(u32::MAX) {
        let message = format!("expected weights whose sum is at most {}, found {sum}", u32::MAX);
        return Err(problem(&format!("{}.backendRefs", input.field), &message));
    }
    let (request_timeout, backend_timeout) = input.timeouts.clone()?;
    Ok(RuleAction::Forward(Forward {
        destinations: destinations.to_vec(),
        request_timeout,
        backend_timeout,
        ..asked
    }))
}

pub(super) fn of_backend(
    field: &str,
    unread: &UnknownFields<'_>,
    filters: &[RouteFilter],
) -> Result<(HeaderChanges, HeaderChanges), FieldProblem> {
    let (mut request, mut response) = (HeaderChanges::default(), HeaderChanges::default());
    if let Some(field) = unread.below(&format!("{field}.filters")).first() {
        return Err(not_supported(field));
    }
    for (index, filter) in filters.iter().enumerate() {
        let field = format!("{field}.filters[{index}]");
        match filter.kind.as_str() {
            "RequestHeaderModifier" | "ResponseHeaderModifier" => modify(&field, filter, &mut request, &mut response)?,
            other => {
                let message = format!(
                    "{other} is not supported for one backend; expected RequestHeaderModifier or ResponseHeaderModifier"
                );
                return Err(problem(&format!("{field}.type"), &message));
            }
        }
    }
    Ok((request, response))
}

fn modify(
    field: &str,
    filter: &RouteFilter,
    request: &mut HeaderChanges,
    response: &mut HeaderChanges,
) -> Result<(), FieldProblem> {
    let (changes, name, modifier) = if filter.kind == "RequestHeaderModifier" {
        (request, "requestHeaderModifier", &filter.request_header_modifier)
    } else {
        (response, "responseHeaderModifier", &filter.response_header_modifier)
    };
    let modifier = present(field, name, modifier.as_ref())?;
    once(field, changes.is_empty())?;
    *changes = header_changes(&format!("{field}.{name}"), modifier)?;
    Ok(())
}

/// The first of several entries of one name counts (Gateway API, `HTTPHeaderFilter`).
fn header_changes(field: &str, modifier: &HeaderModifier) -> Result<HeaderChanges, FieldProblem> {
    let fields = |part: &str, headers: &[limpet_api::Header]| {
        let mut fields: Vec<(String, String)> = Vec::with_capacity(headers.len());
        for (index, header) in headers.iter().enumerate() {
            let field = format!("{field}.{part}[{index}]");
            let name = header_name(&format!("{field}.name"), &header.name)?;
            if header.value.chars().any(|c| c.is_control() && c != '\t') {
                return Err(problem(&format!("{field}.value"), "expected no control characters"));
            }
            if !fields.iter().any(|(known, _)| *known == name) {
                fields.push((name, header.value.clone()));
            }
        }
        Ok(fields)
    };
    let removed = |(index, name): (usize, &String)| header_name(&format!("{field}.remove[{index}]"), name);
    Ok(HeaderChanges {
        set: fields("set", &modifier.set)?,
        add: fields("add", &modifier.add)?,
        remove: modifier
            .remove
            .iter()
            .enumerate()
            .map(removed)
            .collect::<Result<_, _>>()?,
    })
}

/// Envoy refuses a whole route table for a change of any other header.
fn header_name(field: &str, name: &str) -> Result<String, FieldProblem> {
    let name = token::header_name(field, name)?;
    if name == "host" {
        return Err(problem(
            field,
            "expected another header than Host, which urlRewrite.hostname changes",
        ));
    }
    Ok(name)
}

/// Objects from files have no schema that checks most of this, and Envoy would refuse the whole route table or redirect
/// elsewhere.
fn redirect(field: &str, wanted: &RequestRedirect, matches: &[Match]) -> Result<Redirect, FieldProblem> {
    let status = wanted.status_code.unwrap_or(302);
    if ![301, 302, 303, 307, 308].contains(&status) {
        let message = format!("expected 301, 302, 303, 307 or 308, found {status}");
        return Err(problem(&format!("{field}.statusCode"), &message));
    }
    if let Some(scheme) = wanted
        .scheme
        .as_deref()
        .filter(|scheme| !["http", "https"].contains(scheme))
    {
        let message = format!("expected http or https, found {scheme:?}");
        return Err(problem(&format!("{field}.scheme"), &message));
    }
    if wanted.port == Some(0) {
        return Err(problem(&format!("{field}.port"), "expected 1 to 65535, found 0"));
    }
    Ok(Redirect {
        scheme: wanted.scheme.clone(),
        hostname: printable(&format!("{field}.hostname"), wanted.hostname.as_ref())?,
        path: path_change(field, wanted.path.as_ref(), matches)?,
        port: wanted.port,
        status,
    })
}

fn printable(field: &str, text: Option<&String>) -> Result<Option<String>, FieldProblem> {
    if text.is_some_and(|text| text.chars().any(char::is_control)) {
        return Err(problem(field, "expected no control characters"));
    }
    Ok(text.cloned())
}

fn path_change(
    field: &str,
    path: Option<&PathModifier>,
    matches: &[Match],
) -> Result<Option<PathChange>, FieldProblem> {
    let Some(path) = path else { return Ok(None) };
    for (name, text) in [
        ("replaceFullPath", &path.replace_full_path),
        ("replacePrefixMatch", &path.replace_prefix_match),
    ] {
        printable(&format!("{field}.path.{name}"), text.as_ref())?;
    }
    match (path.kind.as_str(), &path.replace_full_path, &path.replace_prefix_match) {
        ("ReplaceFullPath", Some(full), None) => Ok(Some(PathChange::Full(full.clone()))),
        ("ReplacePrefixMatch", None, Some(prefix)) => {
            if matches.iter().all(|found| matches!(found.path, PathMatch::Prefix(_))) {
                Ok(Some(PathChange::Prefix(prefix.clone())))
            } else {
                let message = "expected every match of the rule to be a PathPrefix, because its prefix is replaced";
                Err(problem(&format!("{field}.path.type"), message))
            }
        }
        _ => Err(problem(
            &format!("{field}.path"),
            "expected type ReplaceFullPath with replaceFullPath, or ReplacePrefixMatch with replacePrefixMatch",
        )),
    }
}

fn present<'a, T>(field: &str, name: &str, value: Option<&'a T>) -> Result<&'a T, FieldProblem> {
    value.ok_or_else(|| problem(&format!("{field}.{name}"), "expected this field, because type names it"))
}

fn once(field: &str, first: bool) -> Result<(), FieldProblem> {
    if first {
        Ok(())
    } else {
        Err(problem(field, "expected one filter of each type"))
    }
}

fn problem(field: &str, message: &str) -> FieldProblem {
    FieldProblem {
        field: field.to_owned(),
        message: message.to_owned(),
    }
}
