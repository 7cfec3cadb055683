//! Names that the filter and Envoy's configuration share. Adapters and the controller take them from here.
//!
//! The names of metrics and the filter state are in [`crate::outcome`].

/// The name of the filter in every example, and of the resource that an Envoy discovers it as.
pub const FILTER_NAME: &str = "limpet";
/// The name under which Envoy discovers the wasm filter from the controller. Envoy ties a discovered name to the types
/// that its first subscriber expects, so the builds cannot share one while an Envoy changes from one to the other.
pub const DISCOVERED_WASM: &str = "limpet.wasm";
/// As [`DISCOVERED_WASM`], for the dynamic module.
pub const DISCOVERED_MODULE: &str = "limpet.module";

/// A cluster that never exists: Envoy answers requests for it with 500, and they have no session.
pub const UNAVAILABLE_CLUSTER: &str = "limpet.nowhere";

/// The namespace of the filter's metadata, as in `filter_metadata: {limpet: {session: web/cart}}` of a route or
/// cluster.
pub const METADATA_NAMESPACE: &str = FILTER_NAME;

/// The key within [`METADATA_NAMESPACE`]. [`crate::RouteSession`] says what its value may be.
pub const METADATA_KEY: &str = "session";

/// What the metadata of a split route has in front of `<policy>/<scope>`. No policy name begins with `@`.
pub const SPLIT_PREFIX: &str = "@split/";

/// The same where a cluster specifier chooses the cluster ([`crate::Specifier`]), and not a route for each cluster.
pub const SPECIFIER_PREFIX: &str = "@specifier/";

/// The key within [`METADATA_NAMESPACE`] of a request's dynamic metadata that tells the cluster specifier of its route
/// where its session belongs: the [`Display`](std::fmt::Display) of [`Destination`](crate::token::Destination). Clients
/// cannot set dynamic metadata.
pub const DESTINATION_KEY: &str = "destination";

/// The metadata of a route whose sessions belong to its clusters.
pub const DESTINATION_SESSION: &str = "@destination";

/// The same, in front of `<policy>/<scope>`: each of its clusters has sessions of this policy.
pub const DESTINATION_PREFIX: &str = "@destination/";

/// The metadata of a cluster where no sessions begin, though they do on the route that leads to it: a destination of a
/// split that issues no tokens.
pub const NO_SESSION: &str = "@none";

/// What the names of all headers between the filter and Envoy begin with. Clients and backends must not see them.
pub const INTERNAL_HEADER_PREFIX: &str = "x-limpet-";

/// Tells the wasm filter the route's session. The `header_mutation` filter in front writes [`ROUTE_SESSION_FORMAT`]
/// into it.
pub const SESSION_HEADER: &str = "x-limpet-session";

/// The route's metadata as an Envoy substitution format, the value of [`SESSION_HEADER`].
pub const ROUTE_SESSION_FORMAT: &str = "%METADATA(ROUTE:limpet:session)%";

/// Where the wasm filter steers a request: the host, as `HeaderBasedSessionState` of Envoy's `stateful_session` filter
/// reads and writes it.
pub const HOST_HEADER: &str = "x-limpet-host";

/// The same for the `stateful_session` filter with `strict: true`.
pub const STRICT_HOST_HEADER: &str = "x-limpet-host-strict";

/// What the routes of a split's destinations match on. Its value is the [`Display`](std::fmt::Display) of
/// [`Destination`](crate::token::Destination).
pub const DESTINATION_HEADER: &str = "x-limpet-destination";

/// Every header between the filter and Envoy.
pub const INTERNAL_HEADERS: [&str; 4] = [HOST_HEADER, STRICT_HOST_HEADER, DESTINATION_HEADER, SESSION_HEADER];

/// Overrides the number of retries of Envoy's router. A strict request says `0`: a retry ignores the override host.
pub const MAX_RETRIES_HEADER: &str = "x-envoy-max-retries";

/// The filter state that a route hashes in the place of the client's address, where a policy takes several addresses
/// for one client. It holds an address, `ip:0`. Of all objects that every supported Envoy makes for a filter and can
/// hash, this is the one that nothing else reads from a request: a listener behind an internal listener would.
pub const HASH_STATE: &str = "envoy.filters.listener.original_dst.remote_ip";

/// How a cluster balances load by a hash (`lb_policy`).
pub const HASHING_POLICIES: [&str; 2] = ["MAGLEV", "RING_HASH"];

/// Says that two requests are one: it stays when Envoy begins a request again.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// Envoy sets it when it begins a request again, after an internal redirect.
pub const ORIGINAL_URL_HEADER: &str = "x-envoy-original-url";

/// The response code details of a response that a backend sent; every other value is a reply of Envoy's own.
/// `ViaUpstream` in Envoy's `envoy/stream_info/stream_info.h`.
pub const VIA_UPSTREAM: &str = "via_upstream";

/// What the response code details begin with if the router found no host to send the request to. Envoy may append flags
/// in braces. `NoHealthyUpstream` in Envoy's `envoy/stream_info/stream_info.h`.
pub const NO_HEALTHY_UPSTREAM: &str = "no_healthy_upstream";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::is_policy_name;

    #[test]
    fn every_internal_header_has_the_reserved_prefix() {
        for header in INTERNAL_HEADERS {
            assert!(header.starts_with(INTERNAL_HEADER_PREFIX), "{header}");
        }
    }

    #[test]
    fn the_session_header_is_written_from_the_metadata() {
        let format = format!("%METADATA(ROUTE:{METADATA_NAMESPACE}:{METADATA_KEY})%");
        assert_eq!(ROUTE_SESSION_FORMAT, format);
    }

    #[test]
    fn no_policy_is_called_like_a_keyword_of_the_metadata() {
        let [split, specifier] = [SPLIT_PREFIX, SPECIFIER_PREFIX].map(|prefix| prefix.trim_end_matches('/'));
        for keyword in [split, specifier, DESTINATION_SESSION, NO_SESSION] {
            assert!(!is_policy_name(keyword), "{keyword}");
        }
    }
}
