//! A session, through one request and its response.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::cache_control;
use crate::carrier::cookie::{self, Secure, SessionCookie};
use crate::carrier::header;
use crate::config::Carrier;
use crate::filter::BoundPolicy;
use crate::outcome::{RequestOutcome, ResponseOutcome};
use crate::time::Timestamp;
use crate::token::{Claims, Destination, Opened, Refusal};
use crate::view::{RequestView, ResponseView, ViewError};

/// The `response.code_details` of a response that a backend gave. Everything else is Envoy's own.
const VIA_UPSTREAM: &[u8] = b"via_upstream";
/// How they begin when there was no host to send to.
const NO_HEALTHY_UPSTREAM: &[u8] = b"no_healthy_upstream";

/// The session of one request.
#[derive(Debug)]
pub struct Session {
    bound: Arc<BoundPolicy>,
    honoured: Option<Honoured>,
    /// Whether the request came over HTTPS, where the session's cookie depends on it.
    https: bool,
}

/// A token that is honoured.
#[derive(Debug, Clone, Copy)]
struct Honoured {
    claims: Claims,
    /// Whether a fresh token is due although the same host answers.
    renew: bool,
}

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestPlan<'a> {
    /// A header to change before the backend sees it.
    pub edit: Option<HeaderEdit<'a>>,
    /// Where the request is to go; `None`: wherever load balancing sends it.
    pub steering: Option<Steering>,
    /// What happened to the token.
    pub outcome: RequestOutcome,
}

/// A change of one header.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderEdit<'a> {
    /// Takes every field of this name away.
    Remove(&'a str),
    /// Puts one field in place of every field of this name.
    Set(&'a str, Vec<u8>),
    /// Puts one field behind those of this name.
    Add(&'a str, Vec<u8>),
}

/// Where a request is to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steering {
    /// The backend.
    pub host: SocketAddr,
    /// Whether the request fails where that is not possible. It must not be retried then: Envoy's retries ignore an
    /// override host.
    pub strict: bool,
}

/// What to do with a response.
#[derive(Debug, PartialEq, Eq)]
pub struct ResponsePlan<'a> {
    /// A status to put in place of Envoy's.
    pub status: Option<u16>,
    /// Headers to change, in this order.
    pub edits: Vec<HeaderEdit<'a>>,
    /// What the response does for the session.
    pub outcome: ResponseOutcome,
}

impl ResponsePlan<'_> {
    /// Leaves the response as it is.
    const NOTHING: Self = Self {
        status: None,
        edits: Vec::new(),
        outcome: ResponseOutcome::Unchanged,
    };
}

impl Session {
    pub(crate) fn new(bound: Arc<BoundPolicy>) -> Self {
        Self {
            bound,
            honoured: None,
            https: false,
        }
    }

