//! A session during one request and its response.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::application::{Application, SetCookies};
use crate::arrival::{Arrival, answering_host, arrival, settled};
use crate::bound_policy::{BoundPolicy, Honoured};
use crate::cache_control;
use crate::carrier::cookie::Secure;
use crate::census::{Identity, Left};
use crate::config::Carrier;
use crate::end;
use crate::envoy::{NO_HEALTHY_UPSTREAM, ORIGINAL_URL_HEADER, REQUEST_ID_HEADER};
use crate::keyring::KeyId;
use crate::location::{self, Location};
use crate::moved::{self, Wish};
use crate::name_conflict;
use crate::outcome::{RequestOutcome, ResponseOutcome};
use crate::plan::{HeaderEdit, KeyChange, NameConflict, RequestPlan, ResponsePlan, Steering};
use crate::redirect::{Taken, Tokens, Unanswered};
use crate::route_session::issues_tokens;
use crate::source_session::SourceSession;
use crate::time::Timestamp;
use crate::token::{Claims, Destination, Refusal};
use crate::view::{RequestView, ResponseView, ViewError};

/// The session of one request.
#[derive(Debug)]
pub struct Session {
    bound_policy: Arc<BoundPolicy>,
    /// Whether the route splits its traffic, so that the request must be rerouted to the destination of its session.
    split: bool,
    state: SessionState,
    /// Whether the method of the request permits that a session begins with the response.
    may_begin: bool,
    /// For an internal redirect.
    taken: Option<Taken>,
    /// The key of the token that the client has.
    held: Option<KeyId>,
    /// When the request came.
    at: Timestamp,
    /// Whether load balancing chooses a backend although the token is honoured.
    rebalanced: bool,
    /// Why no token of the request was honoured.
    refused: Option<Refusal>,
    /// `:authority` of the request, if redirects to it get the token.
    authority: Option<Box<[u8]>>,
    /// Set during a request whose session the client's address holds.
    by_address: Option<Box<SourceSession>>,
}

/// What is known about a session after the request is read.
#[derive(Debug, Clone, Copy)]
enum SessionState {
    /// The session starts with the response.
    New,
    /// There is no session: browsers send a CORS preflight without cookies and ignore the cookies of its response.
    Preflight,
    /// The session continues.
    Honoured(Honoured),
    /// The session continues if the request reached its destination. The response tells.
    Uncertain(Honoured),
}

impl Session {
    pub(crate) fn new(bound_policy: Arc<BoundPolicy>, split: bool) -> Self {
        Self {
            bound_policy,
            split,
            state: SessionState::New,
            may_begin: false,
            taken: None,
            held: None,
            at: Timestamp::UNIX_EPOCH,
            rebalanced: false,
            refused: None,
            authority: None,
            by_address: None,
        }
    }

