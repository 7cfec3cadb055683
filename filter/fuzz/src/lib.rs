//! The bodies of the fuzz targets: what must hold whatever the bytes are. A body that returns is content.
#![forbid(unsafe_code)]

mod application;
mod configuration;
mod cookie_header;
mod cookie_names;
mod keyring_document;
mod proxy;
mod route_session;
mod set_cookie;
mod token;
mod wrapped_keyring;

pub use application::{application, begins_sessions, has_prefix, prefixed_request};
pub use configuration::configuration;
pub use cookie_header::{cookie_header, has_ours};
pub use cookie_names::{cookie_names, is_of_another_scope};
pub use keyring_document::keyring_document;
pub use route_session::route_session;
pub use set_cookie::{set_cookie, sets_and_deletes};
pub use token::{realm, token};
pub use wrapped_keyring::{key_encryption_key, wrapped_keyring};

/// What is done with an input.
pub type Body = fn(&[u8]);

/// Every target: its name, which is also its corpus folder, and its body.
pub const TARGETS: [(&str, Body); 10] = [
    ("token", token),
    ("cookie_header", cookie_header),
    ("configuration", configuration),
    ("keyring_document", keyring_document),
    ("wrapped_keyring", wrapped_keyring),
    ("set_cookie", set_cookie),
    ("application", application),
    ("prefixed_request", prefixed_request),
    ("route_session", route_session),
    ("cookie_names", cookie_names),
];
