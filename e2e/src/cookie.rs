//! Set-Cookie as a browser reads it.

use std::collections::BTreeSet;

use hyper::HeaderMap;

/// A Set-Cookie field, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetCookie {
    /// The cookie's name.
    pub name: String,
    /// The cookie's value.
    pub value: String,
    /// The attributes as written, such as `Path=/` and `HttpOnly`; their order is lost.
    pub attributes: BTreeSet<String>,
}

impl SetCookie {
    /// All cookies that the headers of an answer set.
    pub fn all(headers: &HeaderMap) -> impl Iterator<Item = Self> {
        let fields = headers.get_all("set-cookie").into_iter();
        fields.filter_map(|value| value.to_str().ok()).map(Self::parse)
    }

    /// Parses a field's value.
    #[must_use]
    pub fn parse(field: &str) -> Self {
        let mut parts = field.split(';').map(str::trim);
        let (name, value) = parts.next().and_then(|pair| pair.split_once('=')).unwrap_or_default();
        Self {
            name: name.trim().to_owned(),
            value: value.trim().to_owned(),
            attributes: parts.map(str::to_owned).collect(),
        }
    }

    /// The value of an attribute; empty for a flag such as `HttpOnly`.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find_map(|attribute| {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The pair `name=value` that a client sends back.
    #[must_use]
    pub fn pair(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}
