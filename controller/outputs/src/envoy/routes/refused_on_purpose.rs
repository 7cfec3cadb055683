//! Routes that Envoy refuses, for tests: no object is known to produce one.
//!
//! A path that ends with one of these words asks for it. Only the routes of the object that has the path are spoiled,
//! so even a build that has this by mistake harms no others.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::route::v3::Route;
use envoy_types::pb::envoy::config::route::v3::route::Action;
use envoy_types::pb::envoy::config::route::v3::route_match::PathSpecifier;
use envoy_types::pb::envoy::r#type::matcher::v3::RegexMatcher;
use envoy_types::pb::google::protobuf::Any;

#[cfg(not(debug_assertions))]
compile_error!("the feature refused-on-purpose is for tests: build without it, or without optimisation");

/// Envoy refuses the action, but not with status 500.
const ACTION: &str = "/limpet-test-refused-action";
/// Envoy also refuses the match.
const MATCH: &str = "/limpet-test-refused-match";

pub(super) fn spoil(route: &mut Route) {
    let Some(matched) = &mut route.r#match else { return };
    let path = match &matched.path_specifier {
        Some(PathSpecifier::PathSeparatedPrefix(path) | PathSpecifier::Path(path)) => path.as_str(),
        _ => return,
    };
    if path.ends_with(MATCH) {
        matched.path_specifier = Some(PathSpecifier::SafeRegex(RegexMatcher {
            regex: "(".to_owned(),
            ..RegexMatcher::default()
        }));
    } else if path.ends_with(ACTION) && !matches!(route.action, Some(Action::DirectResponse(_))) {
        let unknown = Any {
            type_url: "type.googleapis.com/limpet.test.Unknown".to_owned(),
            ..Any::default()
        };
        route.typed_per_filter_config = HashMap::from([("limpet.test".to_owned(), unknown)]);
    }
}