    /// The name of the session's policy.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.bound.policy.name
    }

    /// Whether a request of this session fails where its backend cannot be had.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.bound.policy.strict
    }

    /// Reads the request's tokens, and decides where it goes.
    ///
    /// # Errors
    /// The proxy did not answer.
    pub fn on_request<'a>(
        &'a mut self,
        request: &impl RequestView,
        now: Timestamp,
    ) -> Result<RequestPlan<'a>, ViewError> {
        let (verdict, edit) = match &self.bound.policy.carrier {
            Carrier::Cookie { cookie, forward } => {
                let field = request.header("cookie")?;
                match field.as_deref().and_then(|field| cookie::find(field, &cookie.name)) {
                    None => (Err(RequestOutcome::NoToken), None),
                    Some(found) => {
                        let verdict = self.bound.first_alive(found.candidates.into_iter(), now);
                        let edit = match found.remaining {
                            _ if *forward => None,
                            rest if rest.is_empty() => Some(HeaderEdit::Remove("cookie")),
                            rest => Some(HeaderEdit::Set("cookie", rest)),
                        };
                        (verdict, edit)
                    }
                }
            }
            Carrier::Header { name, forward } => match request.header(name)? {
                None => (Err(RequestOutcome::NoToken), None),
                Some(field) => {
                    let verdict = self.bound.first_alive(header::candidates(&field), now);
                    (verdict, (!forward).then_some(HeaderEdit::Remove(name.as_str())))
                }
            },
        };
        let verdict = match verdict {
            Ok(honoured) => self.bound.check_destination(honoured, request)?,
            refused => refused,
        };
        let (honoured, outcome) = match verdict {
            Ok(honoured) => (Some(honoured), RequestOutcome::Steered),
            Err(outcome) => (None, outcome),
        };
        self.honoured = honoured;
        self.https = self.bound.is_https(request)?;
        Ok(RequestPlan {
            edit,
            steering: honoured.map(|honoured| Steering {
                host: honoured.claims.host,
                strict: self.bound.policy.strict,
            }),
            outcome,
        })
    }

    /// Gives the client a token where one is due. In the steady state none is, so the time is asked for only then.
    ///
    /// # Errors
    /// The proxy did not answer.
    pub fn on_response<'a>(
        &'a self,
        response: &impl ResponseView,
        now: impl FnOnce() -> Result<Timestamp, ViewError>,
    ) -> Result<ResponsePlan<'a>, ViewError> {
        let policy = &*self.bound.policy;
        let due = match self.honoured {
            None => true,
            Some(honoured) => honoured.renew || response.maybe_other_host(policy.strict)?,
        };
        let own_status = policy.strict && self.honoured.is_some() && policy.strict_status != 503;
        if !due && !own_status {
            return Ok(ResponsePlan::NOTHING);
        }
        let details = response.code_details()?.unwrap_or_default();
        if own_status && details.starts_with(NO_HEALTHY_UPSTREAM) {
            return Ok(ResponsePlan {
                status: Some(policy.strict_status),
                ..ResponsePlan::NOTHING
            });
        }
        // Local replies may carry the address of a host that refused or timed out.
        if !due || details != VIA_UPSTREAM {
            return Ok(ResponsePlan::NOTHING);
        }
        let Some(host) = response.upstream_address()? else {
            return Ok(ResponsePlan {
                outcome: ResponseOutcome::Unaddressable,
                ..ResponsePlan::NOTHING
            });
        };
        let now = now()?;
        let destination = Destination::of_cluster(&response.cluster_name()?.unwrap_or_default());
        let (claims, outcome) = match self.honoured {
            Some(honoured) if honoured.claims.host == host => {
                if !honoured.renew {
                    return Ok(ResponsePlan::NOTHING);
                }
                (honoured.renewed(destination, now), ResponseOutcome::Renewed)
            }
            Some(_) => (Self::begun(host, destination, now), ResponseOutcome::Reissued),
            None => (Self::begun(host, destination, now), ResponseOutcome::Issued),
        };
        let token = self.bound.realm.seal(policy.form, &claims, response.nonce()?);
        let edits = match &policy.carrier {
            Carrier::Header { name, .. } => vec![HeaderEdit::Set(name.as_str(), token.into_bytes())],
            Carrier::Cookie { cookie, .. } => self.cookie_edits(cookie, &token, &claims, response, now)?,
        };
        Ok(ResponsePlan {
            status: None,
            edits,
            outcome,
        })
    }

    /// A session that begins now, on `host`.
    fn begun(host: SocketAddr, destination: Destination, now: Timestamp) -> Claims {
        Claims {
            host,
            destination,
            issued_at: now,
            last_seen: now,
        }
    }

    fn cookie_edits(
        &self,
        cookie: &SessionCookie,
        token: &str,
        claims: &Claims,
        response: &impl ResponseView,
        now: Timestamp,
    ) -> Result<Vec<HeaderEdit<'static>>, ViewError> {
        let set_cookie = cookie.set_cookie(token, claims.issued_at, now, self.https);
        let mut edits = vec![HeaderEdit::Add("set-cookie", set_cookie.into_bytes())];
        if !self.bound.policy.keep_cache_control {
            let field = response.header("cache-control")?;
            let has_expires = response.header("expires")?.is_some();
            if let Some(value) = cache_control::made_private(response.status()?, field.as_deref(), has_expires) {
                edits.push(HeaderEdit::Set("cache-control", value));
            }
        }
        Ok(edits)
    }
}

