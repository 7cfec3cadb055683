//! What a route's metadata says of its sessions: `filter_metadata.limpet.session`, one string.

use crate::config::{MAX_SCOPE_LEN, is_policy_name};

/// In front of `<policy>/<scope>` on a route whose traffic is split.
const SPLIT: &[u8] = b"@split/";
/// On a route whose sessions belong to its clusters.
const DESTINATION: &[u8] = b"@destination";

/// What a route's metadata says of its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteSession<'a> {
    /// `<policy>/<scope>` or `@split/<policy>/<scope>`: they belong to the route's rule.
    Rule {
        /// The policy's name.
        policy: &'a str,
        /// Without one it is the route's name.
        scope: Option<&'a [u8]>,
        /// Whether the rule leads to several clusters, each of which has a route in front that matches on the header
        /// [`crate::view::DESTINATION_HEADER`], so that a session is led to its own.
        split: bool,
    },
    /// `@destination`: they belong to the cluster that the route leads to, whose metadata says the rest under the same key.
    Destination,
}

impl<'a> RouteSession<'a> {
    /// Reads a route's metadata; `None` where it says none of that.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        if text == DESTINATION {
            return Some(Self::Destination);
        }
        let (name, split) = without_split(text);
        let mut halves = name.splitn(2, |byte| *byte == b'/');
        let policy = std::str::from_utf8(halves.next()?).ok()?;
        let scope = halves.next().filter(|scope| !scope.is_empty());
        let is_scope = scope.is_none_or(|scope| scope.len() <= MAX_SCOPE_LEN);
        (is_policy_name(policy) && is_scope).then_some(Self::Rule { policy, scope, split })
    }
}

/// `<policy>/<scope>`, and whether `@split/` was in front.
pub(crate) fn without_split(text: &[u8]) -> (&[u8], bool) {
    match text.strip_prefix(SPLIT) {
        Some(name) => (name, true),
        None => (text, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule<'a>(policy: &'a str, scope: Option<&'a str>, split: bool) -> RouteSession<'a> {
        let scope = scope.map(str::as_bytes);
        RouteSession::Rule { policy, scope, split }
    }

    #[test]
    fn metadata_says_policy_and_scope() {
        for (text, session) in [
            ("web/cart", Some(rule("web", Some("cart"), false))),
            (
                "web/http/shop/cart/0",
                Some(rule("web", Some("http/shop/cart/0"), false)),
            ),
            ("web", Some(rule("web", None, false))),
            ("web/", Some(rule("web", None, false))),
            ("@split/web/cart", Some(rule("web", Some("cart"), true))),
            ("@split/web", Some(rule("web", None, true))),
            ("@destination", Some(RouteSession::Destination)),
            ("", None),
            ("/cart", None),
            ("@split", None),
            ("@split/", None),
            ("@split/@split/web/cart", None),
            ("@destination/web", None),
            ("we b/cart", None),
        ] {
            assert_eq!(RouteSession::parse(text.as_bytes()), session, "{text}");
        }
        let long = format!("web/{}", "s".repeat(MAX_SCOPE_LEN + 1));
        assert_eq!(RouteSession::parse(long.as_bytes()), None);
        assert_eq!(RouteSession::parse(b"w\xffb/cart"), None);
    }
}
