//! Route matches.

use envoy_types::pb::envoy::config::route::v3::header_matcher::HeaderMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::query_parameter_matcher::QueryParameterMatchSpecifier;
use envoy_types::pb::envoy::config::route::v3::route_match::{GrpcRouteMatchOptions, PathSpecifier};
use envoy_types::pb::envoy::config::route::v3::{HeaderMatcher, QueryParameterMatcher, RouteMatch};
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use envoy_types::pb::envoy::r#type::matcher::v3::{RegexMatcher, StringMatcher};

use limpet_core::envoy::{DESTINATION_HEADER, SESSION_HEADER};
use limpet_model::graph::{Match, PathMatch, ValueMatch};

pub(super) fn route_match(wanted: &Match) -> RouteMatch {
    let method = wanted.method.as_ref().map(|method| header(":method", exact(method)));
    let headers = wanted
        .headers
        .iter()
        .map(|(name, value)| header(name, string_match(value)));
    let query = wanted.query.iter().map(|(name, value)| QueryParameterMatcher {
        name: name.clone(),
        query_parameter_match_specifier: Some(QueryParameterMatchSpecifier::StringMatch(string_match(value))),
    });
    RouteMatch {
        path_specifier: Some(match &wanted.path {
            PathMatch::Exact(path) => PathSpecifier::Path(path.clone()),
            PathMatch::Prefix(path) if path.is_empty() => PathSpecifier::Prefix("/".to_owned()),
            PathMatch::Prefix(path) => PathSpecifier::PathSeparatedPrefix(path.clone()),
            PathMatch::Text(prefix) => PathSpecifier::Prefix(prefix.clone()),
            PathMatch::Regex(pattern) => PathSpecifier::SafeRegex(regex(pattern)),
        }),
        headers: method.into_iter().chain(headers).collect(),
        query_parameters: query.collect(),
        grpc: wanted.grpc.then(GrpcRouteMatchOptions::default),
        ..RouteMatch::default()
    }
}

/// Matches the header that leads a session to the cluster with this short hash.
pub(super) fn led_to(hash: &str) -> HeaderMatcher {
    header(DESTINATION_HEADER, exact(hash))
}

/// Matches the header with the route's session, which an earlier match has set.
pub(super) fn of_session(session: &str) -> HeaderMatcher {
    header(SESSION_HEADER, exact(session))
}

/// A regular expression, which Envoy matches with the whole value.
pub(super) fn regex(pattern: &str) -> RegexMatcher {
    RegexMatcher {
        regex: pattern.to_owned(),
        ..RegexMatcher::default()
    }
}

pub(super) fn header(name: &str, value: StringMatcher) -> HeaderMatcher {
    HeaderMatcher {
        name: name.to_owned(),
        header_match_specifier: Some(HeaderMatchSpecifier::StringMatch(value)),
        ..HeaderMatcher::default()
    }
}

pub(super) fn string_match(value: &ValueMatch) -> StringMatcher {
    match value {
        ValueMatch::Exact(value) => exact(value),
        ValueMatch::Regex(pattern) => StringMatcher {
            match_pattern: Some(MatchPattern::SafeRegex(regex(pattern))),
            ..StringMatcher::default()
        },
    }
}

pub(super) fn exact(value: &str) -> StringMatcher {
    StringMatcher {
        match_pattern: Some(MatchPattern::Exact(value.to_owned())),
        ..StringMatcher::default()
    }
}
