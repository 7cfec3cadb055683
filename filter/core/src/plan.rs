use std::net::{IpAddr, SocketAddr};

use crate::census::{ObservedSession, SessionDeparture};
use crate::keyring::KeyId;
use crate::outcome::{RequestOutcome, ResponseOutcome};

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestPlan<'a> {
    /// The change of the carrier's header for the backend.
    pub edit: Option<HeaderEdit<'a>>,
    /// Changes of further carriers' headers.
    pub further_edits: Vec<HeaderEdit<'a>>,
    /// The backend; `None` leaves it to load balancing.
    pub steering: Option<Steering>,
    /// The token's fate; `None` if only the response tells.
    pub outcome: Option<RequestOutcome>,
    /// What load balancing hashes instead of the client's address.
    pub hash: Option<IpAddr>,
}

/// A change of one header.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderEdit<'a> {
    /// Removes every field of this name.
    Remove(&'a str),
    /// Replaces every field of this name.
    Set(&'a str, Vec<u8>),
    /// Adds a field.
    Add(&'a str, Vec<u8>),
}

impl HeaderEdit<'_> {
    /// The name of the header.
    #[must_use]
    pub fn name(&self) -> &str {
        let (Self::Remove(name) | Self::Set(name, _) | Self::Add(name, _)) = self;
        name
    }
}

/// The backend that a request is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steering {
    /// The backend's address.
    pub host: SocketAddr,
    /// Whether the request fails without it.
    pub strict: bool,
}

/// What to do with a response.
#[derive(Debug, PartialEq, Eq)]
pub struct ResponsePlan<'a> {
    /// The token's fate, if [`RequestPlan::outcome`] was open.
    pub request: Option<RequestOutcome>,
    /// A status that replaces Envoy's.
    pub status: Option<u16>,
    /// Changes of headers, in order.
    pub edits: Vec<HeaderEdit<'a>>,
    /// What the response does to the session.
    pub outcome: ResponseOutcome,
    /// The client gets a token of another key.
    pub key_change: Option<KeyChange>,
    /// The application's own cookie or header of the session's name.
    pub name_conflict: Option<NameConflict>,
    /// Whether another client's session was removed from a full table.
    pub evicted: bool,
    /// A refused move by the application.
    pub refused_move: Option<RefusedMove>,
    /// A session that a backend answered, for the [`Census`](crate::census::Census).
    pub observed: Option<ObservedSession>,
    /// The same for a session that left.
    pub departed: Option<SessionDeparture>,
}

/// A client gets a token of another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyChange {
    /// The key that verified the client's token, or the revoked one that it names.
    pub from: Option<KeyId>,
    /// The key of the new token.
    pub to: KeyId,
}

/// The application set a cookie or header of the session's name.
#[derive(Debug, PartialEq, Eq)]
pub struct NameConflict {
    /// A line for the log, for a policy's first.
    pub line: Option<String>,
}

/// A refused move by the application.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusedMove {
    /// A line for the log, for a policy's first.
    pub line: Option<String>,
}

impl ResponsePlan<'_> {
    pub(crate) const NO_CHANGE: Self = Self {
        request: None,
        status: None,
        edits: Vec::new(),
        outcome: ResponseOutcome::Unchanged,
        key_change: None,
        name_conflict: None,
        evicted: false,
        refused_move: None,
        observed: None,
        departed: None,
    };
}
