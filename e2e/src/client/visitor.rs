//! Visitors: clients that keep cookies.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Result;

use crate::{Answer, Envoy, Request};

/// A client that keeps and drops cookies as a browser does, but ignores Path, Domain and Expires.
#[derive(Debug, Clone)]
pub struct Visitor {
    address: SocketAddr,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    /// A visitor without cookies.
    #[must_use]
    pub fn new(envoy: &Envoy) -> Self {
        Self::of(envoy.address())
    }

    /// A visitor without cookies for this proxy.
    #[must_use]
    pub fn of(address: SocketAddr) -> Self {
        Self {
            address,
            cookies: BTreeMap::new(),
        }
    }

    /// Sends a GET request with the visitor's cookies.
    ///
    /// # Errors
    /// If there is no HTTP answer.
    pub async fn get(&mut self, path: &str) -> Result<Answer> {
        self.send(Request::get(self.address, path)).await
    }

    /// Sends this request with the visitor's cookies, and keeps the answer's.
    ///
    /// # Errors
    /// If there is no HTTP answer.
    pub async fn send(&mut self, request: Request) -> Result<Answer> {
        let answer = self.bring(request).send().await?;
        self.take(&answer);
        Ok(answer)
    }

    /// Adds the visitor's cookies to this request.
    #[must_use]
    pub fn bring(&self, request: Request) -> Request {
        if self.cookies.is_empty() {
            return request;
        }
        let pairs: Vec<_> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        request.cookie(pairs.join("; "))
    }

    /// Keeps the cookies that an answer sets, and drops those that it ends.
    pub fn take(&mut self, answer: &Answer) {
        for cookie in answer.set_cookies() {
            if cookie.attribute("Max-Age") == Some("0") {
                self.cookies.remove(&cookie.name);
            } else {
                self.cookies.insert(cookie.name, cookie.value);
            }
        }
    }

    /// The names of the visitor's cookies.
    #[must_use]
    pub fn cookie_names(&self) -> Vec<&str> {
        self.cookies.keys().map(String::as_str).collect()
    }

    /// The value of a cookie.
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.get(name).map(String::as_str)
    }

    /// Sets a cookie without an answer.
    pub fn keep(&mut self, name: &str, value: &str) {
        self.cookies.insert(name.to_owned(), value.to_owned());
    }
}
