//! Clients: single requests, connections for many, and visitors that keep cookies.

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
