//! Services that backends have besides plain HTTP, and their clients.

mod chat;
mod echo;
mod session;

pub use chat::{Chat, Socket};
pub use echo::{Echo, EchoClient, Note};
pub use session::Session;
