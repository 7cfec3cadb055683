//! What is to be done with a request and its response.

use std::net::{IpAddr, SocketAddr};

use crate::census::{Left, Seen};
use crate::keyring::KeyId;
use crate::outcome::{RequestOutcome, ResponseOutcome};

/// What to do with a request.
#[derive(Debug, PartialEq, Eq)]
pub struct RequestPlan<'a> {
    /// The change of a header before the backend sees it.
    pub edit: Option<HeaderEdit<'a>>,
    /// The changes of other headers, for policies with further carriers.
    pub further_edits: Vec<HeaderEdit<'a>>,
    /// The backend to send the request to; `None` leaves the choice to load balancing.
    pub steering: Option<Steering>,
    /// What became of the token; `None` if only the response tells.
    pub outcome: Option<RequestOutcome>,
    /// What load balancing hashes in the place of the client's address.
    pub hash: Option<IpAddr>,
}

/// A change of one header.
#[derive(Debug, PartialEq, Eq)]
pub enum HeaderEdit<'a> {
    /// Removes every field of this name.
    Remove(&'a str),
    /// Replaces every field of this name by one field.
    Set(&'a str, Vec<u8>),
    /// Adds a field. Others of its name stay.
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
    /// The address of the backend.
    pub host: SocketAddr,
    /// Whether the request fails if the backend is not available.
    pub strict: bool,
}

/// What to do with a response.
#[derive(Debug, PartialEq, Eq)]
pub struct ResponsePlan<'a> {
    /// What became of the token of the request, if [`RequestPlan::outcome`] did not tell.
    pub request: Option<RequestOutcome>,
    /// A status that replaces Envoy's.
    pub status: Option<u16>,
    /// Changes of headers, to be made in this order.
    pub edits: Vec<HeaderEdit<'a>>,
    /// What the response does to the session.
    pub outcome: ResponseOutcome,
    /// A token of another key than the one that the client has.
    pub key_change: Option<KeyChange>,
    /// The application's own cookie or header of the session's name, which the edits remove.
    pub name_conflict: Option<NameConflict>,
    /// Whether the session of another client had to go from a full table.
    pub evicted: bool,
    /// A move of the session by the application that did not come about.
    pub refused_move: Option<RefusedMove>,
    /// A backend answered a session, for the adapter's [`Census`](crate::census::Census); `None` if it is not counted.
    pub seen: Option<Seen>,
    /// A session did not go on where it was, for the census too.
    pub left: Option<Left>,
}

/// A client gets a token of a key that it had none of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyChange {
    /// The key of the token that the client came with, if that is one of the keyring. A revoked key is the one that the
    /// token names: nothing can verify it.
    pub from: Option<KeyId>,
    /// The key of the new token.
    pub to: KeyId,
}

/// The application set a cookie or header of the session's name.
#[derive(Debug, PartialEq, Eq)]
pub struct NameConflict {
    /// A line for the log, with the first conflict of a policy.
    pub line: Option<String>,
}

/// The application moved a session to what is no backend of its cluster.
#[derive(Debug, PartialEq, Eq)]
pub struct RefusedMove {
    /// A line for the log, with the first one of a policy.
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
        seen: None,
        left: None,
    };
}
