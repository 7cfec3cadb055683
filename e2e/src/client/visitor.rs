//! Visitors: clients that keep their cookies.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Result;

use crate::{Answer, Envoy, Request};

/// A client that keeps its cookies, and drops those that are ended, as a browser does. (Path, Domain and Expires are left to the tests.)
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

    /// A visitor without cookies, of the proxy at this address.
    #[must_use]
    pub fn of(address: SocketAddr) -> Self {
        Self {
            address,
            cookies: BTreeMap::new(),
        }
    }

    /// A GET request with the visitor's cookies.
    ///
    /// # Errors
    /// When there is no HTTP answer.
    pub async fn get(&mut self, path: &str) -> Result<Answer> {
        self.send(Request::get(self.address, path)).await
    }

    /// This request, with the visitor's cookies.
    ///
    /// # Errors
    /// When there is no HTTP answer.
    pub async fn send(&mut self, request: Request) -> Result<Answer> {
        let answer = self.bring(request).send().await?;
        self.take(&answer);
        Ok(answer)
    }

    /// This request, with the cookies that the visitor has by now.
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

    /// Takes note of the cookies that an answer sets or ends.
    pub fn take(&mut self, answer: &Answer) {
        for cookie in answer.set_cookies() {
            if cookie.attribute("Max-Age") == Some("0") {
                self.cookies.remove(&cookie.name);
            } else {
                self.cookies.insert(cookie.name, cookie.value);
            }
        }
    }

    /// The names of the cookies that the visitor holds.
    #[must_use]
    pub fn cookie_names(&self) -> Vec<&str> {
        self.cookies.keys().map(String::as_str).collect()
    }

    /// The value of a cookie that the visitor holds.
    #[must_use]
    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.get(name).map(String::as_str)
    }

    /// Gives the visitor a cookie.
    pub fn keep(&mut self, name: &str, value: &str) {
        self.cookies.insert(name.to_owned(), value.to_owned());
    }
}
