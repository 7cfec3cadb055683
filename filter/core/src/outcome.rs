//! What happened to a session, in the words of metrics and access logs.

use std::borrow::Cow;

use crate::keyring::KeyId;
use crate::token::TokenRefusal;

/// The fate of a request's token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// The token was honoured.
    Steered,
    /// There was no token, or no entry for the client.
    NoToken,
    /// The token was good, but the session was unused for long and restarts on a backend that lacks sessions.
    Rebalanced,
    /// The token was not honoured.
    Refused(TokenRefusal),
}

/// What a response did to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResponseOutcome {
    /// The session stays as it is.
    Unchanged,
    /// A session started.
    Issued,
    /// The session moved: another backend than the token's answered.
    Reissued,
    /// The session gets a new token, because of its idle time or a retiring key.
    Renewed,
    /// No token can name the backend: it has no IP address, or an IPv6 zone.
    Unaddressable,
    /// The application ended the session.
    Ended,
    /// The application moved the session to another backend.
    Moved,
    /// With a token, browsers would drop the application's cookie.
    TooLarge,
}

impl RequestOutcome {
    pub(crate) const COUNT: usize = 3 + TokenRefusal::ALL.len();

    /// Every outcome.
    pub fn all() -> impl Iterator<Item = Self> {
        let refused = TokenRefusal::ALL.into_iter().map(Self::Refused);
        [Self::Steered, Self::NoToken, Self::Rebalanced]
            .into_iter()
            .chain(refused)
    }

    /// The index in [`RequestOutcome::all`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Steered => 0,
            Self::NoToken => 1,
            Self::Rebalanced => 2,
            Self::Refused(refusal) => 3 + refusal as usize,
        }
    }

    /// The word in `limpet.<policy>.<word>` and at the start of the access log's value.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Steered => "steered",
            Self::NoToken => "no_token",
            Self::Rebalanced => "rebalanced",
            Self::Refused(TokenRefusal::Malformed) => "refused.malformed",
            Self::Refused(TokenRefusal::UnknownKey) => "refused.unknown_key",
            Self::Refused(TokenRefusal::RevokedKey) => "refused.revoked_key",
            Self::Refused(TokenRefusal::BadSignature) => "refused.bad_signature",
            Self::Refused(TokenRefusal::Expired) => "refused.expired",
            Self::Refused(TokenRefusal::Idle) => "refused.idle",
            Self::Refused(TokenRefusal::FromTheFuture) => "refused.from_the_future",
            Self::Refused(TokenRefusal::Fenced) => "refused.fenced",
            Self::Refused(TokenRefusal::UnknownDestination) => "refused.unknown_destination",
        }
    }
}

impl ResponseOutcome {
    /// The outcomes with a counter.
    pub const COUNTED: [Self; 7] = [
        Self::Issued,
        Self::Reissued,
        Self::Renewed,
        Self::Unaddressable,
        Self::Ended,
        Self::Moved,
        Self::TooLarge,
    ];

    /// The index in [`ResponseOutcome::COUNTED`], if it has a counter.
    #[must_use]
    pub fn index(self) -> Option<usize> {
        (self as usize).checked_sub(1)
    }

    #[must_use]
    pub(crate) fn has_token(self) -> bool {
        matches!(self, Self::Issued | Self::Reissued | Self::Renewed | Self::Moved)
    }

    /// The word in `limpet.<policy>.<word>` and behind the `+` in the access log's value.
    #[must_use]
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Unchanged => None,
            Self::Issued => Some("issued"),
            Self::Reissued => Some("reissued"),
            Self::Renewed => Some("renewed"),
            Self::Unaddressable => Some("unaddressable"),
            Self::Ended => Some("ended"),
            Self::Moved => Some("moved"),
            Self::TooLarge => Some("too_large"),
        }
    }
}

/// The access log's value, such as `steered` or `no_token+issued`.
#[must_use]
pub fn access_log_value(request: RequestOutcome, response: ResponseOutcome) -> Cow<'static, str> {
    match response.as_str() {
        None => request.as_str().into(),
        Some(word) => format!("{}+{word}", request.as_str()).into(),
    }
}

/// The name of a policy's counter.
#[must_use]
pub fn counter_name(policy: &str, word: &str) -> String {
    format!("limpet.{policy}.{word}")
}

/// What is counted of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOutcome {
    /// A session without a token of the key got one.
    Given,
    /// A session's token was replaced by another key's.
    Replaced,
    /// A client with a token of this revoked key got a token of a new session.
    Ended,
}

impl KeyOutcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Given, Self::Replaced, Self::Ended];

    /// The word in `limpet.keys.<id>.<word>`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Replaced => "replaced",
            Self::Ended => "ended",
        }
    }
}

/// The name of a key's counter.
#[must_use]
pub fn key_counter_name(key: KeyId, outcome: KeyOutcome) -> String {
    format!("limpet.keys.{key}.{}", outcome.as_str())
}

/// Counts responses with the application's own cookie or header of the session's name.
pub const NAME_CONFLICTS: &str = "name_conflicts";

/// Counts refused moves.
pub const REFUSED_MOVES: &str = "refused_moves";

/// Counts sessions removed from a full table of addresses.
pub const EVICTED: &str = "evicted";

/// Counts requests without a session because the proxy did not answer.
pub const HOST_ERRORS: &str = "limpet.host_errors";

/// Counts requests whose metadata names no policy of the configuration.
pub const UNKNOWN_SESSIONS: &str = "limpet.unknown_sessions";

/// Counts requests without a session because there is no keyring yet.
pub const NO_KEYS: &str = "limpet.no_keys";

/// Counts secrets that hold no keyring. The previous keyring stays in use.
pub const REFUSED_SECRETS: &str = "limpet.refused_secrets";

/// Counts requests whose route has another module's configuration under the filter's name.
pub const UNKNOWN_ROUTE_CONFIGS: &str = "limpet.unknown_route_configs";

/// The filter state `%FILTER_STATE(limpet.session:PLAIN)%`. Envoy prefixes keys of wasm filters with `wasm.`.
pub const FILTER_STATE: &str = "limpet.session";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_places() {
        for (place, outcome) in RequestOutcome::all().enumerate() {
            assert_eq!(outcome.index(), place, "{outcome:?}");
        }
        for (place, outcome) in ResponseOutcome::COUNTED.into_iter().enumerate() {
            assert_eq!(outcome.index(), Some(place), "{outcome:?}");
        }
        assert_eq!(ResponseOutcome::Unchanged.index(), None);
    }
}