    /// The name of the policy.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.bound_policy.policy.name
    }

    /// The index of the policy in [`crate::Filter::policies`].
    #[must_use]
    pub fn policy_index(&self) -> usize {
        self.bound_policy.policy.index
    }

    /// Whether requests of this session fail if its backend is not available.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.bound_policy.policy.strict
    }

    /// Reads the tokens of the request and decides where it goes.
    ///
    /// # Errors
    /// If the proxy does not answer.
    pub fn on_request<'a>(
        &'a mut self,
        request: &mut impl RequestView,
        now: Timestamp,
    ) -> Result<RequestPlan<'a>, ViewError> {
        self.at = now;
        if let Some(source) = self.bound_policy.source() {
            let (session, plan) = SourceSession::on_request(&self.bound_policy, source, self.split, request, now)?;
            self.by_address = Some(Box::new(session));
            return Ok(plan);
        }
        let tokens = self.bound_policy.read(request, now)?;
        self.authority = location::authority(&self.bound_policy.policy, request)?;
        let mut verdict = tokens.verdict;
        self.taken = to_remember(request, tokens.taken)?;
        if verdict.is_err_and(|why| why.outcome == RequestOutcome::NoToken)
            && let Some(taken) = taken_before_redirect(request, now)?
        {
            // Tokens of other scopes are among them, so a refusal says nothing.
            verdict = self.bound_policy.first_alive(taken.tokens(), now).or(verdict);
            self.taken = Some(taken);
        }
        self.held = match verdict {
            Ok(honoured) => Some(honoured.key),
            Err(why) => why.key,
        };
        let mut verdict = verdict.map_err(|why| why.outcome);
        if verdict.is_err_and(|why| why == RequestOutcome::Refused(Refusal::Malformed)) {
            self.bound_policy.policy.name_watch.suspect();
        }
        let strict = self.bound_policy.policy.strict;
        self.state = match verdict {
            Err(_) if is_preflight(request)? => SessionState::Preflight,
            Err(_) => SessionState::New,
            Ok(honoured) => match arrival(self.split, strict, honoured.claims.destination, request)? {
                Arrival::There => SessionState::Honoured(honoured),
                Arrival::Unknown => SessionState::Uncertain(honoured),
                Arrival::Elsewhere => {
                    verdict = Err(RequestOutcome::Refused(Refusal::UnknownDestination));
                    SessionState::New
                }
            },
        };
        self.may_begin = match self.state {
            SessionState::Honoured(_) | SessionState::Preflight => false,
            SessionState::New | SessionState::Uncertain(_) => self.bound_policy.policy.begin.permits(request)?,
        };
        self.refused = match verdict {
            Err(RequestOutcome::Refused(refusal)) => Some(refusal),
            _ => None,
        };
        self.rebalanced = match self.state {
            SessionState::Honoured(honoured) => self.begins_anew(&honoured.claims, request, now)?,
            _ => false,
        };
        let outcome = match self.state {
            SessionState::Uncertain(_) => None,
            _ if self.rebalanced => Some(RequestOutcome::Rebalanced),
            _ => Some(verdict.err().unwrap_or(RequestOutcome::Steered)),
        };
        Ok(RequestPlan {
            edit: tokens.edit,
            further_edits: tokens.further_edits,
            steering: verdict.ok().filter(|_| !self.rebalanced).map(|honoured| Steering {
                host: honoured.claims.host,
                strict: strict && !honoured.claims.is_moving(),
            }),
            outcome,
            hash: None,
        })
    }

    /// Whether a session that lives begins anew where load balancing sends it, as if its backend were gone. A policy
    /// without `rebalance` asks for nothing.
    fn begins_anew(&self, claims: &Claims, request: &impl RequestView, now: Timestamp) -> Result<bool, ViewError> {
        let policy = &self.bound_policy;
        Ok(policy.is_long_unused(claims, now)
            && policy.policy.begin.permits(request)?
            && !is_preflight(request)?
            && request.may_leave(&policy.backend(claims), now))
    }

    /// The request has ended without a response. Envoy may begin it again at once. Nothing is remembered if the proxy
    /// does not tell the time.
    pub fn end_unanswered(self, unanswered: &Unanswered, now: impl Fn() -> Result<Timestamp, ViewError>) {
        if let Some(taken) = self.taken
            && let Ok(now) = now()
        {
            unanswered.remember(taken, now);
        }
    }

    /// Gives the client a token if it needs one. In the steady state it does not, so the time is a function that is
    /// called only then.
    ///
    /// # Errors
    /// If the proxy does not answer.
    pub fn on_response<'a>(
        &'a mut self,
        response: &impl ResponseView,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<ResponsePlan<'a>, ViewError> {
        let request = self.settle(response)?;
        let cookies = SetCookies::of(response);
        let mut wish = Wish::find(&self.bound_policy, response)?;
        let plan = if let (Some(session), Some((source, _))) = (&mut self.by_address, self.bound_policy.source()) {
            session.on_response(&self.bound_policy, source, response, wish.as_mut(), now)?
        } else {
            let plan = match self.end(response, &cookies, &now)? {
                Some(plan) => plan,
                None => self.answer(response, &cookies, wish.as_mut(), &now)?,
            };
            let plan = self.without_namesake(response, plan)?;
            ResponsePlan { request, ..plan }
        };
        Ok(match wish {
            Some(wish) => wish.taken_out(plan),
            None => plan,
        })
    }

    /// Removes the application's own cookie or header of the session's name, of which the client would keep one only.
    fn without_namesake<'a>(
        &'a self,
        response: &impl ResponseView,
        plan: ResponsePlan<'a>,
    ) -> Result<ResponsePlan<'a>, ViewError> {
        let watch = &self.bound_policy.policy.name_watch;
        if !plan.outcome.has_token() && !watch.looks() {
            return Ok(plan);
        }
        let Some(mut conflict) = name_conflict::find(&self.bound_policy, response)? else {
            return Ok(plan);
        };
        conflict.edits.extend(plan.edits);
        let line = watch.conflict().then(|| conflict.line(self.policy()));
        Ok(ResponsePlan {
            edits: conflict.edits,
            name_conflict: Some(NameConflict { line }),
            ..plan
        })
    }

    /// Tells what became of a token if that depends on where the request went.
    fn settle(&mut self, response: &impl ResponseView) -> Result<Option<RequestOutcome>, ViewError> {
        let SessionState::Uncertain(honoured) = self.state else {
            return Ok(None);
        };
        let outcome = settled(honoured.claims.destination, response)?;
        self.state = match outcome {
            RequestOutcome::Steered => SessionState::Honoured(honoured),
            _ => SessionState::New,
        };
        if let RequestOutcome::Refused(refusal) = outcome {
            self.refused = Some(refusal);
        }
        Ok(Some(outcome))
    }

    fn honoured(&self) -> Option<Honoured> {
        match self.state {
            SessionState::Honoured(honoured) | SessionState::Uncertain(honoured) => Some(honoured),
            SessionState::New | SessionState::Preflight => None,
        }
    }

    /// The plan for a response with which the application ends the session; `None` for any other.
    fn end<R: ResponseView>(
        &self,
        response: &R,
        cookies: &SetCookies<'_, R>,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<Option<ResponsePlan<'_>>, ViewError> {
        let is_end = match &self.bound_policy.policy.end {
            Some(end) => end.is_said(cookies, now)?,
            None => false,
        };
        if !is_end {
            return Ok(None);
        }
        let honoured = self.honoured();
        let under_former_name = honoured.is_some_and(|honoured| honoured.under_former_name);
        Ok(Some(ResponsePlan {
            edits: end::edits(&self.bound_policy, under_former_name, response)?,
            outcome: match honoured {
                Some(_) => ResponseOutcome::Ended,
                None => ResponseOutcome::Unchanged,
            },
            ..ResponsePlan::NO_CHANGE
        }))
    }

    fn answer<R: ResponseView>(
        &self,
        response: &R,
        cookies: &SetCookies<'_, R>,
        wish: Option<&mut Wish<'_, '_>>,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<ResponsePlan<'_>, ViewError> {
        let policy = &*self.bound_policy.policy;
        let Some(realm) = &self.bound_policy.realm else {
            return Ok(ResponsePlan::NO_CHANGE);
        };
        let honoured = self.honoured();
        let is_own = policy.carrier.is_own();
        let application = if is_own {
            None
        } else {
            Application::find(&policy.carrier, response, &now)?
        };
        let location = Location::find(policy, self.authority.as_deref(), response)?;
        // Whether a token is due even if the same host answers. The application's cookie or header always gets one, and
        // so does the URL that a client goes to without the token of this one.
        let renew =
            application.is_some() || location.is_some() || is_own && honoured.is_some_and(|honoured| honoured.renew);
        let due = match self.state {
            _ if !is_own => application.is_some(),
            _ if !policy.reaches_clients(location.is_some()) => false,
            SessionState::Preflight => false,
            SessionState::New => self.may_begin && policy.begin.is_set(response, cookies, &now)?,
            SessionState::Honoured(_) | SessionState::Uncertain(_) => {
                renew || wish.is_some() || response.maybe_other_host(policy.strict)?
            }
        };
        let steered = honoured.filter(|_| !self.rebalanced);
        let fails = steered.is_some_and(|honoured| policy.strict && !honoured.claims.is_moving());
        let own_status = fails && policy.strict_status != 503;
        if !due && !own_status {
            return Ok(self.goes_on(steered));
        }
        let details = response.code_details()?.unwrap_or_default();
        if own_status && details.starts_with(NO_HEALTHY_UPSTREAM.as_bytes()) {
            return Ok(ResponsePlan {
                status: Some(policy.strict_status),
                ..ResponsePlan::NO_CHANGE
            });
        }
        if !due {
            return Ok(self.goes_on(honoured));
        }
        let host = match answering_host(&details, response)? {
            Ok(host) => host,
            Err(plan) => return Ok(plan),
        };
        let now = now()?;
        let cluster = response.cluster_name()?.unwrap_or_default();
        let destination = Destination::of_cluster(&cluster);
        let target = wish.and_then(|wish| wish.target(&cluster, host, now));
        let (claims, outcome) = match (target, honoured) {
            (Some(target), _) => (Claims::moving(target, destination, now), ResponseOutcome::Moved),
            (None, Some(honoured)) if honoured.claims.host == host => {
                if !renew {
                    return Ok(self.goes_on(Some(honoured)));
                }
                (honoured.renewed(destination, now), ResponseOutcome::Renewed)
            }
            (None, Some(_)) => (started(host, destination, now), ResponseOutcome::Reissued),
            (None, None) => (started(host, destination, now), ResponseOutcome::Issued),
        };
        if !issues_tokens(self.split, response)? {
            return Ok(ResponsePlan::NO_CHANGE);
        }
        // A renewed session is the same one, so it keeps what tells it from others.
        let nonce = match honoured.filter(|_| outcome == ResponseOutcome::Renewed) {
            Some(honoured) => honoured.nonce,
            None => response.nonce()?,
        };
        let token = realm.seal(policy.form, &claims, nonce);
        let mut edits = match application {
            Some(application) => application.with(&token),
            None => self.own(&token, &claims, response, now)?,
        };
        edits.extend(location.as_ref().map(|location| location.with(&token)));
        if !policy.keep_cache_control {
            // Browsers keep some redirects for good, and would return to this token.
            edits.extend(cache_control::edits(response, location.is_some())?);
        }
        if let Some(header) = &policy.tell {
            edits.push(HeaderEdit::Set(header, token.into_bytes()));
        }
        let key = realm.signing();
        let changes = self.held != Some(key);
        Ok(ResponsePlan {
            edits,
            outcome,
            key_change: changes.then_some(KeyChange {
                from: self.held,
                to: key,
            }),
            refused_move: honoured.and_then(|honoured| moved::to_nowhere(&self.bound_policy, &honoured.claims, host)),
            seen: self.bound_policy.seen(&claims, Identity::Token(nonce), now),
            left: self.left(outcome, honoured),
            ..ResponsePlan::NO_CHANGE
        })
    }

    /// The response is one of the session's backend, and changes nothing.
    fn goes_on(&self, honoured: Option<Honoured>) -> ResponsePlan<'static> {
        let seen = honoured.and_then(|Honoured { claims, nonce, .. }| {
            self.bound_policy.seen(&claims, Identity::Token(nonce), self.at)
        });
        ResponsePlan {
            seen,
            ..ResponsePlan::NO_CHANGE
        }
    }

    /// Why the client's session does not go on where it was.
    fn left(&self, outcome: ResponseOutcome, honoured: Option<Honoured>) -> Option<Left> {
        if !self.bound_policy.limits.counts {
            return None;
        }
        match (outcome, honoured) {
            (ResponseOutcome::Moved, _) => Some(Left::Moved),
            (ResponseOutcome::Reissued, Some(honoured)) => {
                let backend = self.bound_policy.backend(&honoured.claims);
                Some(if self.rebalanced {
                    Left::Rebalanced(backend, honoured.claims.last_seen)
                } else {
                    Left::Backend(backend)
                })
            }
            (ResponseOutcome::Issued, _) => self.refused.map(Left::Refused),
            _ => None,
        }
    }

    /// The token in the filter's own cookie or header.
    fn own(
        &self,
        token: &str,
        claims: &Claims,
        response: &impl ResponseView,
        now: Timestamp,
    ) -> Result<Vec<HeaderEdit<'_>>, ViewError> {
        let (cookie, names) = match (&self.bound_policy.policy.carrier, &self.bound_policy.cookie_names) {
            (Carrier::Cookie { cookie, .. }, Some(names)) => (cookie, names),
            (Carrier::Query { .. }, _) => return Ok(Vec::new()),
            (carrier, _) => return Ok(vec![HeaderEdit::Set(carrier.name(), token.as_bytes().to_vec())]),
        };
        let https = cookie.secure == Secure::Auto && response.is_https()?;
        let add = |field: String| HeaderEdit::Add("set-cookie", field.into_bytes());
        let mut edits = vec![add(cookie.set_cookie(
            names.current(),
            token,
            claims.issued_at,
            now,
            https,
        ))];
        if let SessionState::Honoured(Honoured {
            under_former_name: true,
            ..
        }) = self.state
        {
            edits.push(add(cookie.deletion(names.former(), https)));
        }
        Ok(edits)
    }
}

