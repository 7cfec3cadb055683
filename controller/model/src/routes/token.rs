//! Names of headers and methods: tokens of HTTP (RFC 9110, section 5.6.2).

use crate::problem::Problem;

/// A header's name, in lower case.
pub(super) fn header_name(field: &str, name: &str) -> Result<String, Problem> {
    check(field, "a header's name", name)?;
    Ok(name.to_ascii_lowercase())
}

/// A method, whose case counts.
pub(super) fn method(field: &str, name: &str) -> Result<String, Problem> {
    check(field, "a method", name)?;
    Ok(name.to_owned())
}

fn check(field: &str, what: &str, name: &str) -> Result<(), Problem> {
    let is_token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
    if !name.is_empty() && name.bytes().all(is_token) {
        return Ok(());
    }
    Err(Problem {
        field: field.to_owned(),
        message: format!("expected {what}, found {name:?}"),
    })
}
