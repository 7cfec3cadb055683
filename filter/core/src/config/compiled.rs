//! A configuration that passed all checks, prepared for sessions.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::Hosts;
use crate::carrier::cookie::SessionCookie;
use crate::config::schema::ReportSessionsConfig;
use crate::moves::Moves;
use crate::name_watch::NameWatch;
use crate::source::{Rules, SharedTable, Table};
use crate::time::Timestamp;
use crate::token::{CarrierMode, Form};

/// A valid configuration.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) policies: BTreeMap<String, Arc<Policy>>,
    /// The entries of each route name, those with a virtual host first.
    pub(crate) routes: HashMap<String, Vec<Route>>,
    pub(crate) default: Option<PolicyUse>,
    pub(crate) access_log: bool,
    pub(crate) report_sessions: Option<ReportSessionsConfig>,
    pub(crate) clock_skew: Duration,
    pub(crate) fences: Fences,
    pub(crate) hosts: Hosts,
}

/// A valid policy.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) name: String,
    /// The index among the policies, sorted by name.
    pub(crate) index: usize,
    pub(crate) carrier: Carrier,
    /// Where else tokens are accepted, in this order.
    pub(crate) also: Vec<Further>,
    /// The response header that has every issued token, in lower case.
    pub(crate) tell: Option<String>,
    pub(crate) begin: Begin,
    pub(crate) end: Option<End>,
    /// Whether the application moves sessions, and how.
    pub(crate) moves: Option<Moves>,
    pub(crate) rebalance: Option<Rebalance>,
    pub(crate) strict: bool,
    pub(crate) strict_status: u16,
    pub(crate) absolute_timeout: Option<Duration>,
    pub(crate) idle_bound: Option<IdleBound>,
    pub(crate) former_lags: Vec<FormerLag>,
    pub(crate) form: Form,
    pub(crate) keep_cache_control: bool,
    pub(crate) name_watch: NameWatch,
}

impl Policy {
    /// Whether a token that a response issues gets to its client. `redirect`: the response is a redirect that gets it.
    pub(crate) fn reaches_clients(&self, redirect: bool) -> bool {
        redirect || self.tell.is_some() || !matches!(self.carrier, Carrier::Query { .. })
    }

    /// Whether a request that Envoy begins again may have tokens, although they were taken out of its first form.
    pub(crate) fn has_several_carriers(&self) -> bool {
        !self.also.is_empty() || matches!(self.carrier, Carrier::Query { .. })
    }
}

/// What a session begins with. By default, it begins with the first response.
#[derive(Debug, Default)]
pub(crate) struct Begin {
    pub(crate) sign: Option<Sign>,
    /// The methods of requests whose responses begin sessions; empty: all.
    pub(crate) methods: Vec<String>,
}

/// What the application says in a response that begins or ends a session.
#[derive(Debug)]
pub(crate) enum Sign {
    Cookie(String),
    /// In lower case.
    Header(String),
}

/// What a session ends with: a cookie that the application deletes, or a header that it sets.
#[derive(Debug)]
pub(crate) struct End(pub(crate) Sign);

/// The carrier of a policy's tokens. Header names are in lower case.
#[derive(Debug)]
pub(crate) enum Carrier {
    /// The filter's own cookie.
    Cookie {
        name: String,
        cookie: SessionCookie,
        per_scope: bool,
        forward: bool,
    },
    /// In front of the value of the application's cookie.
    CookiePrefix { name: String },
    /// In place of the value of the application's cookie.
    CookieRewrite { name: String },
    /// The filter's own header.
    Header { name: String, forward: bool },
    /// In front of the value of the application's header.
    HeaderPrefix { name: String },
    /// The filter's own parameter of the query.
    Query {
        parameter: Further,
        /// Whether redirects to the same host get the token.
        redirects: bool,
    },
    /// None: there are no tokens, and the client's address holds the session.
    Source(Source),
}

/// A place of a request where the filter's own tokens are accepted. Nothing is issued there.
#[derive(Debug)]
pub(crate) struct Further {
    pub(crate) place: Place,
    /// The name of a header is in lower case.
    pub(crate) name: String,
    /// Whether the backend sees it.
    pub(crate) forward: bool,
    /// Whether sessions had it as their own carrier, to which their tokens are bound.
    pub(crate) is_former: bool,
}

impl Further {
    /// What the tokens of sessions that have it as their own carrier are bound to.
    pub(crate) fn mode(&self) -> CarrierMode {
        match self.place {
            Place::Cookie => CarrierMode::Cookie,
            Place::Header => CarrierMode::Header,
            Place::Query => CarrierMode::Query,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Cookie,
    Header,
    Query,
}

/// The table of a policy.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) rules: Rules,
    table: OnceLock<Arc<dyn Table>>,
}

impl Source {
    pub(crate) fn new(rules: Rules) -> Self {
        Self {
            rules,
            table: OnceLock::new(),
        }
    }

    /// Says where the table is, unless it is known.
    pub(crate) fn keep(&self, table: impl FnOnce() -> Arc<dyn Table>) {
        self.table.get_or_init(table);
    }

