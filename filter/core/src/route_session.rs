//! The session in a route's metadata: `filter_metadata.limpet.session`, a string.

use crate::config::{MAX_SCOPE_LEN, is_policy_name};
use crate::envoy::{DESTINATION_PREFIX, DESTINATION_SESSION, NO_SESSION, SPECIFIER_PREFIX, SPLIT_PREFIX};
use crate::token::cluster_base;
use crate::view::{ResponseView, ViewError};

/// The sessions in a route's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouteSession<'a> {
    /// `<policy>/<scope>`, with or without a prefix: sessions belong to the route's rule.
    Rule {
        /// The policy's name.
        policy: &'a str,
        /// `None` means the name of the route.
        scope: Option<&'a [u8]>,
        /// What the prefix says.
        split: Option<Split>,
    },
    /// `@destination`: sessions belong to the route's cluster, and its metadata has a [`RouteSession::Rule`].
    Destination,
}

/// A session of a rule that leads to several clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// `@split/`: a route that matches [`crate::envoy::DESTINATION_HEADER`] leads it to its cluster.
    Routes,
    /// `@specifier/`: the dynamic module's cluster specifier leads it to its cluster.
    Specifier,
    /// `@destination/`: Envoy chooses the cluster for every request, and a client has a session in each.
    Destinations,
}

impl<'a> RouteSession<'a> {
    /// Reads the metadata of a route.
    ///
    /// # Errors
    /// If it has none of the forms, or a scope that is too long.
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

/// Why the metadata of a route is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteSessionError {
    /// None of the forms.
    #[error(
        "expected <policy>/<scope>, with @split/, @specifier/ or @destination/ in front of it or without, or @destination"
    )]
    NoSession,
    /// The scope is longer than 1,024 bytes.
    #[error("expected a scope of at most 1024 bytes")]
    LongScope,
}

pub(crate) fn without_split(text: &[u8]) -> (&[u8], Option<Split>) {
    if text.first() != Some(&b'@') {
        return (text, None);
    }
    for (prefix, split) in [
        (SPLIT_PREFIX, Split::Routes),
        (SPECIFIER_PREFIX, Split::Specifier),
        (DESTINATION_PREFIX, Split::Destinations),
    ] {
        if let Some(name) = text.strip_prefix(prefix.as_bytes()) {
            return (name, Some(split));
        }
    }
    (text, None)
}

/// The scope of a route's policy in a cluster, by its base.
#[must_use]
pub fn scope_of_cluster(scope: &[u8], cluster: &[u8]) -> Vec<u8> {
    [scope, b"/", cluster_base(cluster)].concat()
}

/// Whether a cluster's metadata says that it has no sessions.
pub(crate) fn is_none(cluster_session: &[u8]) -> bool {
    cluster_session == NO_SESSION.as_bytes()
}

/// Whether the answering destination issues tokens: on a split route, it may not.
pub(crate) fn issues_tokens(split: Option<Split>, response: &impl ResponseView) -> Result<bool, ViewError> {
    Ok(split.is_none() || !response.cluster_session()?.is_some_and(|session| is_none(&session)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule<'a>(policy: &'a str, scope: Option<&'a str>, split: Option<Split>) -> RouteSession<'a> {
        let scope = scope.map(str::as_bytes);
        RouteSession::Rule { policy, scope, split }
    }

    #[test]
    fn metadata_names_policy_and_scope() {
        for (text, session) in [
            ("web/cart", Ok(rule("web", Some("cart"), None))),
            ("web/http/shop/cart/0", Ok(rule("web", Some("http/shop/cart/0"), None))),
            ("web", Ok(rule("web", None, None))),
            ("web/", Ok(rule("web", None, None))),
            ("@split/web/cart", Ok(rule("web", Some("cart"), Some(Split::Routes)))),
            (
                "@specifier/web/cart",
                Ok(rule("web", Some("cart"), Some(Split::Specifier))),
            ),
            (
                "@destination/web/cart",
                Ok(rule("web", Some("cart"), Some(Split::Destinations))),
            ),
            ("@split/web", Ok(rule("web", None, Some(Split::Routes)))),
            ("@destination/web", Ok(rule("web", None, Some(Split::Destinations)))),
            ("@destination", Ok(RouteSession::Destination)),
            ("", Err(RouteSessionError::NoSession)),
            ("/cart", Err(RouteSessionError::NoSession)),
            ("@specifier", Err(RouteSessionError::NoSession)),
            ("@specifier/@split/web/cart", Err(RouteSessionError::NoSession)),
            ("@split", Err(RouteSessionError::NoSession)),
            ("@split/", Err(RouteSessionError::NoSession)),
            ("@split/@split/web/cart", Err(RouteSessionError::NoSession)),
            ("@destination/", Err(RouteSessionError::NoSession)),
            ("@destination/@split/web", Err(RouteSessionError::NoSession)),
            ("we b/cart", Err(RouteSessionError::NoSession)),
        ] {
            assert_eq!(RouteSession::parse(text.as_bytes()), session, "{text}");
        }
        let long = format!("web/{}", "s".repeat(MAX_SCOPE_LEN + 1));
        assert_eq!(RouteSession::parse(long.as_bytes()), Err(RouteSessionError::LongScope));
        assert_eq!(RouteSession::parse(b"w\xffb/cart"), Err(RouteSessionError::NoSession));
    }
}
