//! A session, through one request and its response.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::bound::{BoundPolicy, Honoured};
use crate::cache_control;
use crate::carrier::cookie;
use crate::carrier::header;
use crate::config::Carrier;
use crate::outcome::{RequestOutcome, ResponseOutcome};
use crate::time::Timestamp;
use crate::token::{Claims, Destination};
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

    /// The place of the session's policy in [`crate::Filter::policies`].
    #[must_use]
    pub fn policy_index(&self) -> usize {
        self.bound.policy.index
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
        let Some(host) = response.upstream_address()?.filter(is_addressable) else {
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
        let carried = match &policy.carrier {
            Carrier::Header { name, .. } => HeaderEdit::Set(name.as_str(), token.into_bytes()),
            Carrier::Cookie { cookie, .. } => {
                let set_cookie = cookie.set_cookie(&token, claims.issued_at, now, self.https);
                HeaderEdit::Add("set-cookie", set_cookie.into_bytes())
            }
        };
        let mut edits = vec![carried];
        edits.extend(self.cache_control(response)?);
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

    /// Keeps a response that carries a token out of shared caches, where the policy does not say otherwise.
    fn cache_control(&self, response: &impl ResponseView) -> Result<Option<HeaderEdit<'static>>, ViewError> {
        if self.bound.policy.keep_cache_control {
            return Ok(None);
        }
        let field = response.header("cache-control")?;
        let has_expires = response.header("expires")?.is_some();
        let private = cache_control::made_private(response.status()?, field.as_deref(), has_expires);
        Ok(private.map(|value| HeaderEdit::Set("cache-control", value)))
    }
}

/// Whether a token can name the host: one with an IPv6 zone means something else on every machine, and Envoy would not find it.
fn is_addressable(host: &SocketAddr) -> bool {
    match host {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(host) => host.scope_id() == 0,
    }
}
