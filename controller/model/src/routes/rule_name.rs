//! The name of a rule, which is the scope of its sessions. It does not depend on the index of the rule, so it stays
//! when rules are inserted or moved.

use crate::graph::{Match, PathMatch, RuleName, ValueMatch};
use crate::short_hash::short_hash;
use limpet_api::{Kind, Meta};

/// `<kind>/<namespace>/<route>/<name>`. Instead of a missing name, it has a hash of the matches, which does not depend
/// on their order.
pub(super) fn rule_name(kind: Kind, meta: &Meta, name: Option<&str>, matches: &[Match]) -> RuleName {
    let rule = name.map_or_else(|| hash(matches), str::to_owned);
    RuleName(format!(
        "{}/{}/{}/{rule}",
        kind.as_str().to_ascii_lowercase(),
        meta.namespace,
        meta.name
    ))
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

/// Matches as bytes, in a stable format: that of `Debug` may change with the compiler. Each text is preceded by its
/// length.
#[derive(Default)]
struct Canonical(Vec<u8>);

impl Canonical {
    fn write_match(&mut self, found: &Match) {
        let (tag, path) = match &found.path {
            PathMatch::Exact(path) => (0, path),
            PathMatch::Prefix(path) => (1, path),
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
