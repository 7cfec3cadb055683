//! Matches that HTTP and gRPC routes have in common.

use std::collections::BTreeMap;

use super::expressions::Expressions;
use super::token;
use crate::field_problem::FieldProblem;
use crate::graph::ValueMatch;
use limpet_api::NamedMatch;

/// The limit of Envoy's `QueryParameterMatcher`.
const MAX_PARAMETER: usize = 1024;

/// The first of several entries of one name counts (Gateway API, `HTTPRouteMatch`).
pub(super) fn named(
    expressions: &mut Expressions,
    field: &str,
    matches: &[NamedMatch],
    is_header: bool,
) -> Result<BTreeMap<String, ValueMatch>, FieldProblem> {
    let mut named = BTreeMap::new();
    for (index, found) in matches.iter().enumerate() {
        let at = format!("{field}[{index}].name");
        let name = if is_header {
            token::header_name(&at, &found.name)?
        } else if (1..=MAX_PARAMETER).contains(&found.name.len()) {
            found.name.clone()
        } else {
            return Err(FieldProblem {
                field: at,
                message: format!("expected 1 to {MAX_PARAMETER} bytes, found {}", found.name.len()),
            });
        };
        let value = match found.kind.as_deref() {
            None | Some("Exact") => ValueMatch::Exact(found.value.clone()),
            Some("RegularExpression") => {
                ValueMatch::Regex(expressions.read(&format!("{field}[{index}].value"), &found.value)?)
            }
            Some(other) => {
                return Err(FieldProblem {
                    field: format!("{field}[{index}].type"),
                    message: format!("expected Exact or RegularExpression, found {other}"),
                });
            }
        };
        named.entry(name).or_insert(value);
    }
    Ok(named)
}
