//! Set-Cookie as a browser reads it.

use std::collections::BTreeSet;

use hyper::HeaderMap;

/// A Set-Cookie field, parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetCookie {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
    /// The attributes as written, such as `Path=/` and `HttpOnly`, without their order.
    pub attributes: BTreeSet<String>,
}

impl SetCookie {
    /// All cookies set in headers.
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

    /// An attribute's value; empty for a flag such as `HttpOnly`.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find_map(|attribute| {
            let (key, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// The pair `name=value` of a request.
    #[must_use]
    pub fn pair(&self) -> String {
        format!("{}={}", self.name, self.value)
    }
}
