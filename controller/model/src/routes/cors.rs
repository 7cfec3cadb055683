//! Which pages of other origins may send requests (Gateway API, `HTTPCORSFilter`).

use super::token;
use crate::expression::Expression;
use crate::field_problem::FieldProblem;
use crate::graph::{Cors, ValueMatch};
use limpet_api::CorsFilter;

const ANY: &str = "*";
/// The API's default.
const MAX_AGE: u32 = 5;

/// The expression of an origin that stands for many, if it does.
pub(super) fn expression(origin: &str) -> Option<String> {
    let lower = origin.to_ascii_lowercase();
    let (scheme, host, port) = parts(&lower)?;
    // Any number of labels.
    let rest = host.strip_prefix(ANY)?;
    Some(format!("{scheme}://[^/:]+{}{port}", Expression::escape(rest)))
}

pub(super) fn cors(field: &str, wanted: &CorsFilter) -> Result<Cors, FieldProblem> {
    let origins = wanted.allow_origins.iter().enumerate();
    let allow_origins = origins.map(|(index, text)| origin(&format!("{field}.allowOrigins[{index}]"), text));
    let allow_credentials = wanted.allow_credentials.unwrap_or(false);
    let expose_headers = names(
        &format!("{field}.exposeHeaders"),
        &wanted.expose_headers,
        token::header_name,
    )?;
    if allow_credentials && expose_headers.iter().any(|name| name == ANY) {
        // The Fetch standard, "CORS-exposed header-name list".
        return Err(FieldProblem {
            field: format!("{field}.exposeHeaders"),
            message: "expected names, because with allowCredentials browsers take * for the name of a header"
                .to_owned(),
        });
    }
    Ok(Cors {
        allow_origins: allow_origins.collect::<Result<_, _>>()?,
        allow_methods: names(&format!("{field}.allowMethods"), &wanted.allow_methods, token::method)?,
        allow_headers: names(
            &format!("{field}.allowHeaders"),
            &wanted.allow_headers,
            token::header_name,
        )?,
        expose_headers,
        allow_credentials,
        max_age: wanted.max_age.unwrap_or(MAX_AGE),
    })
}

/// Names of methods or headers, or only `*`.
fn names(
    field: &str,
    names: &[String],
    read: fn(&str, &str) -> Result<String, FieldProblem>,
) -> Result<Vec<String>, FieldProblem> {
    if names.len() > 1 && names.iter().any(|name| name == ANY) {
        return Err(FieldProblem {
            field: field.to_owned(),
            message: "expected only *, or names without it".to_owned(),
        });
    }
    let name = |(index, name): (usize, &String)| read(&format!("{field}[{index}]"), name);
    names.iter().enumerate().map(name).collect()
}

/// Reads `*`, `https://shop.example.com:8443` or `https://*.example.com`.
fn origin(field: &str, text: &str) -> Result<ValueMatch, FieldProblem> {
    if text == ANY {
        return Ok(ValueMatch::Exact(text.to_owned()));
    }
    let lower = text.to_ascii_lowercase();
    let Some((scheme, host, port)) = parts(&lower) else {
        return Err(FieldProblem {
            field: field.to_owned(),
            message: format!("expected * or an origin such as https://*.example.com, found {text:?}"),
        });
    };
    Ok(match expression(text) {
        Some(text) => {
            let expression = Expression::parse(&text).map_err(|message| FieldProblem {
                field: field.to_owned(),
                message,
            })?;
            ValueMatch::Regex(expression.as_str().to_owned())
        }
        None => ValueMatch::Exact(format!("{scheme}://{host}{port}")),
    })
}

/// Scheme, host and port. The port has its colon, and is empty for the scheme's own, which browsers leave out.
fn parts(origin: &str) -> Option<(&str, &str, String)> {
    let (scheme, authority) = origin.split_once("://")?;
    let own_port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()?),
        None => (authority, own_port),
    };
    let name = host.strip_prefix(ANY).unwrap_or(host);
    let is_host = |c: u8| c.is_ascii_alphanumeric() || b"-._".contains(&c);
    let port = if port == own_port {
        String::new()
    } else {
        format!(":{port}")
    };
    (!host.is_empty() && name.bytes().all(is_host)).then_some((scheme, host, port))
}
