//! Names of headers and methods: tokens of HTTP (RFC 9110, section 5.6.2), and the names of gRPC.

use crate::field_problem::FieldProblem;

pub(super) fn header_name(field: &str, name: &str) -> Result<String, FieldProblem> {
    check(field, "a header's name", name)?;
    Ok(name.to_ascii_lowercase())
}

/// A method, whose case counts.
pub(super) fn method(field: &str, name: &str) -> Result<String, FieldProblem> {
    check(field, "a method", name)?;
    Ok(name.to_owned())
}

/// A gRPC service with its package (Gateway API, `GRPCMethodMatch.service`), which no API server checks in files.
pub(super) fn grpc_service<'n>(field: &str, name: &'n str) -> Result<&'n str, FieldProblem> {
    let names = name.strip_prefix('.').unwrap_or(name);
    if names.split('.').all(is_identifier) {
        return Ok(name);
    }
    Err(FieldProblem {
        field: field.to_owned(),
        message: format!("expected a gRPC service such as shop.Cart, found {name:?}"),
    })
}

pub(super) fn grpc_method<'n>(field: &str, name: &'n str) -> Result<&'n str, FieldProblem> {
    if is_identifier(name) {
        return Ok(name);
    }
    Err(FieldProblem {
        field: field.to_owned(),
        message: format!("expected a gRPC method such as Add, found {name:?}"),
    })
}

fn is_identifier(name: &str) -> bool {
    let is_part = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
    name.bytes().all(is_part) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

fn check(field: &str, what: &str, name: &str) -> Result<(), FieldProblem> {
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    if !name.is_empty() && name.bytes().all(is_token) {
        return Ok(());
    }
    Err(FieldProblem {
        field: field.to_owned(),
        message: format!("expected {what}, found {name:?}"),
    })
}
