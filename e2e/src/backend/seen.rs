//! The request as a backend saw it.

use anyhow::{Context, Result};
use serde_json::Value;

/// A request as a backend saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `HTTP/1.1` or `HTTP/2.0`.
    pub version: String,
    /// The method.
    pub method: String,
    /// The path.
    pub path: String,
    /// The query, if any.
    pub query: Option<String>,
    /// Names and values (Latin-1); fields of the same name are in order.
    pub headers: Vec<(String, String)>,
    /// The body's length.
    pub body: u64,
}

impl Seen {
    /// All values of a header field.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The Cookie fields, joined as in RFC 6265.
    #[must_use]
    pub fn cookies(&self) -> Option<String> {
        let fields = self.all("cookie");
        (!fields.is_empty()).then(|| fields.join("; "))
    }

    /// The names of header fields that begin with `x-limpet`.
    #[must_use]
    pub fn internal_headers(&self) -> Vec<&str> {
        self.headers
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| name.starts_with("x-limpet"))
            .collect()
    }

    pub(crate) fn from_json(body: &[u8]) -> Result<Self> {
        Self::from_value(&serde_json::from_slice(body).context("not an answer of a backend")?)
    }

    pub(super) fn from_value(body: &Value) -> Result<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let headers = body["headers"]
            .as_array()
            .context("a backend's answer without headers")?;
        Ok(Self {
            version: text(&body["version"]),
            method: text(&body["method"]),
            path: text(&body["path"]),
            query: body["query"].as_str().map(str::to_owned),
            headers: headers.iter().map(|pair| (text(&pair[0]), text(&pair[1]))).collect(),
            body: body["body"].as_u64().unwrap_or_default(),
        })
    }
}
