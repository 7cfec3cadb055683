//! Filters of rules and backends.

use crate::api::{Filter, HeaderModifier, PathModifier};
use crate::model::graph::{Destination, HeaderChanges, Match, PathChange, PathMatch, Redirect, Rewrite, Target};
use crate::model::sessions::Problem;
use crate::model::unread::Unread;

use super::{Rule, RuleAction, RuleInput, not_supported};

/// What a rule does with its requests. Changes of headers go into `rule`.
pub(super) fn action(
    input: &RuleInput<'_>,
    unread: &Unread<'_>,
    destinations: Vec<Destination>,
    rule: &mut Rule<'_>,
) -> Result<RuleAction, Problem> {
    let mut redirect = None;
    let mut rewrite = None;
    if let Some(field) = unread.below(&format!("{}.filters", input.field)).first() {
        return Err(not_supported(field));
    }
    for (index, filter) in input.filters.iter().enumerate() {
        let field = format!("{}.filters[{index}]", input.field);
        match filter.kind.as_str() {
            "RequestHeaderModifier" | "ResponseHeaderModifier" => {
                modify(&field, filter, &mut rule.request_headers, &mut rule.response_headers)?;
            }
            "RequestRedirect" => {
                let wanted = present(&field, "requestRedirect", filter.request_redirect.as_ref())?;
                once(&field, redirect.is_none())?;
                redirect = Some(Redirect {
                    scheme: wanted.scheme.clone(),
                    hostname: wanted.hostname.clone(),
                    path: path_change(&format!("{field}.requestRedirect"), wanted.path.as_ref(), &rule.matches)?,
                    port: wanted.port,
                    status: wanted.status_code.unwrap_or(302),
                });
            }
            "URLRewrite" => {
                let wanted = present(&field, "urlRewrite", filter.url_rewrite.as_ref())?;
                once(&field, rewrite.is_none())?;
                rewrite = Some(Rewrite {
                    hostname: wanted.hostname.clone(),
                    path: path_change(&format!("{field}.urlRewrite"), wanted.path.as_ref(), &rule.matches)?,
                });
            }
            other => {
                return Err(problem(
                    &format!("{field}.type"),
                    &format!(
                        "expected RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect or URLRewrite, found {other}"
                    ),
                ));
            }
        }
    }
    match (redirect, rewrite) {
        (Some(_), Some(_)) => Err(problem(
            &format!("{}.filters", input.field),
            "expected a RequestRedirect or a URLRewrite, found both",
        )),
        (Some(redirect), None) => Ok(RuleAction::Redirect(redirect)),
        (None, rewrite) => forward(input, destinations, rewrite.unwrap_or_default()),
    }
}

fn forward(input: &RuleInput<'_>, destinations: Vec<Destination>, rewrite: Rewrite) -> Result<RuleAction, Problem> {
    let leads_somewhere = |destination: &Destination| matches!(destination.target, Target::Cluster(_));
    if !destinations.iter().any(leads_somewhere) {
        return Ok(RuleAction::Respond {
            status: 500,
            reason: format!("{}.backendRefs: no backend that is there", input.field),
        });
    }
    let (request_timeout, backend_timeout) = input.timeouts.clone()?;
    Ok(RuleAction::Forward {
        destinations,
        rewrite,
        request_timeout,
        backend_timeout,
    })
}

/// The changes of headers that belong to one backend.
pub(super) fn of_backend(
    field: &str,
    unread: &Unread<'_>,
    filters: &[Filter],
) -> Result<(HeaderChanges, HeaderChanges), Problem> {
    let (mut request, mut response) = (HeaderChanges::default(), HeaderChanges::default());
    if let Some(field) = unread.below(&format!("{field}.filters")).first() {
        return Err(not_supported(field));
    }
    for (index, filter) in filters.iter().enumerate() {
        let field = format!("{field}.filters[{index}]");
        match filter.kind.as_str() {
            "RequestHeaderModifier" | "ResponseHeaderModifier" => modify(&field, filter, &mut request, &mut response)?,
            other => {
                return Err(problem(
                    &format!("{field}.type"),
                    &format!("expected RequestHeaderModifier or ResponseHeaderModifier, found {other}"),
                ));
            }
        }
    }
    Ok((request, response))
}

fn modify(
    field: &str,
    filter: &Filter,
    request: &mut HeaderChanges,
    response: &mut HeaderChanges,
) -> Result<(), Problem> {
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
fn header_changes(field: &str, modifier: &HeaderModifier) -> Result<HeaderChanges, Problem> {
    let fields = |part: &str, headers: &[crate::api::Header]| {
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

/// A header that may be changed, in lower case. Envoy refuses a whole table of routes for one that may not.
fn header_name(field: &str, name: &str) -> Result<String, Problem> {
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(problem(field, &format!("expected a header's name, found {name:?}")));
    }
    let name = name.to_ascii_lowercase();
    if name == "host" {
        return Err(problem(
            field,
            "expected another header than Host, which urlRewrite.hostname changes",
        ));
    }
    Ok(name)
}

fn path_change(field: &str, path: Option<&PathModifier>, matches: &[Match]) -> Result<Option<PathChange>, Problem> {
    let Some(path) = path else { return Ok(None) };
    match (path.kind.as_str(), &path.replace_full_path, &path.replace_prefix_match) {
        ("ReplaceFullPath", Some(full), None) => Ok(Some(PathChange::Full(full.clone()))),
        ("ReplacePrefixMatch", None, Some(prefix)) => {
            if matches.iter().all(|found| matches!(found.path, PathMatch::Prefix(_))) {
                Ok(Some(PathChange::Prefix(prefix.clone())))
            } else {
                let message = "expected every match of the rule to be a PathPrefix, since its prefix is replaced";
                Err(problem(&format!("{field}.path.type"), message))
            }
        }
        _ => Err(problem(
            &format!("{field}.path"),
            "expected type ReplaceFullPath with replaceFullPath, or ReplacePrefixMatch with replacePrefixMatch",
        )),
    }
}

fn present<'a, T>(field: &str, name: &str, value: Option<&'a T>) -> Result<&'a T, Problem> {
    value.ok_or_else(|| problem(&format!("{field}.{name}"), "expected it, since type says so"))
}

fn once(field: &str, first: bool) -> Result<(), Problem> {
    if first {
        Ok(())
    } else {
        Err(problem(field, "expected one filter of each type"))
    }
}

fn problem(field: &str, message: &str) -> Problem {
    Problem {
        field: field.to_owned(),
        message: message.to_owned(),
    }
}
