//! The two ways that a token travels.

use hyper::HeaderMap;
use serde_json::{Value, json};

use crate::config::merge;
use crate::{Answer, Config, Request, SetCookie};

/// What carries the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// In the cookie `limpet-session`.
    Cookie,
    /// In the header `x-session`.
    Header,
}

impl Carrier {
    /// Both carriers.
    pub const ALL: [Self; 2] = [Self::Cookie, Self::Header];

    /// The name of its policy and scope in [`Config::both_carriers`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cookie => "cookie",
            Self::Header => "header",
        }
    }

    /// The path of its route in [`Config::both_carriers`].
    #[must_use]
    pub fn path(self) -> String {
        format!("/{}", self.name())
    }

    /// A policy with this carrier.
    #[must_use]
    pub fn policy(self) -> Value {
        match self {
            Self::Cookie => json!({"cookie": {"name": "limpet-session"}}),
            Self::Header => json!({"header": {"name": "x-session"}}),
        }
    }

    /// The token in an answer.
    #[must_use]
    pub fn token(self, answer: &Answer) -> Option<String> {
        self.token_in(&answer.headers)
    }

    /// The token in headers.
    #[must_use]
    pub fn token_in(self, headers: &HeaderMap) -> Option<String> {
        match self {
            Self::Cookie => SetCookie::all(headers)
                .find(|cookie| cookie.name == "limpet-session")
                .map(|cookie| cookie.value),
            Self::Header => Some(headers.get("x-session")?.to_str().ok()?.to_owned()),
        }
    }

    /// The name and value of the field with a token in a request.
    #[must_use]
    pub fn field(self, token: &str) -> (&'static str, String) {
        match self {
            Self::Cookie => ("cookie", format!("limpet-session={token}")),
            Self::Header => ("x-session", token.to_owned()),
        }
    }

    /// Adds a token to a request.
    #[must_use]
    pub fn bring(self, token: &str, request: Request) -> Request {
        let (name, value) = self.field(token);
        request.header(name, value)
    }
}

impl Config {
    /// Sessions in a cookie at `/cookie` and in a header at `/header` only, by policies `cookie` and `header` with the
    /// fields of `more`.
    #[must_use]
    pub fn both_carriers(mut self, more: &Value) -> Self {
        let own = self.first_route().clone();
        let mut routes = Carrier::ALL
            .map(|carrier| {
                let mut route = own.clone();
                route["name"] = carrier.name().into();
                route["match"] = json!({"path": carrier.path()});
                route
            })
            .to_vec();
        routes.push(own);
        self.routes(routes.into()).filter(&filter_with_both(more))
    }
}

/// The filter's configuration of [`Config::both_carriers`].
#[must_use]
pub fn filter_with_both(more: &Value) -> Value {
    let mut filter = json!({"keys": [{"id": 1, "env": "LIMPET_KEY"}]});
    for carrier in Carrier::ALL {
        let mut policy = carrier.policy();
        merge(&mut policy, more);
        filter["policies"][carrier.name()] = policy;
    }
    filter["routes"] = Carrier::ALL
        .map(|carrier| json!({"route": carrier.name(), "policy": carrier.name()}))
        .to_vec()
        .into();
    filter
}
