//! What happened to a session in a request: the words that metrics and access logs have in common.

use std::borrow::Cow;

use crate::token::Refusal;

/// What became of the token that a request brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestOutcome {
    /// It was honoured.
    Steered,
    /// There was none.
    NoToken,
    /// It was not honoured.
    Refused(Refusal),
}

/// What a response did for the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ResponseOutcome {
    /// Nothing.
    Unchanged,
    /// A session began.
    Issued,
    /// A session moved: another backend answered than the token names.
    Reissued,
    /// The session goes on with a fresh token, because of its idle time or a retiring key.
    Renewed,
    /// The backend has no IP address, or one with an IPv6 zone, so no token can name it.
    Unaddressable,
}

impl RequestOutcome {
    /// Every outcome.
    pub fn all() -> impl Iterator<Item = Self> {
        let refused = Refusal::ALL.into_iter().map(Self::Refused);
        [Self::Steered, Self::NoToken].into_iter().chain(refused)
    }

    /// Its place in [`RequestOutcome::all`].
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Steered => 0,
            Self::NoToken => 1,
            Self::Refused(refusal) => 2 + refusal as usize,
        }
    }

    /// Its word: a counter `limpet.<policy>.<word>`, and the beginning of the access log's value.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Steered => "steered",
            Self::NoToken => "no_token",
            Self::Refused(Refusal::Malformed) => "refused.malformed",
            Self::Refused(Refusal::UnknownKey) => "refused.unknown_key",
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
    /// Every outcome that is counted.
    pub const COUNTED: [Self; 4] = [Self::Issued, Self::Reissued, Self::Renewed, Self::Unaddressable];

    /// Its place in [`ResponseOutcome::COUNTED`]; `None` for what is not counted.
    #[must_use]
    pub fn index(self) -> Option<usize> {
        (self as usize).checked_sub(1)
    }

    /// Its word: a counter `limpet.<policy>.<word>`, and what the access log's value has behind a `+`. `None`: neither.
    #[must_use]
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Unchanged => None,
            Self::Issued => Some("issued"),
            Self::Reissued => Some("reissued"),
            Self::Renewed => Some("renewed"),
            Self::Unaddressable => Some("unaddressable"),
        }
    }
}

/// The access log's value: `steered`, or `no_token+issued`.
#[must_use]
pub fn access_log_value(request: RequestOutcome, response: ResponseOutcome) -> Cow<'static, str> {
    match response.word() {
        None => request.word().into(),
        Some(word) => format!("{}+{word}", request.word()).into(),
    }
}

/// The name of a policy's counter.
#[must_use]
pub fn counter_name(policy: &str, word: &str) -> String {
    format!("limpet.{policy}.{word}")
}

/// Counts the requests that the proxy gave no answer about, so that they went on without a session.
pub const HOST_ERRORS: &str = "limpet.host_errors";

/// Counts the requests whose route metadata names no session of the configuration.
pub const UNKNOWN_SESSIONS: &str = "limpet.unknown_sessions";

/// Counts the requests that went on without a session because the secret that their keyring is in was not there yet, or held none.
pub const NO_KEYS: &str = "limpet.no_keys";

/// Counts the secrets that came in the place of a keyring and are none; the keyring before goes on.
pub const REFUSED_SECRETS: &str = "limpet.refused_secrets";

/// The filter state that access logs read, as `%FILTER_STATE(limpet.session:PLAIN)%`; what a wasm filter
/// sets has `wasm.` in front.
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
