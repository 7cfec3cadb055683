//! What a route's metadata says of its sessions: `filter_metadata.limpet.session`, one string.

use crate::config::{MAX_SCOPE_LEN, is_policy_name};
use crate::names::{DESTINATION_SESSION, SPLIT_PREFIX};

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
        /// [`crate::names::DESTINATION_HEADER`], so that a session is led to its own.
        split: bool,
    },
    /// `@destination`: they belong to the cluster that the route leads to, whose metadata says the rest under the same key.
    Destination,
}

impl<'a> RouteSession<'a> {
    /// Reads a route's metadata.
    ///
    /// # Errors
    /// It says none of that.
    pub fn parse(text: &'a [u8]) -> Result<Self, RouteSessionError> {
        if text == DESTINATION_SESSION.as_bytes() {
            return Ok(Self::Destination);
        }
        let (name, split) = without_split(text);
        let mut halves = name.splitn(2, |byte| *byte == b'/');
        let policy = std::str::from_utf8(halves.next().unwrap_or_default());
        let policy = policy.ok().filter(|policy| is_policy_name(policy));
        let policy = policy.ok_or(RouteSessionError::NoSession)?;
        let scope = halves.next().filter(|scope| !scope.is_empty());
        if scope.is_some_and(|scope| scope.len() > MAX_SCOPE_LEN) {
            return Err(RouteSessionError::LongScope);
        }
        Ok(Self::Rule { policy, scope, split })
    }
}

/// Why a route's metadata says nothing of its sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteSessionError {
    /// It is none of the forms.
    #[error("expected <policy>/<scope>, @split/<policy>/<scope> or @destination")]
    NoSession,
    /// The scope is too long.
    #[error("expected a scope of at most 1024 bytes")]
    LongScope,
}

/// `<policy>/<scope>`, and whether `@split/` was in front.
pub(crate) fn without_split(text: &[u8]) -> (&[u8], bool) {
    match text.strip_prefix(SPLIT_PREFIX.as_bytes()) {
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
            ("web/cart", Ok(rule("web", Some("cart"), false))),
            ("web/http/shop/cart/0", Ok(rule("web", Some("http/shop/cart/0"), false))),
            ("web", Ok(rule("web", None, false))),
            ("web/", Ok(rule("web", None, false))),
            ("@split/web/cart", Ok(rule("web", Some("cart"), true))),
            ("@split/web", Ok(rule("web", None, true))),
            ("@destination", Ok(RouteSession::Destination)),
            ("", Err(RouteSessionError::NoSession)),
            ("/cart", Err(RouteSessionError::NoSession)),
            ("@split", Err(RouteSessionError::NoSession)),
            ("@split/", Err(RouteSessionError::NoSession)),
            ("@split/@split/web/cart", Err(RouteSessionError::NoSession)),
            ("@destination/web", Err(RouteSessionError::NoSession)),
            ("we b/cart", Err(RouteSessionError::NoSession)),
        ] {
            assert_eq!(RouteSession::parse(text.as_bytes()), session, "{text}");
        }
        let long = format!("web/{}", "s".repeat(MAX_SCOPE_LEN + 1));
        assert_eq!(RouteSession::parse(long.as_bytes()), Err(RouteSessionError::LongScope));
        assert_eq!(RouteSession::parse(b"w\xffb/cart"), Err(RouteSessionError::NoSession));
    }
}
