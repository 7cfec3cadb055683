//! A session during one request and its response.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::application::{Application, SetCookies};
use crate::arrival::{Arrival, answering_host, arrival, settled};
use crate::bound_policy::BoundPolicy;
use crate::cache_control;
use crate::carrier::cookie::Secure;
use crate::census::{ObservedSession, SessionDeparture, SessionIdentity};
use crate::config::Carrier;
use crate::end_rule;
use crate::envoy::{NO_HEALTHY_UPSTREAM, ORIGINAL_URL_HEADER, REQUEST_ID_HEADER};
use crate::keyring::KeyId;
use crate::location::{self, Location};
use crate::move_request::{self, MoveRequest};
use crate::name_conflict;
use crate::newest_token::{AcceptedToken, NewestToken, TokenOrigin};
use crate::outcome::{RequestOutcome, ResponseOutcome};
use crate::plan::{HeaderEdit, KeyChange, NameConflict, RequestPlan, ResponsePlan, Steering};
use crate::redirect::{RemovedTokens, UnansweredRequests};
use crate::route_session::{Split, issues_tokens};
use crate::source_session::SourceSession;
use crate::time::Timestamp;
use crate::token::{Claims, DestinationId, TokenRefusal};
use crate::view::{RequestView, ResponseView, ViewError};

/// The session of one request.
#[derive(Debug)]
pub struct RequestSession {
    bound_policy: Arc<BoundPolicy>,
    split: Option<Split>,
    state: SessionState,
    /// Whether the request's method permits that a session begins.
    may_begin: bool,
    /// Tokens taken out of the request, for an internal redirect.
    removed: RemovedTokens,
    /// The key of the client's token.
    held: Option<KeyId>,
    at: Timestamp,
    /// The other backend for the request although the token is honoured.
    rebalanced: Option<SocketAddr>,
    /// The client's token in a former carrier of the policy.
    former: Option<TokenOrigin>,
    refused: Option<TokenRefusal>,
    /// `:authority`, if redirects to it get the token.
    authority: Option<Box<[u8]>>,
    /// Set if the client's address holds the session.
    by_address: Option<Box<SourceSession>>,
}

#[derive(Debug, Clone, Copy)]
enum SessionState {
    /// The session starts with the response.
    New,
    /// Browsers send a CORS preflight without cookies, and ignore cookies in its response.
    Preflight,
    Honoured(AcceptedToken),
    /// The session continues if the response shows that the request reached its destination.
    Uncertain(AcceptedToken),
}

/// What gets a token besides the filter's own carrier.
struct TokenRecipients<'a, 'r> {
    application: Option<Application<'a, 'r>>,
    location: Option<Location<'a, 'r>>,
}

struct IssuedToken {
    claims: Claims,
    outcome: ResponseOutcome,
    host: SocketAddr,
}