    pub(crate) fn table(&self) -> &dyn Table {
        &**self.table.get_or_init(|| Arc::new(SharedTable::new(&self.rules)))
    }
}

impl Carrier {
    /// The mode that tokens are bound to; `None` without tokens.
    pub(crate) fn mode(&self) -> Option<CarrierMode> {
        match self {
            Self::Cookie { .. } => Some(CarrierMode::Cookie),
            Self::CookiePrefix { .. } => Some(CarrierMode::CookiePrefix),
            Self::CookieRewrite { .. } => Some(CarrierMode::CookieRewrite),
            Self::Header { .. } => Some(CarrierMode::Header),
            Self::HeaderPrefix { .. } => Some(CarrierMode::HeaderPrefix),
            Self::Query { .. } => Some(CarrierMode::Query),
            Self::Source(_) => None,
        }
    }

    /// The table of clients; `None` if there are tokens.
    pub(crate) fn source(&self) -> Option<&Source> {
        match self {
            Self::Source(source) => Some(source),
            _ => None,
        }
    }

    /// The name of the session; empty without tokens.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Cookie { name, .. }
            | Self::CookiePrefix { name }
            | Self::CookieRewrite { name }
            | Self::Header { name, .. }
            | Self::HeaderPrefix { name } => name,
            Self::Query { parameter, .. } => &parameter.name,
            Self::Source(_) => "",
        }
    }

    /// Where the token is in a request; `None` without tokens.
    pub(crate) fn place(&self) -> Option<Place> {
        match self {
            Self::Cookie { .. } | Self::CookiePrefix { .. } | Self::CookieRewrite { .. } => Some(Place::Cookie),
            Self::Header { .. } | Self::HeaderPrefix { .. } => Some(Place::Header),
            Self::Query { .. } => Some(Place::Query),
            Self::Source(_) => None,
        }
    }

    /// Whether the carrier is the filter's own, so that a token can be renewed at any time. Otherwise it is the
    /// application's, and a token is sent only when the application sets its cookie or header.
    pub(crate) fn is_own(&self) -> bool {
        matches!(self, Self::Cookie { .. } | Self::Header { .. } | Self::Query { .. })
    }
}

/// How long a token is honoured after its session was last seen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IdleBound {
    pub(crate) bound: Duration,
    /// How far `last_seen` of a token may lag behind the last use of its session. A token that lags further is renewed,
    /// so a token that was last seen more than `bound + lag` ago belongs to a session that was unused for `bound`.
    pub(crate) lag: Duration,
}

impl IdleBound {
    /// `is_renewable`: whether tokens are renewed, so that they lag.
    pub(super) fn new(bound: Duration, is_renewable: bool) -> Self {
        let lag = if is_renewable { bound / 10 } else { Duration::ZERO };
        Self { bound, lag }
    }
}

/// How old tokens of sessions in use may be, because they were issued under a longer idle timeout.
#[derive(Debug)]
pub(crate) struct FormerLag {
    pub(super) namespace: Option<Box<str>>,
    pub(crate) lag: Duration,
    pub(crate) until: Timestamp,
}

impl FormerLag {
    /// Whether it applies to scopes of this namespace.
    pub(crate) fn is_of(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }
}

/// Which sessions may restart on another backend.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rebalance {
    /// Sessions whose tokens were not seen for so long: what the policy asks for, and what `last_seen` may lag behind
    /// ([`IdleBound::lag`]). So none of their clients was there since.
    pub(crate) unseen: Duration,
}

/// A policy, and the scope if the configuration gives one.
#[derive(Debug)]
pub(crate) struct PolicyUse {
    pub(crate) policy: Arc<Policy>,
    pub(crate) scope: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) virtual_host: Option<String>,
    pub(crate) used: PolicyUse,
    /// Whether each cluster of the route has sessions of its own.
    pub(crate) per_cluster: bool,
}

/// Addresses that have a new owner, and since when.
#[derive(Debug, Default)]
pub(crate) struct Fences(pub(super) HashMap<IpAddr, Vec<Fence>>);

#[derive(Debug)]
pub(crate) struct Fence {
    pub(super) port: Option<u16>,
    pub(super) namespace: Option<Box<str>>,
    pub(super) not_before: Timestamp,
}

impl Fences {
    /// Whether a session on `host` that started at `issued_at` belongs to a former owner of the address. `namespace`
    /// comes from the session's scope.
    pub(crate) fn refuse(&self, namespace: Option<&str>, host: SocketAddr, issued_at: Timestamp) -> bool {
        // Without fences, which is the usual case, do not hash the address.
        !self.0.is_empty()
            && self.0.get(&host.ip()).is_some_and(|fences| {
                fences.iter().any(|fence| {
                    issued_at < fence.not_before
                        && fence.port.is_none_or(|port| port == host.port())
                        && (fence.namespace.is_none() || fence.namespace.as_deref() == namespace)
                })
            })
    }
}
