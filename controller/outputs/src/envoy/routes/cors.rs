//! What Envoy's CORS filter needs of a route.

use envoy_types::pb::envoy::extensions::filters::http::cors::v3::CorsPolicy;
use envoy_types::pb::envoy::r#type::matcher::v3::StringMatcher;
use envoy_types::pb::google::protobuf::Any;

use super::matching;
use crate::envoy::chain::CORS;
use crate::envoy::pack::{no, pack, yes};
use limpet_model::graph::Cors;

pub(super) fn per_route(cors: &Cors) -> (String, Any) {
    let origins = cors.allow_origins.iter().map(matching::string_match);
    let policy = CorsPolicy {
        allow_origin_string_match: origins.collect::<Vec<StringMatcher>>(),
        allow_methods: cors.allow_methods.join(", "),
        allow_headers: cors.allow_headers.join(", "),
        expose_headers: cors.expose_headers.join(", "),
        max_age: cors.max_age.to_string(),
        allow_credentials: if cors.allow_credentials { yes() } else { no() },
        // Envoy answers them, without allowing the origin.
        forward_not_matching_preflights: no(),
        ..CorsPolicy::default()
    };
    (CORS.to_owned(), pack(policy))
}