impl RequestSession {
    pub(crate) fn new(bound_policy: Arc<BoundPolicy>, split: Option<Split>) -> Self {
        Self {
            bound_policy,
            split,
            state: SessionState::New,
            may_begin: false,
            removed: RemovedTokens::default(),
            held: None,
            at: Timestamp::UNIX_EPOCH,
            rebalanced: None,
            former: None,
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

    /// Whether requests fail without the session's backend.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.bound_policy.policy.strict
    }

    /// Reads the tokens of the request and decides where it goes.
    ///
    /// # Errors
    /// If the proxy does not answer.
    #[expect(
        clippy::too_many_lines,
        reason = "to copy the verdict out of a function of its own costs a request in the steady state two percent"
    )]
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
        let mut tokens = self.bound_policy.read(request, now, &mut self.removed.tokens)?;
        self.authority = location::authority(&self.bound_policy.policy, request)?;
        let newest = &mut tokens.newest;
        if newest.result().is_err() || self.bound_policy.policy.has_several_carriers() {
            read_before_redirect(&self.bound_policy, newest, &mut self.removed, request, now)?;
        }
        name(&mut self.removed, request)?;
        let strict = self.bound_policy.policy.strict;
        let (state, outcome) = loop {
            let verdict = newest.result();
            self.held = match verdict {
                Ok(honoured) => Some(honoured.key),
                Err(why) => why.key,
            };
            let honoured = match verdict {
                Ok(honoured) => honoured,
                Err(why) if is_preflight(request)? => break (SessionState::Preflight, why.outcome),
                Err(why) => break (SessionState::New, why.outcome),
            };
            match arrival(self.split, strict, honoured.claims.destination, request)? {
                Arrival::There => break (SessionState::Honoured(honoured), RequestOutcome::Steered),
                Arrival::Unknown => break (SessionState::Uncertain(honoured), RequestOutcome::Steered),
                Arrival::Elsewhere if newest.skip_unreachable() => {}
                Arrival::Elsewhere => {
                    let refused = RequestOutcome::Refused(TokenRefusal::UnknownDestination);
                    break (SessionState::New, refused);
                }
            }
        };
        self.state = state;
        self.former = newest.former();
        if outcome == RequestOutcome::Refused(TokenRefusal::Malformed) {
            self.bound_policy.policy.name_watch.start();
        }
        self.may_begin = match self.state {
            SessionState::Honoured(_) | SessionState::Preflight => false,
            SessionState::New | SessionState::Uncertain(_) => self.bound_policy.policy.begin.permits(request)?,
        };
        self.refused = match outcome {
            RequestOutcome::Refused(refusal) => Some(refusal),
            _ => None,
        };
        self.rebalanced = match &self.state {
            SessionState::Honoured(honoured) => self.restarts_on(&honoured.claims, request, now)?,
            _ => None,
        };
        // That backend may have gone, or not be known here yet: then load balancing chooses.
        let moved = self.rebalanced.map(|host| Steering { host, strict: false });
        Ok(RequestPlan {
            edit: tokens.edit,
            further_edits: tokens.further_edits,
            steering: moved.or_else(|| {
                let AcceptedToken { claims, .. } = self.steered()?;
                Some(Steering {
                    host: claims.host,
                    strict: strict && !claims.is_moving(),
                })
            }),
            outcome: match self.state {
                SessionState::Uncertain(_) => None,
                _ if self.rebalanced.is_some() => Some(RequestOutcome::Rebalanced),
                _ => Some(outcome),
            },
            hash: None,
        })
    }

    /// The host on which a live session restarts, if it does.
    fn restarts_on(
        &self,
        claims: &Claims,
        request: &impl RequestView,
        now: Timestamp,
    ) -> Result<Option<SocketAddr>, ViewError> {
        let policy = &self.bound_policy;
        let may_begin =
            policy.is_long_unused(claims, now) && policy.policy.begin.permits(request)? && !is_preflight(request)?;
        let host = || request.restart_host(&policy.backend(claims), now);
        Ok(may_begin.then(host).flatten())
    }

    /// Ends without a response. Envoy may begin the request again at once, after an internal redirect.
    pub fn end_unanswered(self, unanswered: &UnansweredRequests, now: impl Fn() -> Result<Timestamp, ViewError>) {
        if self.removed.is_worth_remembering()
            && let Ok(now) = now()
        {
            unanswered.remember(self.removed, now);
        }
    }

    /// Gives the client a token if it needs one, which in the steady state it does not: `now` is not called.
    ///
    /// # Errors
    /// If the proxy does not answer.
    pub fn on_response<'a>(
        &'a mut self,
        response: &impl ResponseView,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<ResponsePlan<'a>, ViewError> {
        let request = self.settle(response)?;
        let cookies = SetCookies::new(response);
        let mut wish = MoveRequest::find(&self.bound_policy, response)?;
        // Made in place, because a plan is large.
        let mut plan = ResponsePlan {
            request,
            ..ResponsePlan::NO_CHANGE
        };
        if let (Some(session), Some((source, _))) = (&mut self.by_address, self.bound_policy.source()) {
            plan = session.on_response(&self.bound_policy, source, response, wish.as_mut(), now)?;
        } else {
            if !self.end(&cookies, &now, &mut plan)? {
                self.answer(&cookies, wish.as_mut(), &now, &mut plan)?;
            }
            self.remove_namesake(response, &mut plan)?;
        }
        if let Some(wish) = wish {
            wish.remove_field(&mut plan);
        }
        Ok(plan)
    }

    /// Removes the application's own cookie or header of the session's name: the client would keep only one.
    fn remove_namesake<'a>(
        &'a self,
        response: &impl ResponseView,
        plan: &mut ResponsePlan<'a>,
    ) -> Result<(), ViewError> {
        let watch = &self.bound_policy.policy.name_watch;
        if !plan.outcome.has_token() && !watch.is_due() {
            return Ok(());
        }
        if let Some(mut conflict) = name_conflict::find(&self.bound_policy, response)? {
            let line = watch.conflict().then(|| conflict.line(self.policy()));
            conflict.edits.append(&mut plan.edits);
            plan.edits = conflict.edits;
            plan.name_conflict = Some(NameConflict { line });
        }
        Ok(())
    }

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

    fn honoured(&self) -> Option<&AcceptedToken> {
        match &self.state {
            SessionState::Honoured(honoured) | SessionState::Uncertain(honoured) => Some(honoured),
            SessionState::New | SessionState::Preflight => None,
        }
    }

    /// The token whose backend gets the request; `None` if the session restarts on another.
    fn steered(&self) -> Option<&AcceptedToken> {
        self.honoured().filter(|_| self.rebalanced.is_none())
    }

    fn end<'a, R: ResponseView>(
        &'a self,
        cookies: &SetCookies<'_, R>,
        now: impl Fn() -> Result<Timestamp, ViewError>,
        plan: &mut ResponsePlan<'a>,
    ) -> Result<bool, ViewError> {
        let is_end = match &self.bound_policy.policy.end {
            Some(end) => end.matches(cookies, now)?,
            None => false,
        };
        if is_end {
            let honoured = self.honoured();
            let former = honoured.and_then(|honoured| self.bound_policy.former_cookie(honoured.origin));
            let former = former.or_else(|| self.bound_policy.former_cookie(self.former?));
            plan.edits = end_rule::edits(&self.bound_policy, former, cookies.response())?;
            if honoured.is_some() {
                plan.outcome = ResponseOutcome::Ended;
            }
        }
        Ok(is_end)
    }

    fn answer<'a, R: ResponseView>(
        &'a self,
        cookies: &SetCookies<'_, R>,
        wish: Option<&mut MoveRequest<'_, '_>>,
        now: impl Fn() -> Result<Timestamp, ViewError>,
        plan: &mut ResponsePlan<'a>,
    ) -> Result<(), ViewError> {
        if self.bound_policy.realm.is_none() {
            return Ok(());
        }
        let response = cookies.response();
        let recipients = self.recipients(response, &now)?;
        let due = self.is_due(&recipients, wish.is_some(), cookies, &now)?;
        let status = self.failure_status();
        if !due && status.is_none() {
            plan.observed = self.seen(self.steered());
            return Ok(());
        }
        let details = response.code_details()?.unwrap_or_default();
        if status.is_some() && details.starts_with(NO_HEALTHY_UPSTREAM.as_bytes()) {
            plan.status = status;
            return Ok(());
        }
        if !due {
            plan.observed = self.seen(self.honoured());
            return Ok(());
        }
        let host = match answering_host(&details, response)? {
            Ok(host) => host,
            Err(outcome) => {
                plan.outcome = outcome;
                return Ok(());
            }
        };
        let now = now()?;
        let cluster = response.cluster_name()?.unwrap_or_default();
        let target = wish.and_then(|wish| wish.target(&cluster, host, now));
        let destination = DestinationId::of_cluster(&cluster);
        let (claims, outcome) = match (target, self.honoured()) {
            (Some(target), _) => (Claims::moving(target, destination, now), ResponseOutcome::Moved),
            (None, Some(honoured)) if honoured.claims.host == host => {
                if !self.renews(&recipients) {
                    plan.observed = self.seen(Some(honoured));
                    return Ok(());
                }
                (honoured.renewed(destination, now), ResponseOutcome::Renewed)
            }
            (None, Some(_)) => (started(host, destination, now), ResponseOutcome::Reissued),
            (None, None) => (started(host, destination, now), ResponseOutcome::Issued),
        };
        if issues_tokens(self.split, response)? {
            let token = IssuedToken { claims, outcome, host };
            self.issue(token, recipients, response, now, plan)?;
        }
        Ok(())
    }

    fn recipients<'a, 'r>(
        &'a self,
        response: &'r impl ResponseView,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<TokenRecipients<'a, 'r>, ViewError> {
        let policy = &*self.bound_policy.policy;
        let application = if policy.carrier.is_own() {
            None
        } else {
            Application::find(&policy.carrier, response, now)?
        };
        let location = Location::find(policy, self.authority.as_deref(), response)?;
        Ok(TokenRecipients { application, location })
    }

    /// Whether a token is due even if the same host answers. The application's carrier always gets one, and so does the
    /// URL that a client goes to without this one's token.
    fn renews(&self, recipients: &TokenRecipients<'_, '_>) -> bool {
        let is_old = || self.bound_policy.policy.carrier.is_own() && self.honoured().is_some_and(|found| found.renew);
        recipients.application.is_some() || recipients.location.is_some() || is_old()
    }

    /// Whether the client may need a token. `moves`: the application names another backend.
    fn is_due<R: ResponseView>(
        &self,
        recipients: &TokenRecipients<'_, '_>,
        moves: bool,
        cookies: &SetCookies<'_, R>,
        now: impl Fn() -> Result<Timestamp, ViewError>,
    ) -> Result<bool, ViewError> {
        let policy = &*self.bound_policy.policy;
        Ok(match self.state {
            _ if !policy.carrier.is_own() => recipients.application.is_some(),
            _ if !policy.reaches_clients(recipients.location.is_some()) => false,
            SessionState::Preflight => false,
            SessionState::New => self.may_begin && policy.begin.is_set(cookies, now)?,
            SessionState::Honoured(_) | SessionState::Uncertain(_) => {
                // Another host was asked for than the token's.
                let restarts = self.rebalanced.is_some();
                self.renews(recipients) || restarts || moves || cookies.response().maybe_other_host(policy.strict)?
            }
        })
    }

    /// The policy's own status for requests that fail because the session's backend is not available.
    fn failure_status(&self) -> Option<u16> {
        let policy = &self.bound_policy.policy;
        let fails = policy.strict && self.steered().is_some_and(|honoured| !honoured.claims.is_moving());
        (fails && policy.strict_status != 503).then_some(policy.strict_status)
    }

    fn issue<'a>(
        &'a self,
        IssuedToken { claims, outcome, host }: IssuedToken,
        recipients: TokenRecipients<'a, '_>,
        response: &impl ResponseView,
        now: Timestamp,
        plan: &mut ResponsePlan<'a>,
    ) -> Result<(), ViewError> {
        let Some(realm) = &self.bound_policy.realm else {
            return Ok(());
        };
        let honoured = self.honoured();
        // A renewed session is the same one, so it keeps its nonce.
        let nonce = match honoured.filter(|_| outcome == ResponseOutcome::Renewed) {
            Some(honoured) => honoured.nonce,
            None => response.nonce()?,
        };
        let token = realm.seal(self.bound_policy.policy.form, &claims, nonce);
        let Some(edits) = self.edits(recipients, token, &claims, response, now)? else {
            plan.outcome = ResponseOutcome::TooLarge;
            plan.observed = self.seen(self.steered());
            return Ok(());
        };
        let key = realm.signing();
        let changes = self.held != Some(key);
        *plan = ResponsePlan {
            request: plan.request,
            edits,
            outcome,
            key_change: changes.then_some(KeyChange {
                from: self.held,
                to: key,
            }),
            refused_move: honoured
                .and_then(|honoured| move_request::unavailable_target(&self.bound_policy, &honoured.claims, host)),
            observed: self.bound_policy.observed(&claims, SessionIdentity::Token(nonce), now),
            departed: self.left(outcome, honoured, host),
            ..ResponsePlan::NO_CHANGE
        };
        Ok(())
    }

    /// The edits that bring a token to the client; `None` if the application's cookie has no room for it.
    fn edits<'a>(
        &'a self,
        recipients: TokenRecipients<'a, '_>,
        token: String,
        claims: &Claims,
        response: &impl ResponseView,
        now: Timestamp,
    ) -> Result<Option<Vec<HeaderEdit<'a>>>, ViewError> {
        let policy = &*self.bound_policy.policy;
        let edits = match recipients.application {
            Some(application) => application.with(&token),
            None => Some(self.own(&token, claims, response, now)?),
        };
        let Some(mut edits) = edits else {
            return Ok(None);
        };
        edits.extend(recipients.location.as_ref().map(|location| location.with(&token)));
        if !policy.keep_cache_control {
            // Browsers keep some redirects for good, and would return to this token.
            edits.extend(cache_control::edits(response, recipients.location.is_some())?);
        }
        if let Some(header) = &policy.tell {
            edits.push(HeaderEdit::Set(header, token.into_bytes()));
        }
        Ok(Some(edits))
    }

    fn seen(&self, honoured: Option<&AcceptedToken>) -> Option<ObservedSession> {
        let AcceptedToken { claims, nonce, .. } = honoured?;
        self.bound_policy
            .observed(claims, SessionIdentity::Token(*nonce), self.at)
    }

    fn left(
        &self,
        outcome: ResponseOutcome,
        honoured: Option<&AcceptedToken>,
        host: SocketAddr,
    ) -> Option<SessionDeparture> {
        if !self.bound_policy.limits.counts {
            return None;
        }
        match (outcome, honoured) {
            (ResponseOutcome::Moved, _) => Some(SessionDeparture::Moved),
            (ResponseOutcome::Reissued, Some(honoured)) => {
                let backend = self.bound_policy.backend(&honoured.claims);
                let last_seen = honoured.claims.last_seen;
                Some(match self.rebalanced {
                    None => SessionDeparture::Backend(backend),
                    Some(to) if to == host => SessionDeparture::Rebalanced(backend, last_seen),
                    Some(to) => SessionDeparture::Astray(backend, last_seen, to, self.at),
                })
            }
            (ResponseOutcome::Issued, _) => self.refused.map(SessionDeparture::Refused),
            _ => None,
        }
    }

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
        // An Envoy that does not know the new name yet needs the former cookie, so it stays until the new one is
        // renewed.
        if let SessionState::Honoured(honoured) = &self.state
            && let Some(found) = match honoured.origin {
                TokenOrigin::Own => self.former,
                found => Some(found).filter(|found| *found == TokenOrigin::UnderFormerName),
            }
            && let Some(former) = self.bound_policy.former_cookie(found)
        {
            edits.push(add(cookie.deletion(former, https)));
        }
        Ok(edits)
    }
}

