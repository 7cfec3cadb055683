//! Header names with another purpose.
//!
//! Sources: IANA's registry of HTTP field names (<https://www.iana.org/assignments/http-fields>, as of 2026-06-17), and
//! fields of browsers without it; the Fetch Standard, which keeps scripts from setting `Sec-*` and `Proxy-*`; gRPC over
//! HTTP/2 and gRPC-Web; W3C Trace Context and Baggage, and the headers of Envoy's tracers; the documented headers of
//! Envoy's connection manager, router and rate limit filter.

use crate::envoy::INTERNAL_HEADER_PREFIX;

/// Names of one owner. `families` are prefixes.
struct ReservedNames {
    owner: &'static str,
    families: &'static [&'static str],
    names: &'static [&'static str],
}

/// Why a name is reserved, as the end of a sentence. `name` is in lower case.
pub(super) fn owner(name: &str) -> Option<String> {
    RESERVED.iter().find_map(|reserved| {
        let family = reserved.families.iter().find(|family| name.starts_with(**family));
        match family {
            Some(family) => Some(format!("{} has all names that begin with {family}", reserved.owner)),
            None => reserved
                .names
                .contains(&name)
                .then(|| format!("{} has this name", reserved.owner)),
        }
    })
}

const RESERVED: [ReservedNames; 5] = [
    ReservedNames {
        owner: "Limpet",
        families: &[INTERNAL_HEADER_PREFIX],
        names: &[],
    },
    ReservedNames {
        owner: "gRPC",
        families: &["grpc-"],
        names: &["x-grpc-web", "x-user-agent"],
    },
    ReservedNames {
        owner: "tracing",
        families: &["ot-baggage-", "ot-tracer-", "uberctx-", "x-b3-", "x-datadog-"],
        names: &[
            "b3",
            "baggage",
            "sw8",
            "sw8-correlation",
            "sw8-x",
            "traceparent",
            "traceresponse",
            "tracestate",
            "uber-trace-id",
            "x-amzn-trace-id",
            "x-client-trace-id",
            "x-cloud-trace-context",
            "x-ot-span-context",
        ],
    },
    ReservedNames {
        owner: "Envoy",
        families: &["x-envoy-", "x-forwarded-", "x-ratelimit-"],
        names: &["x-request-id"],
    },
    ReservedNames {
        owner: "HTTP",
        families: &["access-control-", "proxy-", "sec-"],
        names: &HTTP,
    },
];

#[rustfmt::skip]
const HTTP: [&str; 242] = [
    "a-im", "accept", "accept-additions", "accept-ch", "accept-ch-lifetime", "accept-charset", "accept-datetime",
    "accept-encoding", "accept-features", "accept-language", "accept-patch", "accept-post", "accept-query",
    "accept-ranges", "accept-signature", "access-control", "activate-storage-access", "age", "allow", "alpn", "alt-svc",
    "alt-used", "alternates", "amp-cache-transform", "apply-to-redirect-ref", "authentication-control",
    "authentication-info", "authorization", "available-dictionary", "c-ext", "c-man", "c-opt", "c-pep", "c-pep-info",
    "cache-control", "cache-group-invalidation", "cache-groups", "cache-status", "cal-managed-id", "caldav-timezones",
    "capsule-protocol", "cdn-cache-control", "cdn-loop", "cert-not-after", "cert-not-before", "clear-site-data",
    "client-cert", "client-cert-chain", "close", "cmcd-object", "cmcd-request", "cmcd-session", "cmcd-status",
    "cmsd-dynamic", "cmsd-static", "concealed-auth-export", "configuration-context", "connection", "content-base",
    "content-digest", "content-disposition", "content-dpr", "content-encoding", "content-id", "content-language",
    "content-length", "content-location", "content-md5", "content-range", "content-script-type",
    "content-security-policy", "content-security-policy-report-only", "content-style-type", "content-type",
    "content-version", "cookie", "cookie2", "cross-origin-embedder-policy", "cross-origin-embedder-policy-report-only",
    "cross-origin-opener-policy", "cross-origin-opener-policy-report-only", "cross-origin-resource-policy",
    "cta-common-access-token", "dasl", "date", "dav", "default-style", "delta-base", "deprecation", "depth",
    "derived-from", "destination", "detached-jws", "dictionary-id", "differential-id", "digest", "dnt", "dpop",
    "dpop-nonce", "dpr", "early-data", "ediint-features", "etag", "expect", "expect-ct", "expires", "ext",
    "feature-policy", "forwarded", "from", "getprofile", "hobareg", "host", "http2-settings", "if", "if-match",
    "if-modified-since", "if-none-match", "if-range", "if-schedule-tag-match", "if-unmodified-since", "im",
    "include-referred-token-binding-id", "incremental", "isolation", "keep-alive", "label", "last-event-id",
    "last-modified", "link", "link-template", "location", "lock-token", "man", "max-forwards", "memento-datetime",
    "meter", "method-check", "method-check-expires", "mime-version", "negotiate", "nel", "odata-entityid",
    "odata-isolation", "odata-maxversion", "odata-version", "opt", "optional-www-authenticate", "ordering-type",
    "origin", "origin-agent-cluster", "oscore", "oslc-core-version", "overwrite", "p3p", "pep", "pep-info",
    "permissions-policy", "pics-label", "ping-from", "ping-to", "position", "pragma", "prefer", "preference-applied",
    "priority", "profileobject", "protocol", "protocol-info", "protocol-query", "protocol-request", "public",
    "public-key-pins", "public-key-pins-report-only", "range", "redirect-ref", "referer", "referer-root",
    "referrer-policy", "refresh", "repeatability-client-id", "repeatability-first-sent", "repeatability-request-id",
    "repeatability-result", "replay-nonce", "report-to", "reporting-endpoints", "repr-digest", "retry-after", "safe",
    "save-data", "schedule-reply", "schedule-tag", "security-scheme", "server", "server-timing", "set-cookie",
    "set-cookie2", "set-txn", "setprofile", "signature", "signature-input", "slug", "soapaction", "status-uri",
    "strict-transport-security", "sunset", "surrogate-capability", "surrogate-control", "tcn", "te", "timeout",
    "timing-allow-origin", "topic", "trailer", "transfer-encoding", "ttl", "unencoded-digest", "upgrade",
    "upgrade-insecure-requests", "urgency", "uri", "use-as-dictionary", "user-agent", "variant-vary", "vary", "via",
    "viewport-width", "want-content-digest", "want-digest", "want-repr-digest", "want-unencoded-digest", "warning",
    "width", "www-authenticate", "x-content-security-policy", "x-content-type-options", "x-download-options",
    "x-frame-options", "x-ua-compatible", "x-webkit-csp", "x-xss-protection",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_name_is_listed_once_and_in_lower_case() {
        for ReservedNames { families, names, .. } in &RESERVED {
            assert!(families.is_sorted() && names.is_sorted());
            for name in families.iter().chain(*names) {
                assert_eq!(*name, name.to_ascii_lowercase());
            }
            for name in *names {
                let listed = RESERVED.iter().filter(|other| {
                    other.names.contains(name) || other.families.iter().any(|family| name.starts_with(family))
                });
                assert_eq!(listed.count(), 1, "{name}");
            }
        }
    }
}
