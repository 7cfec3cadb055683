//! The filter's verdict on a token, from the filter itself.

use std::borrow::Cow;

use super::candidates::{CandidateSession, Candidates};
use crate::exit::CommandFailure;
use crate::tools::keys::source::{self, KeySourceError};
use limpet_core::Filter;
use limpet_core::config::schema::{DefaultConfig, FilterConfig};
use limpet_core::keyring::KeyId;
use limpet_core::outcome::RequestOutcome;
use limpet_core::time::Timestamp;
use limpet_core::token::{CarrierMode, Claims, DestinationId, TokenRefusal};
use limpet_core::view::{RequestView, ViewResult};

#[derive(Debug)]
pub(super) enum TokenOpening {
    /// The token belongs to this session.
    Opened(CandidateSession, Claims),
    /// Its key is there, but it belongs to none of the sessions.
    Refused(TokenRefusal),
    /// Its key is listed, but not available here.
    NoKey(KeySourceError),
}

pub(super) fn open(candidates: &Candidates, token: &str, key: KeyId) -> TokenOpening {
    let mut outcome = TokenOpening::Refused(TokenRefusal::UnknownKey);
    for candidate in candidates.list.iter().flat_map(CandidateSession::in_each_carrier) {
        match candidate.realm(Some(key)) {
            Ok(realm) => match realm.open(token.as_bytes()) {
                Ok(opened) => return TokenOpening::Opened(candidate, opened.claims),
                Err(refusal) => outcome = TokenOpening::Refused(refusal),
            },
            Err(Some(KeySourceError::Revoked)) => outcome = TokenOpening::Refused(TokenRefusal::RevokedKey),
            Err(Some(unavailable)) if matches!(outcome, TokenOpening::Refused(TokenRefusal::UnknownKey)) => {
                outcome = TokenOpening::NoKey(unavailable);
            }
            Err(_) => {}
        }
    }
    outcome
}

/// The filter's outcome for a request of this session with a token of this key. It leaves out whether the route leads
/// to the token's cluster.
pub(crate) fn evaluate(
    candidate: &CandidateSession,
    mut request: TokenRequest,
    key: KeyId,
    now: Timestamp,
) -> Result<RequestOutcome, CommandFailure> {
    let config = alone(candidate, key)?;
    let (filter, _) = Filter::new(&config, &|_| None)
        .map_err(|error| CommandFailure(format!("the filter refuses the configuration: {error}")))?;
    // `TokenRequest` answers every question, so this does not happen.
    let unanswered = |error: &dyn std::fmt::Display| CommandFailure(error.to_string());
    let session = filter.session(&request).map_err(|error| unanswered(&error))?;
    let mut session = session.ok_or_else(|| CommandFailure("the configuration has no such session".to_owned()))?;
    let plan = session
        .on_request(&mut request, now)
        .map_err(|error| unanswered(&error))?;
    plan.outcome
        .ok_or_else(|| CommandFailure("the session is of a split route".to_owned()))
}

/// The candidate's configuration with its session for every request, and with the token's key only.
fn alone(candidate: &CandidateSession, key: KeyId) -> Result<FilterConfig, CommandFailure> {
    let mut config = FilterConfig::clone(&candidate.config);
    let key = source::key(&config, Some(key)).map_err(|unavailable| CommandFailure(unavailable.to_string()))?;
    config.keys = Some(key.iter().flat_map(source::alone).collect());
    config.wrapped_keys = None;
    config.sds_keys = None;
    config.policies.retain(|name, _| *name == candidate.policy);
    for policy in config.policies.values_mut() {
        policy.strict = false;
    }
    config.routes.clear();
    config.default = Some(DefaultConfig {
        policy: candidate.policy.clone(),
        scope: Some(candidate.scope.clone()),
    });
    Ok(config)
}

/// A request with nothing but the token.
pub(crate) struct TokenRequest {
    header: String,
    value: Vec<u8>,
}

impl TokenRequest {
    /// With only this header, named in lower case.
    pub(crate) fn with(header: &str, value: &str) -> Self {
        Self {
            header: header.to_owned(),
            value: value.as_bytes().to_vec(),
        }
    }

    /// With the token where sessions of the candidate have it.
    pub(crate) fn new(candidate: &CandidateSession, token: &str) -> Self {
        let (mode, name) = candidate.carrier();
        let (header, value) = match mode {
            CarrierMode::Cookie | CarrierMode::CookieRewrite => ("cookie", format!("{name}={token}")),
            CarrierMode::CookiePrefix => ("cookie", format!("{name}={token}~")),
            CarrierMode::Header => (name, token.to_owned()),
            CarrierMode::HeaderPrefix => (name, format!("{token}~")),
            CarrierMode::Query => (":path", format!("/?{name}={token}")),
        };
        Self::with(&header.to_ascii_lowercase(), &value)
    }
}

impl RequestView for TokenRequest {
    fn route_session(&self) -> ViewResult<'_> {
        Ok(None)
    }

    fn client_address(&self) -> ViewResult<'_> {
        Ok(None)
    }

    fn route_name(&self) -> ViewResult<'_> {
        Ok(None)
    }

    fn virtual_host(&self) -> ViewResult<'_> {
        Ok(None)
    }

    fn cluster_name(&self) -> ViewResult<'_> {
        Ok(None)
    }

    fn cluster_session(&self) -> ViewResult<'_> {
        Ok(None)
    }

    fn reroute(&mut self, _: DestinationId) -> ViewResult<'_> {
        Ok(None)
    }

    fn header(&self, name: &str) -> ViewResult<'_> {
        Ok((name == self.header).then_some(Cow::Borrowed(self.value.as_slice())))
    }
}