fn started(host: SocketAddr, destination: DestinationId, now: Timestamp) -> Claims {
    Claims {
        host,
        destination,
        issued_at: now,
        last_seen: now,
    }
}

/// Notes the id under which the request is found after an internal redirect.
fn name(taken: &mut RemovedTokens, request: &impl RequestView) -> Result<(), ViewError> {
    if !taken.tokens.is_empty() && request.unanswered().is_some() {
        taken.name(&request.header(REQUEST_ID_HEADER)?.unwrap_or_default());
    }
    Ok(())
}

fn read_before_redirect(
    policy: &BoundPolicy,
    newest: &mut NewestToken,
    taken: &mut RemovedTokens,
    request: &impl RequestView,
    now: Timestamp,
) -> Result<(), ViewError> {
    if let Some(before) = taken_before_redirect(request, now)? {
        for token in before.tokens() {
            policy.examine(token, TokenOrigin::BeforeRedirect, now, newest);
            taken.tokens.add(token);
        }
    }
    Ok(())
}

fn taken_before_redirect(request: &impl RequestView, now: Timestamp) -> Result<Option<RemovedTokens>, ViewError> {
    let Some(unanswered) = request.unanswered() else {
        return Ok(None);
    };
    if request.header(ORIGINAL_URL_HEADER)?.is_none() {
        return Ok(None);
    }
    let request_id = request.header(REQUEST_ID_HEADER)?;
    Ok(request_id.and_then(|id| unanswered.remove(&id, now)))
}

/// A CORS preflight (the Fetch standard, "CORS-preflight request").
fn is_preflight(request: &impl RequestView) -> Result<bool, ViewError> {
    let is_options = request.header(":method")?.is_some_and(|method| *method == *b"OPTIONS");
    Ok(is_options && request.header("access-control-request-method")?.is_some())
}
