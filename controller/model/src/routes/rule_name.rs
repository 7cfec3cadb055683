//! The names of rules, which are the scopes of their sessions. They stay when rules are inserted or moved.

use super::rule::RouteRule;
use crate::graph::{Match, PathMatch, RuleName, ValueMatch};
use crate::rule_names::{RememberedName, RuleIdentity, RuleNames, assign};
use crate::short_hash::short_hash;
use limpet_api::{Kind, Meta, ObjectRef};

/// Names rules `<kind>/<namespace>/<route>/<name>`. A rule without a name keeps its remembered one; a new one is called
/// by a hash of its matches, in any order. Returns what to remember of the route.
pub(super) fn name_rules(
    kind: Kind,
    meta: &Meta,
    rules: &mut [RouteRule<'_>],
    former: &RuleNames,
) -> Vec<RememberedName> {
    let name = meta.object_name();
    let route = ObjectRef { kind, name }.key();
    let read: Vec<RuleIdentity<'_>> = rules
        .iter()
        .map(|rule| RuleIdentity {
            own_name: rule.own_name,
            matches: hash(&rule.matches),
        })
        .collect();
    let (names, remembered) = assign(former.of(&route, &meta.uid), &read);
    for (rule, name) in rules.iter_mut().zip(names) {
        rule.name = RuleName(format!("{route}/{name}").into());
    }
    remembered
}

/// Eight hexadecimal digits.
fn hash(matches: &[Match]) -> String {
    let mut sorted: Vec<&Match> = matches.iter().collect();
    sorted.sort();
    let mut text = Canonical::default();
    for found in sorted {
        text.write_match(found);
    }
    short_hash(&text.0)
}

/// A stable format: `Debug`'s may change with the compiler. Each text is preceded by its length.
#[derive(Default)]
struct Canonical(Vec<u8>);

impl Canonical {
    fn write_match(&mut self, found: &Match) {
        let (tag, path) = match &found.path {
            PathMatch::Exact(path) => (0, path),
            PathMatch::Prefix(path) | PathMatch::Text(path) => (1, path),
            PathMatch::Regex(path) => (2, path),
        };
        self.0.push(tag);
        self.text(path);
        self.text(found.method.as_deref().unwrap_or_default());
        for named in [&found.headers, &found.query] {
            self.0.extend_from_slice(&(named.len() as u64).to_be_bytes());
            for (name, value) in named {
                self.text(name);
                let (tag, value) = match value {
                    ValueMatch::Exact(value) => (0, value),
                    ValueMatch::Regex(value) => (2, value),
                };
                self.0.push(tag);
                self.text(value);
            }
        }
        self.0.push(u8::from(found.grpc));
    }

    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(&(text.len() as u64).to_be_bytes());
        self.0.extend_from_slice(text.as_bytes());
    }
}
