//! The cookie, header or query in which a token travels.

pub mod cookie;
mod cookie_date;
#[cfg(feature = "public-suffixes")]
pub mod cookie_domain;
pub mod cookie_field;
pub mod cookie_name;
pub mod header;
pub mod location;
pub mod prefix;
pub mod query;
pub mod set_cookie;
