//! Answers.

use anyhow::Result;
use hyper::HeaderMap;
use hyper::body::Bytes;

use crate::{Seen, SetCookie};

/// A complete answer.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// All header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The trailers, if any.
    pub trailers: HeaderMap,
}

impl Answer {
    /// The backend's name, or `None` if Envoy answered without one.
    #[must_use]
    pub fn backend(&self) -> Option<&str> {
        self.header("x-backend")
    }

    /// The request as the backend saw it.
    ///
    /// # Errors
    /// If no backend answered.
    pub fn seen(&self) -> Result<Seen> {
        Seen::from_json(&self.body)
    }

    /// The first value of this field.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// All cookies that the answer sets.
    #[must_use]
    pub fn set_cookies(&self) -> Vec<SetCookie> {
        SetCookie::all(&self.headers).collect()
    }

    /// The cookie of this name that the answer sets.
    #[must_use]
    pub fn set_cookie(&self, name: &str) -> Option<SetCookie> {
        SetCookie::all(&self.headers).find(|cookie| cookie.name == name)
    }
}
