//! Resources of a container. An API server checks them only in the Deployment, far from the mistake.

use serde_json::{Map, Value};

/// What may follow the number of a quantity, unless that is an exponent.
const SUFFIXES: [&str; 16] = [
    "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
];

/// # Errors
/// With the field.
pub(super) fn check(field: &str, resources: &Map<String, Value>) -> Result<(), String> {
    for (name, amounts) in resources {
        let field = format!("{field}.{name}");
        match name.as_str() {
            "requests" | "limits" => check_amounts(&field, amounts)?,
            "claims" => {}
            _ => return Err(format!("{field}: expected only requests, limits and claims")),
        }
    }
    Ok(())
}

fn check_amounts(field: &str, amounts: &Value) -> Result<(), String> {
    let Value::Object(amounts) = amounts else {
        return Err(format!(
            "{field}: expected an object, like {{memory: 1Gi}}, found {amounts}"
        ));
    };
    match amounts.iter().find(|(_, amount)| !is_quantity(amount)) {
        None => Ok(()),
        Some((name, found)) => Err(format!(
            "{field}.{name}: expected a quantity, like 500m or 1Gi, found {found}"
        )),
    }
}

fn is_quantity(amount: &Value) -> bool {
    match amount {
        Value::Number(number) => number.as_f64().is_some_and(|number| number >= 0.0),
        Value::String(text) => is_quantity_text(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    }
}

fn is_quantity_text(text: &str) -> bool {
    let text = text.strip_prefix('+').unwrap_or(text);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    let has_digit = number.contains(|c: char| c.is_ascii_digit());
    let is_exponent = |suffix: &str| {
        let digits = suffix.strip_prefix(['+', '-']).unwrap_or(suffix);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    has_digit
        && number.matches('.').count() <= 1
        && (SUFFIXES.contains(&suffix) || suffix.strip_prefix(['e', 'E']).is_some_and(is_exponent))
}
