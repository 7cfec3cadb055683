//! The two ways of a session to its client and back.

use hyper::HeaderMap;
use serde_json::{Value, json};

use crate::{Answer, Request, SetCookie};

/// How a session travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// In the cookie `session`.
    Cookie,
    /// In the header `x-session`.
    Header,
}

impl Carrier {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Cookie, Self::Header];

    /// A policy with this carrier.
    #[must_use]
    pub fn policy(self) -> Value {
        match self {
            Self::Cookie => json!({"cookie": {"name": "session"}}),
            Self::Header => json!({"header": {"name": "x-session"}}),
        }
    }

    /// The token that comes with an answer.
    #[must_use]
    pub fn token(self, answer: &Answer) -> Option<String> {
        self.token_in(&answer.headers)
    }

    /// The token that comes with the headers of an answer.
    #[must_use]
    pub fn token_in(self, headers: &HeaderMap) -> Option<String> {
        match self {
            Self::Cookie => SetCookie::all(headers)
                .find(|cookie| cookie.name == "session")
                .map(|cookie| cookie.value),
            Self::Header => Some(headers.get("x-session")?.to_str().ok()?.to_owned()),
        }
    }

    /// The field of a request that brings a token: its name and value.
    #[must_use]
    pub fn field(self, token: &str) -> (&'static str, String) {
        match self {
            Self::Cookie => ("cookie", format!("session={token}")),
            Self::Header => ("x-session", token.to_owned()),
        }
    }

    /// A request with a token.
    #[must_use]
    pub fn bring(self, token: &str, request: Request) -> Request {
        let (name, value) = self.field(token);
        request.header(name, value)
    }
}
