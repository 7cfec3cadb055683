//! Visitors: clients that keep their cookies.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anyhow::Result;

use crate::{Answer, Envoy, Request};

/// A client that keeps its cookies, as a browser does. (Path, Domain and Expires are left to the tests.)
#[derive(Debug, Clone)]
pub struct Visitor {
    address: SocketAddr,
    cookies: BTreeMap<String, String>,
}

impl Visitor {
    /// A visitor without cookies.
    #[must_use]
    pub fn new(envoy: &Envoy) -> Self {
        Self {
            address: envoy.address(),
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
    pub async fn send(&mut self, mut request: Request) -> Result<Answer> {
        if !self.cookies.is_empty() {
            let pairs: Vec<_> = self
                .cookies
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            request = request.cookie(pairs.join("; "));
        }
        let answer = request.send().await?;
        for cookie in answer.set_cookies() {
            self.cookies.insert(cookie.name, cookie.value);
        }
        Ok(answer)
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
