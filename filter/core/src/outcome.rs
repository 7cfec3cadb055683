//! What happened to a session during a request, in the words that metrics and access logs share.

use std::borrow::Cow;

use crate::keyring::KeyId;
use crate::token::Refusal;

/// What became of the token of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// The token was honoured.
    Steered,
    /// The request had no token, or the table has no entry of its client.
    NoToken,
    /// The token was good, and the session was unused for so long that it restarts on a backend that lacks sessions.
    Rebalanced,
    /// The token was not honoured.
    Refused(Refusal),
}

/// What a response did to the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResponseOutcome {
    /// The session stays as it is.
    Unchanged,
    /// A session started.
    Issued,
    /// The session moved: a backend other than the token's answered.
    Reissued,
    /// The session continues with a new token, because of its idle time or a retiring key.
    Renewed,
    /// No token can name the backend: it has no IP address, or one with an IPv6 zone.
    Unaddressable,
    /// The application ended the session.
    Ended,
    /// The application moved the session to another backend, which the token names.
    Moved,
    /// With a token, browsers would drop the application's cookie.
    TooLarge,
}

impl RequestOutcome {
    /// The number of outcomes.
    pub(crate) const COUNT: usize = 3 + Refusal::ALL.len();

    /// Every outcome.
    pub fn all() -> impl Iterator<Item = Self> {
        let refused = Refusal::ALL.into_iter().map(Self::Refused);
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

    /// The word in the name of the counter, `limpet.<policy>.<word>`, and at the start of the access log's value.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Steered => "steered",
            Self::NoToken => "no_token",
            Self::Rebalanced => "rebalanced",
            Self::Refused(Refusal::Malformed) => "refused.malformed",
            Self::Refused(Refusal::UnknownKey) => "refused.unknown_key",
            Self::Refused(Refusal::RevokedKey) => "refused.revoked_key",
            Self::Refused(Refusal::BadSignature) => "refused.bad_signature",
            Self::Refused(Refusal::Expired) => "refused.expired",
            Self::Refused(Refusal::Idle) => "refused.idle",
            Self::Refused(Refusal::FromTheFuture) => "refused.from_the_future",
            Self::Refused(Refusal::Fenced) => "refused.fenced",
            Self::Refused(Refusal::UnknownDestination) => "refused.unknown_destination",
        }
    }
}

impl ResponseOutcome {
    /// The outcomes that have a counter.
    pub const COUNTED: [Self; 7] = [
        Self::Issued,
        Self::Reissued,
        Self::Renewed,
        Self::Unaddressable,
        Self::Ended,
        Self::Moved,
        Self::TooLarge,
    ];

    /// The index in [`ResponseOutcome::COUNTED`]; `None` if the outcome has no counter.
    #[must_use]
    pub fn index(self) -> Option<usize> {
        (self as usize).checked_sub(1)
    }

    /// Whether the response carries a token.
    #[must_use]
    pub(crate) fn has_token(self) -> bool {
        matches!(self, Self::Issued | Self::Reissued | Self::Renewed | Self::Moved)
    }

    /// The word in the name of the counter, `limpet.<policy>.<word>`, and behind the `+` in the access log's value.
    #[must_use]
    pub fn word(self) -> Option<&'static str> {
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

/// The value for access logs, such as `steered` or `no_token+issued`.
#[must_use]
pub fn access_log_value(request: RequestOutcome, response: ResponseOutcome) -> Cow<'static, str> {
    match response.word() {
        None => request.word().into(),
        Some(word) => format!("{}+{word}", request.word()).into(),
    }
}

/// The name of a counter of a policy.
#[must_use]
pub fn counter_name(policy: &str, word: &str) -> String {
    format!("limpet.{policy}.{word}")
}

/// What is counted of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyOutcome {
    /// A session that had no token of the key got one.
    Given,
    /// A session got a token of another key in place of its own.
    Replaced,
    /// A client came with a token of the key, which is revoked, and got one of another session.
    Ended,
}

impl KeyOutcome {
    /// Every outcome.
    pub const ALL: [Self; 3] = [Self::Given, Self::Replaced, Self::Ended];

    /// The word in the name of the counter, `limpet.keys.<id>.<word>`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Given => "given",
            Self::Replaced => "replaced",
            Self::Ended => "ended",
        }
    }
}

/// The name of a counter of a key.
#[must_use]
pub fn key_counter_name(key: KeyId, outcome: KeyOutcome) -> String {
    format!("limpet.keys.{key}.{}", outcome.word())
}

/// The word of the counter of responses in which the application set a cookie or header of the session's name.
pub const NAME_CONFLICTS: &str = "name_conflicts";

/// The word of the counter of moves that did not come about.
pub const REFUSED_MOVES: &str = "refused_moves";

/// The word of the counter of sessions that had to go from a full table of addresses.
pub const EVICTED: &str = "evicted";

/// Counts requests that continued without a session because the proxy did not answer.
pub const HOST_ERRORS: &str = "limpet.host_errors";

/// Counts requests whose metadata names no policy of the configuration.
pub const UNKNOWN_SESSIONS: &str = "limpet.unknown_sessions";

/// Counts requests that continued without a session because the secret with the keyring had not arrived or held none.
pub const NO_KEYS: &str = "limpet.no_keys";

/// Counts secrets that hold no keyring. The previous keyring stays in use.
pub const REFUSED_SECRETS: &str = "limpet.refused_secrets";

/// Counts requests whose route has a configuration under the filter's name that another dynamic module made.
pub const UNKNOWN_ROUTE_CONFIGS: &str = "limpet.unknown_route_configs";

/// The filter state for access logs, as `%FILTER_STATE(limpet.session:PLAIN)%`. Envoy prefixes the keys of wasm filters
/// with `wasm.`.
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
