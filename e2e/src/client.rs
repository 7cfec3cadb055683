//! Clients: single requests with full control over their headers, connections for many requests, and visitors that keep
//! their cookies.

mod answer;
mod connection;
mod request;
#[cfg(feature = "tls")]
mod tls;
mod visitor;

pub use answer::Answer;
pub use connection::{Connection, Exchange, UnansweredRequest};
pub use request::{Informational, Request};
#[cfg(feature = "tls")]
pub use tls::Tls;
pub use visitor::Visitor;