/// The claims of a session that starts now.
fn started(host: SocketAddr, destination: Destination, now: Timestamp) -> Claims {
    Claims {
        host,
        destination,
        issued_at: now,
        last_seen: now,
    }
}

/// What to remember of a request for an internal redirect.
fn to_remember(request: &impl RequestView, tokens: Tokens) -> Result<Option<Taken>, ViewError> {
    if tokens.is_empty() || request.unanswered().is_none() {
        return Ok(None);
    }
    let request_id = request.header(REQUEST_ID_HEADER)?.unwrap_or_default();
    Ok(Taken::new(&request_id, tokens))
}

/// What was taken out of a request before Envoy began it again; `None` for any other request.
fn taken_before_redirect(request: &impl RequestView, now: Timestamp) -> Result<Option<Taken>, ViewError> {
    let Some(unanswered) = request.unanswered() else {
        return Ok(None);
    };
    if request.header(ORIGINAL_URL_HEADER)?.is_none() {
        return Ok(None);
    }
    let request_id = request.header(REQUEST_ID_HEADER)?;
    Ok(request_id.and_then(|id| unanswered.take(&id, now)))
}

/// Whether this is a CORS preflight (the Fetch standard, "CORS-preflight request").
fn is_preflight(request: &impl RequestView) -> Result<bool, ViewError> {
    let is_options = request.header(":method")?.is_some_and(|method| *method == *b"OPTIONS");
    Ok(is_options && request.header("access-control-request-method")?.is_some())
}