impl Honoured {
    /// The session goes on: last seen never goes back, and the beginning stays, so that renewal never extends the
    /// absolute timeout.
    fn renewed(self, destination: Destination, now: Timestamp) -> Claims {
        Claims {
            destination,
            last_seen: self.claims.last_seen.max(now),
            ..self.claims
        }
    }
}

impl BoundPolicy {
    /// The first candidate that is alive; else why the first one is not, or that there was none.
    fn first_alive<'c>(
        &self,
        candidates: impl Iterator<Item = &'c [u8]>,
        now: Timestamp,
    ) -> Result<Honoured, RequestOutcome> {
        let mut verdict = Err(RequestOutcome::NoToken);
        for candidate in candidates {
            match self.realm.open(candidate).and_then(|opened| self.check(opened, now)) {
                Ok(honoured) => return Ok(honoured),
                Err(refusal) if verdict.is_err_and(|outcome| outcome == RequestOutcome::NoToken) => {
                    verdict = Err(RequestOutcome::Refused(refusal));
                }
                Err(_) => {}
            }
        }
        verdict
    }

    /// Whether the session of a verified token is still alive.
    fn check(&self, Opened { claims, key_retiring }: Opened, now: Timestamp) -> Result<Honoured, Refusal> {
        let absolute_timeout = self.policy.absolute_timeout;
        if absolute_timeout.is_some_and(|timeout| now.since(claims.issued_at) >= timeout) {
            return Err(Refusal::Expired);
        }
        // A token is renewed once it lags behind by more than a tenth of the bound. So a session that was used less than
        // the bound ago has a token younger than 1.1 times the bound, and one that was not has an older one.
        let idle = now.since(claims.last_seen);
        let (too_idle, lagging) = match self.policy.idle_bound {
            None => (false, false),
            Some(bound) => (idle > bound + lag(bound), idle > lag(bound)),
        };
        if too_idle {
            return Err(Refusal::Idle);
        }
        let horizon = now.after(self.limits.clock_skew);
        if claims.issued_at > horizon || claims.last_seen > horizon {
            return Err(Refusal::FromTheFuture);
        }
        if self.limits.fences.refuse(claims.host, claims.issued_at) {
            return Err(Refusal::Fenced);
        }
        Ok(Honoured {
            claims,
            renew: lagging || key_retiring,
        })
    }

    /// A strict session whose cluster the route no longer leads to would fail until it expires, so it ends.
    fn check_destination(
        &self,
        honoured: Honoured,
        request: &impl RequestView,
    ) -> Result<Result<Honoured, RequestOutcome>, ViewError> {
        if !self.policy.strict {
            return Ok(Ok(honoured));
        }
        let cluster = request.cluster_name()?.unwrap_or_default();
        let leads_there = Destination::of_cluster(&cluster) == honoured.claims.destination;
        Ok(if leads_there {
            Ok(honoured)
        } else {
            Err(RequestOutcome::Refused(Refusal::UnknownDestination))
        })
    }

    /// Whether the request came over HTTPS; not asked where the cookie does not depend on it.
    fn is_https(&self, request: &impl RequestView) -> Result<bool, ViewError> {
        match &self.policy.carrier {
            Carrier::Cookie { cookie, .. } if cookie.secure == Secure::Auto => {
                let scheme = request.header(":scheme")?.unwrap_or_default();
                Ok(scheme.eq_ignore_ascii_case(b"https"))
            }
            _ => Ok(false),
        }
    }
}

/// How far a token's last seen may lag behind.
fn lag(idle_bound: Duration) -> Duration {
    idle_bound / 10
}
