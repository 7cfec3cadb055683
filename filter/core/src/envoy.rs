//! Names in Envoy's configuration that all parts of Limpet agree on.

/// The name of the filter in every example, and of the resource that an Envoy discovers it as.
pub const FILTER_NAME: &str = "limpet";

/// A cluster that never exists: Envoy answers requests for it with 500, and they have no session.
pub const UNAVAILABLE_CLUSTER: &str = "limpet.nowhere";

/// The header by which the chain leads a request to a host, and falls back to load balancing.
pub const HOST_HEADER: &str = "x-limpet-host";

/// The header by which the chain leads a request to a host and to no other.
pub const STRICT_HOST_HEADER: &str = "x-limpet-host-strict";

/// The header that tells the filter the session of the route.
pub const SESSION_HEADER: &str = "x-limpet-session";

/// What the chain writes into [`SESSION_HEADER`]: Envoy's format for the route's metadata.
pub const ROUTE_SESSION_FORMAT: &str = "%METADATA(ROUTE:limpet:session)%";

pub use crate::view::DESTINATION_HEADER;

/// The headers by which the filter and Envoy talk to each other. No client may send them, and none may leave Envoy.
pub const INTERNAL_HEADERS: [&str; 4] = [HOST_HEADER, STRICT_HOST_HEADER, DESTINATION_HEADER, SESSION_HEADER];
