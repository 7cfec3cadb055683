//! A session by the client's address, during one request and its response.

use std::net::SocketAddr;

use crate::application::SetCookies;
use crate::arrival::{Arrival, answering_host, arrival, settled};
use crate::bound_policy::BoundPolicy;
use crate::census::{SessionDeparture, SessionIdentity};
use crate::config::Source;
use crate::envoy::NO_HEALTHY_UPSTREAM;
use crate::move_request::{self, MoveRequest};
use crate::outcome::{RequestOutcome, ResponseOutcome};
use crate::plan::{RequestPlan, ResponsePlan, Steering};
use crate::route_session::{Split, issues_tokens};
use crate::source::{EntryKey, ScopeId};
use crate::time::Timestamp;
use crate::token::{Claims, DestinationId, TokenRefusal};
use crate::view::{RequestView, ResponseView, ViewError};

#[derive(Debug)]
pub(crate) struct SourceSession {
    /// `None` if the client has no IP address.
    key: Option<EntryKey>,
    state: SourceState,
    /// Whether the request's method permits that a session begins.
    may_begin: bool,
    split: Option<Split>,
    at: Timestamp,
}

#[derive(Debug, Clone, Copy)]
enum SourceState {
    /// The session starts with the response.
    New,
    Found(Claims),
    /// The session continues if the response shows that the request reached its destination.
    Uncertain(Claims),
}

impl SourceSession {
    pub(crate) fn on_request(
        bound_policy: &BoundPolicy,
        (source, scope): (&Source, ScopeId),
        split: Option<Split>,
        request: &mut impl RequestView,
        now: Timestamp,
    ) -> Result<(Self, RequestPlan<'static>), ViewError> {
        let strict = bound_policy.policy.strict;
        let client = request
            .client_address()?
            .and_then(|address| source.rules.client(&address));
        let key = client.map(|client| EntryKey::new(client, scope));
        let found = key.map(|key| entry(bound_policy, source, &key, now)).transpose()?;
        let mut verdict = found.unwrap_or(Err(RequestOutcome::NoToken));
        let state = match verdict {
            Err(_) => SourceState::New,
            Ok(claims) => match arrival(split, strict, claims.destination, request)? {
                Arrival::There => SourceState::Found(claims),
                Arrival::Unknown => SourceState::Uncertain(claims),
                Arrival::Elsewhere => {
                    verdict = Err(RequestOutcome::Refused(TokenRefusal::UnknownDestination));
                    SourceState::New
                }
            },
        };
        let may_begin = match state {
            SourceState::Found(_) => false,
            SourceState::New | SourceState::Uncertain(_) => bound_policy.policy.begin.permits(request)?,
        };
        let plan = RequestPlan {
            edit: None,
            further_edits: Vec::new(),
            steering: verdict.ok().map(|claims| Steering {
                host: claims.host,
                strict: strict && !claims.is_moving(),
            }),
            outcome: match state {
                SourceState::Uncertain(_) => None,
                _ => Some(verdict.err().unwrap_or(RequestOutcome::Steered)),
            },
            hash: client.filter(|client| !client.is_whole).map(|client| client.ip),
        };
        let session = Self {
            key,
            state,
            may_begin,
            split,
            at: now,
        };
        Ok((session, plan))
    }

    pub(crate) fn on_response(
        &mut self,
        bound_policy: &BoundPolicy,
        source: &Source,
        response: &impl ResponseView,
        wish: Option<&mut MoveRequest<'_, '_>>,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<ResponsePlan<'static>, ViewError> {
        let request = self.settle(response)?;
        let cookies = SetCookies::new(response);
        let plan = match self.end(bound_policy, source, &cookies, &now)? {
            Some(plan) => plan,
            None => self.answer(bound_policy, source, &cookies, wish, &now)?,
        };
        Ok(ResponsePlan { request, ..plan })
    }

    fn settle(&mut self, response: &impl ResponseView) -> Result<Option<RequestOutcome>, ViewError> {
        let SourceState::Uncertain(claims) = self.state else {
            return Ok(None);
        };
        let outcome = settled(claims.destination, response)?;
        self.state = match outcome {
            RequestOutcome::Steered => SourceState::Found(claims),
            _ => SourceState::New,
        };
        Ok(Some(outcome))
    }

    fn former(&self) -> Option<Claims> {
        match self.state {
            SourceState::New => None,
            SourceState::Found(claims) | SourceState::Uncertain(claims) => Some(claims),
        }
    }

