//! The bodies of the fuzz targets: what must hold whatever the bytes are. A body that returns is content.
#![forbid(unsafe_code)]

mod configuration;
mod cookie_header;
mod keyring_document;
mod token;
mod wrapped_keyring;

pub use configuration::configuration;
pub use cookie_header::{cookie_header, has_ours};
pub use keyring_document::keyring_document;
pub use token::{realm, token};
pub use wrapped_keyring::{key_encryption_key, wrapped_keyring};

/// What is done with an input.
pub type Body = fn(&[u8]);

/// Every target: its name, which is also its corpus folder, and its body.
pub const TARGETS: [(&str, Body); 5] = [
    ("token", token),
    ("cookie_header", cookie_header),
    ("configuration", configuration),
    ("keyring_document", keyring_document),
    ("wrapped_keyring", wrapped_keyring),
];
