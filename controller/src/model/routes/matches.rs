//! Matches that HTTP and gRPC routes have in common.

use std::collections::BTreeMap;

use crate::api::NamedMatch;
use crate::model::graph::ValueMatch;
use crate::model::sessions::Problem;

use super::expressions::regex;

/// Headers or query parameters. The first of several entries of one name counts (Gateway API, `HTTPRouteMatch`).
pub(super) fn named(
    field: &str,
    matches: &[NamedMatch],
    lower_case: bool,
) -> Result<BTreeMap<String, ValueMatch>, Problem> {
    let mut named = BTreeMap::new();
    for (index, found) in matches.iter().enumerate() {
        let name = if lower_case {
            found.name.to_ascii_lowercase()
        } else {
            found.name.clone()
        };
        let value = match found.kind.as_deref() {
            None | Some("Exact") => ValueMatch::Exact(found.value.clone()),
            Some("RegularExpression") => ValueMatch::Regex(regex(&format!("{field}[{index}].value"), &found.value)?),
            Some(other) => {
                return Err(Problem {
                    field: format!("{field}[{index}].type"),
                    message: format!("expected Exact or RegularExpression, found {other}"),
                });
            }
        };
        named.entry(name).or_insert(value);
    }
    Ok(named)
}
