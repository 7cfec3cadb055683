//! Names that the filter and Envoy's configuration share. [`crate::outcome`] has more.

/// The filter's name in examples, and of its discovered resource.
pub const FILTER_NAME: &str = "limpet";
/// The name under which Envoy discovers the wasm filter. Envoy ties a name to its first subscriber's types, so the
/// builds cannot share one.
pub const DISCOVERED_WASM: &str = "limpet.wasm";
/// The same for the dynamic module.
pub const DISCOVERED_MODULE: &str = "limpet.module";

/// A cluster that never exists: Envoy answers 500.
pub const UNAVAILABLE_CLUSTER: &str = "limpet.nowhere";

/// The filter's namespace in metadata: `filter_metadata: {limpet: {session: web/cart}}`.
pub const METADATA_NAMESPACE: &str = FILTER_NAME;

/// The key of a [`crate::RouteSession`].
pub const METADATA_KEY: &str = "session";

/// The prefix of `<policy>/<scope>` on a split route. No policy name begins with `@`.
pub const SPLIT_PREFIX: &str = "@split/";

/// The same where a [`crate::Specifier`] chooses the cluster.
pub const SPECIFIER_PREFIX: &str = "@specifier/";

/// The key in dynamic metadata, which clients cannot set, with the session's
/// [`DestinationId`](crate::token::DestinationId) for the cluster specifier.
pub const DESTINATION_KEY: &str = "destination";

/// The metadata of a route whose sessions belong to its clusters.
pub const DESTINATION_SESSION: &str = "@destination";

/// The same as the prefix of `<policy>/<scope>`: each cluster has sessions of this policy.
pub const DESTINATION_PREFIX: &str = "@destination/";

/// The metadata of a cluster where no sessions begin, though they do on the route: a split's destination without
/// tokens.
pub const NO_SESSION: &str = "@none";

/// The prefix of headers between the filter and Envoy, which clients and backends must not see.
pub const INTERNAL_HEADER_PREFIX: &str = "x-limpet-";

/// The route's session, which the `header_mutation` filter in front writes as [`ROUTE_SESSION_FORMAT`].
pub const SESSION_HEADER: &str = "x-limpet-session";

/// An Envoy substitution format for the route's metadata.
pub const ROUTE_SESSION_FORMAT: &str = "%METADATA(ROUTE:limpet:session)%";

/// The host to steer to, as in `HeaderBasedSessionState` of Envoy's `stateful_session` filter.
pub const HOST_HEADER: &str = "x-limpet-host";

/// The same for the `stateful_session` filter with `strict: true`.
pub const STRICT_HOST_HEADER: &str = "x-limpet-host-strict";

/// The [`DestinationId`](crate::token::DestinationId) that routes of a split match on.
pub const DESTINATION_HEADER: &str = "x-limpet-destination";

/// Every header between the filter and Envoy.
pub const INTERNAL_HEADERS: [&str; 4] = [HOST_HEADER, STRICT_HOST_HEADER, DESTINATION_HEADER, SESSION_HEADER];

/// The retries of Envoy's router: `0` for a strict request, because a retry ignores the override host.
pub const MAX_RETRIES_HEADER: &str = "x-envoy-max-retries";

/// The filter state, an address `ip:0`, that a route hashes for a policy with several addresses for one client. Of the
/// hashable objects that every supported Envoy makes for a filter, only this one has no other reader, except a listener
/// behind an internal listener.
pub const HASH_STATE: &str = "envoy.filters.listener.original_dst.remote_ip";

/// Values of `lb_policy` that balance load by a hash.
pub const HASHING_POLICIES: [&str; 2] = ["MAGLEV", "RING_HASH"];

/// Identifies a request, also through an internal redirect.
pub const REQUEST_ID_HEADER: &str = "x-request-id";

/// Set by Envoy in an internal redirect.
pub const ORIGINAL_URL_HEADER: &str = "x-envoy-original-url";

/// The response code details of a backend's response, not Envoy's own (`ViaUpstream` in Envoy's
/// `envoy/stream_info/stream_info.h`).
pub const VIA_UPSTREAM: &str = "via_upstream";

/// The start of the response code details without a host. Envoy may append flags in braces (`NoHealthyUpstream` in
/// Envoy's `envoy/stream_info/stream_info.h`).
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
