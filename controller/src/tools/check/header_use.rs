//! Which headers a connection manager uses, as far as its configuration shows it.
//!
//! It is shown only if the configuration has all that the chain does: what is discovered may change, and most filters
//! may read any header.

use serde_json::Value;

use crate::envoy_config::filter_locator::{FILTER_CONFIG, LocatedFilter};
use crate::envoy_config::node::{ConfigNode, camel_case};

pub(super) const EARLY_HEADER_MUTATION: &str =
    "envoy.extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation";
pub(super) const HEADER_MUTATION: &str = "envoy.extensions.filters.http.header_mutation.v3.HeaderMutation";
pub(super) const ROUTER: &str = "envoy.extensions.filters.http.router.v3.Router";
pub(super) const STATEFUL_SESSION: &str = "envoy.extensions.filters.http.stateful_session.v3.StatefulSession";
pub(super) const STATEFUL_SESSION_PER_ROUTE: &str =
    "envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute";

/// Messages that read and write no header but those that they name.
const TRANSPARENT: [&str; 17] = [
    "envoy.extensions.access_loggers.file.v3.FileAccessLog",
    "envoy.extensions.access_loggers.stream.v3.StderrAccessLog",
    "envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
    "envoy.extensions.filters.http.cors.v3.Cors",
    "envoy.extensions.filters.http.cors.v3.CorsPolicy",
    "envoy.extensions.filters.http.header_mutation.v3.HeaderMutationPerRoute",
    "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    "envoy.extensions.http.stateful_session.header.v3.HeaderBasedSessionState",
    "envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate",
    "google.protobuf.BytesValue",
    "google.protobuf.StringValue",
    EARLY_HEADER_MUTATION,
    FILTER_CONFIG,
    HEADER_MUTATION,
    ROUTER,
    STATEFUL_SESSION,
    STATEFUL_SESSION_PER_ROUTE,
];

/// Fields whose headers are not read.
const REMOVALS: [&str; 3] = ["remove", "request_headers_to_remove", "response_headers_to_remove"];

/// Why it is not known which headers a connection manager reads, if that is not known; `located`: Limpet's filter, if
/// its configuration is known.
pub(super) fn opaque(manager: &ConfigNode<'_>, located: Option<&LocatedFilter<'_>>) -> Option<String> {
    let Some(located) = located.filter(|located| !located.is_resource()) else {
        return Some("the filter's configuration is discovered, and may change without this file".to_owned());
    };
    let routes = manager.get("route_config");
    if routes.is_none_or(|routes| routes.get("vhds").is_some()) {
        return Some("routes are discovered, and may change without this file".to_owned());
    }
    let upgrades = manager.list("upgrade_configs");
    let of_upgrades = upgrades.iter().flat_map(|upgrade| upgrade.list("filters"));
    let mut filters = manager.list("http_filters").into_iter().chain(of_upgrades);
    if let Some(filter) = filters.find(|filter| filter.get("typed_config").is_none()) {
        return Some(format!("{} may read any header", filter.path));
    }
    let mut unknown = None;
    manager.visit(&mut |message| {
        let is_limpet = (message.file, &message.path) == (located.envoy.file, &located.envoy.path);
        if let Some(kind) = message.kind().filter(|kind| !is_limpet && !TRANSPARENT.contains(kind))
            && unknown.is_none()
        {
            unknown = Some(format!("{} ({kind}) may read any header", message.path));
        }
    });
    unknown
}

/// Whether anything but a removal names the header; `without`: the paths of parts that do not count.
pub(super) fn names(node: &ConfigNode<'_>, header: &str, without: &[String]) -> bool {
    let has_word = |text: &str| {
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '_');
        words.any(|word| word.eq_ignore_ascii_case(header))
    };
    match node.value {
        _ if without.contains(&node.path) => false,
        Value::String(text) => has_word(text),
        Value::Object(fields) => fields.keys().any(|field| {
            let is_removal = REMOVALS.iter().any(|name| field == name || *field == camel_case(name));
            !is_removal && (has_word(field) || node.entry(field).is_some_and(|child| names(&child, header, without)))
        }),
        _ => node.children().any(|child| names(&child, header, without)),
    }
}