    /// Removes the entry if the application ends the session; `None` if it does not.
    fn end<R: ResponseView>(
        &self,
        bound_policy: &BoundPolicy,
        source: &Source,
        cookies: &SetCookies<'_, R>,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<Option<ResponsePlan<'static>>, ViewError> {
        let (Some(end), Some(key)) = (&bound_policy.policy.end, &self.key) else {
            return Ok(None);
        };
        if !end.matches(cookies, now)? {
            return Ok(None);
        }
        source.table().remove(key)?;
        Ok(Some(of_outcome(match self.former() {
            Some(_) => ResponseOutcome::Ended,
            None => ResponseOutcome::Unchanged,
        })))
    }

    fn answer<R: ResponseView>(
        &self,
        bound_policy: &BoundPolicy,
        source: &Source,
        cookies: &SetCookies<'_, R>,
        wish: Option<&mut MoveRequest<'_, '_>>,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<ResponsePlan<'static>, ViewError> {
        let policy = &bound_policy.policy;
        let (response, former) = (cookies.response(), self.former());
        let Some(key) = &self.key else {
            return Ok(ResponsePlan::NO_CHANGE);
        };
        if former.is_none() && !(self.may_begin && policy.begin.is_set(cookies, &now)?) {
            return Ok(ResponsePlan::NO_CHANGE);
        }
        let is_moving = former.is_some_and(|claims| claims.is_moving());
        // Only its backend's response is a use of a session that is strict or moves. The uses of others are noted with
        // the request.
        let notes_use = policy.strict || is_moving;
        let goes_on = || ResponsePlan {
            observed: former.and_then(|claims| bound_policy.observed(&claims, SessionIdentity::Client(*key), self.at)),
            ..ResponsePlan::NO_CHANGE
        };
        if former.is_some() && !notes_use && wish.is_none() && !response.maybe_other_host(false)? {
            return Ok(goes_on());
        }
        let details = response.code_details()?.unwrap_or_default();
        if former.is_some() && policy.strict && !is_moving && details.starts_with(NO_HEALTHY_UPSTREAM.as_bytes()) {
            return Ok(ResponsePlan {
                status: (policy.strict_status != 503).then_some(policy.strict_status),
                ..ResponsePlan::NO_CHANGE
            });
        }
        let host = match answering_host(&details, response)? {
            Ok(host) => host,
            Err(outcome) => return Ok(of_outcome(outcome)),
        };
        let now = now()?;
        if former.is_some_and(|claims| claims.host == host) && !notes_use && wish.is_none() {
            return Ok(goes_on());
        }
        let cluster = response.cluster_name()?.unwrap_or_default();
        let target = wish.and_then(|wish| wish.target(&cluster, host, now));
        let destination = DestinationId::of_cluster(&cluster);
        let (claims, outcome) = claims(former, target, host, destination, now);
        if outcome != ResponseOutcome::Unchanged && !issues_tokens(self.split, response)? {
            return Ok(ResponsePlan::NO_CHANGE);
        }
        Ok(ResponsePlan {
            outcome,
            evicted: source.table().put(key, &claims)?,
            refused_move: former.and_then(|former| move_request::unavailable_target(bound_policy, &former, host)),
            observed: bound_policy.observed(&claims, SessionIdentity::Client(*key), self.at),
            departed: left(bound_policy, outcome, former),
            ..ResponsePlan::NO_CHANGE
        })
    }
}

fn left(bound_policy: &BoundPolicy, outcome: ResponseOutcome, former: Option<Claims>) -> Option<SessionDeparture> {
    match (outcome, former) {
        _ if !bound_policy.limits.counts => None,
        (ResponseOutcome::Moved, _) => Some(SessionDeparture::Moved),
        (ResponseOutcome::Reissued, Some(former)) => Some(SessionDeparture::Backend(bound_policy.backend(&former))),
        _ => None,
    }
}

fn of_outcome(outcome: ResponseOutcome) -> ResponsePlan<'static> {
    ResponsePlan {
        outcome,
        ..ResponsePlan::NO_CHANGE
    }
}

/// The entry after a response of `host`. `target`: the backend that the session moves to.
fn claims(
    former: Option<Claims>,
    target: Option<SocketAddr>,
    host: SocketAddr,
    destination: DestinationId,
    now: Timestamp,
) -> (Claims, ResponseOutcome) {
    let since = |issued_at: Timestamp| Claims {
        host,
        destination,
        issued_at: issued_at.min(now),
        last_seen: now,
    };
    match (target, former) {
        (Some(target), _) => (Claims::moving(target, destination, now), ResponseOutcome::Moved),
        (None, Some(claims)) if claims.host == host => (since(claims.issued_at), ResponseOutcome::Unchanged),
        (None, Some(_)) => (since(now), ResponseOutcome::Reissued),
        (None, None) => (since(now), ResponseOutcome::Issued),
    }
}

fn entry(
    bound_policy: &BoundPolicy,
    source: &Source,
    key: &EntryKey,
    now: Timestamp,
) -> Result<Result<Claims, RequestOutcome>, ViewError> {
    let table = source.table();
    let timeout = source.rules.timeout + table.lag();
    let refusal = |claims: &Claims| bound_policy.refuses_entry(claims, timeout, now);
    let is_use = |claims: &Claims| !bound_policy.policy.strict && !claims.is_moving() && refusal(claims).is_none();
    Ok(match table.find(key, now, &is_use)? {
        None => Err(RequestOutcome::NoToken),
        Some(claims) => refusal(&claims).map_or(Ok(claims), |refusal| Err(RequestOutcome::Refused(refusal))),
    })
}
