//! Redirects and rewrites.

use envoy_types::pb::envoy::config::route::v3::redirect_action::{
    PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier,
};
use envoy_types::pb::envoy::config::route::v3::{RedirectAction, RouteAction};
use envoy_types::pb::envoy::r#type::matcher::v3::RegexMatchAndSubstitute;

use super::matching;
use limpet_model::graph::{PathChange, PathMatch, Redirect};

#[derive(Debug, PartialEq)]
enum PathMutation {
    None,
    /// Replaces the matched prefix.
    Prefix(String),
    /// Replaces what the expression matches, from the start of the path and without the query.
    Regex {
        pattern: String,
        becomes: String,
    },
}

impl PathMutation {
    fn of(change: &PathChange, matched: &PathMatch) -> Self {
        match (change, matched) {
            (PathChange::Full(path), _) => Self::full(path),
            (PathChange::Prefix(becomes), PathMatch::Prefix(prefix)) => Self::prefix(prefix, becomes),
            (PathChange::Prefix(becomes), PathMatch::Exact(_)) => {
                Self::full(Some(becomes.as_str()).filter(|path| !path.is_empty()).unwrap_or("/"))
            }
            (PathChange::Text(becomes), PathMatch::Prefix(_) | PathMatch::Text(_)) => Self::Prefix(becomes.clone()),
            // Only a prefix match has a prefix to replace, and the graph has no other such route.
            _ => Self::None,
        }
    }

    fn full(path: &str) -> Self {
        Self::Regex {
            pattern: "^.*$".to_owned(),
            becomes: escape_substitution(path),
        }
    }

    /// As the table of `HTTPPathModifier.replacePrefixMatch`: no slash is lost or doubled at the end of the prefix.
    fn prefix(prefix: &str, becomes: &str) -> Self {
        let becomes = becomes.trim_end_matches('/');
        match (prefix.is_empty(), becomes.is_empty()) {
            (true, true) => Self::None,
            // The match of the root is its slash.
            (true, false) => Self::Prefix(format!("{becomes}/")),
            (false, false) => Self::Prefix(becomes.to_owned()),
            // Envoy ignores an empty prefix.
            (false, true) => Self::Regex {
                pattern: format!("^{}/*", regex::escape(prefix)),
                becomes: "/".to_owned(),
            },
        }
    }
}

/// Backslashes start a reference to a group in a substitution.
fn escape_substitution(text: &str) -> String {
    text.replace('\\', r"\\")
}

fn substitution(pattern: &str, becomes: String) -> RegexMatchAndSubstitute {
    RegexMatchAndSubstitute {
        pattern: Some(matching::regex(pattern)),
        substitution: becomes,
    }
}

pub(super) fn rewrite(change: &PathChange, matched: &PathMatch, action: &mut RouteAction) {
    match PathMutation::of(change, matched) {
        PathMutation::None => {}
        PathMutation::Prefix(becomes) => action.prefix_rewrite = becomes,
        PathMutation::Regex { pattern, becomes } => action.regex_rewrite = Some(substitution(&pattern, becomes)),
    }
}

/// `matched`: the route's match; `port`: its listener's.
pub(super) fn redirect(redirect: &Redirect, matched: &PathMatch, port: u16, tls: bool) -> RedirectAction {
    let path = redirect
        .path
        .as_ref()
        .map(|change| (change, PathMutation::of(change, matched)));
    let path = match path {
        None | Some((_, PathMutation::None)) => None,
        Some((PathChange::Full(path), _)) => Some(PathRewriteSpecifier::PathRedirect(path.clone())),
        Some((_, PathMutation::Prefix(becomes))) => Some(PathRewriteSpecifier::PrefixRewrite(becomes)),
        Some((_, PathMutation::Regex { pattern, becomes })) => {
            Some(PathRewriteSpecifier::RegexRewrite(substitution(&pattern, becomes)))
        }
    };
    RedirectAction {
        scheme_rewrite_specifier: redirect.scheme.clone().map(SchemeRewriteSpecifier::SchemeRedirect),
        host_redirect: redirect.hostname.clone().unwrap_or_default(),
        port_redirect: redirect_port(redirect, port, tls).into(),
        path_rewrite_specifier: path,
        response_code: code(redirect.status).into(),
        ..RedirectAction::default()
    }
}

/// The port in the Location header; 0 if it has none, or the request's.
///
/// `HTTPRequestRedirectFilter.port`: if unset, the well-known port of the scheme, or without a scheme the listener's. A
/// well-known port is not written.
fn redirect_port(redirect: &Redirect, port: u16, tls: bool) -> u16 {
    let scheme = redirect.scheme.as_deref().unwrap_or(if tls { "https" } else { "http" });
    let well_known = if scheme == "https" { 443 } else { 80 };
    let wanted = match (redirect.port, &redirect.scheme) {
        (Some(port), _) => port,
        (None, Some(_)) => well_known,
        (None, None) => port,
    };
    // Envoy keeps the port of the request when it keeps the host. A request to a well-known port has none.
    let request_has_none = matches!(port, 80 | 443);
    if wanted == well_known && (redirect.hostname.is_some() || request_has_none) {
        0
    } else {
        wanted
    }
}

fn code(status: u16) -> RedirectResponseCode {
    match status {
        301 => RedirectResponseCode::MovedPermanently,
        303 => RedirectResponseCode::SeeOther,
        307 => RedirectResponseCode::TemporaryRedirect,
        308 => RedirectResponseCode::PermanentRedirect,
        _ => RedirectResponseCode::Found,
    }
}
