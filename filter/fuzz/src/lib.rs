//! The bodies of the fuzz targets. Each checks what must hold for any input, and panics if it does not.
#![forbid(unsafe_code)]

mod application;
mod begins_and_ends;
mod choices;
mod clients;
mod configuration;
mod cookie_header;
mod cookie_names;
mod endpoint_slices;
mod http_route;
mod ingress_route;
mod keyring_document;
mod moves;
mod proxy;
mod query;
mod random;
mod route_session;
mod set_cookie;
mod token;
mod wrapped_keyring;

pub use application::{application, has_prefix, prefixed_request, starts_sessions};
pub use clients::{clients, has_clients};
pub use configuration::configuration;
pub use cookie_header::{cookie_header, has_ours};
pub use cookie_names::{cookie_names, is_of_another_scope};
pub use endpoint_slices::{endpoint_slices, slices};
pub use http_route::{graph, http_route};
pub use ingress_route::{ingress_route, ingress_routes};
pub use keyring_document::keyring_document;
pub use moves::{moves, names_a_backend};
pub use query::{has_parameter, leads_back, query};
pub use random::Random;
pub use route_session::route_session;
pub use set_cookie::{set_cookie, sets_and_deletes};
pub use token::{realm, token};
pub use wrapped_keyring::{key_encryption_key, wrapped_keyring};

/// Checks one input.
pub type Body = fn(&[u8]);

/// Every target: its name, which is also its corpus's folder, and its body.
pub const TARGETS: [(&str, Body); 16] = [
    ("token", token),
    ("cookie_header", cookie_header),
    ("query", query),
    ("configuration", configuration),
    ("keyring_document", keyring_document),
    ("wrapped_keyring", wrapped_keyring),
    ("set_cookie", set_cookie),
    ("application", application),
    ("prefixed_request", prefixed_request),
    ("route_session", route_session),
    ("cookie_names", cookie_names),
    ("endpoint_slices", endpoint_slices),
    ("http_route", http_route),
    ("ingress_route", ingress_route),
    ("clients", clients),
    ("moves", moves),
];
