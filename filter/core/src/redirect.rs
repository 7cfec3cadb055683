//! Internal redirects: Envoy begins the request again, with the headers as the filter left them. The removed tokens are
//! remembered for some seconds.
//!
//! Not in filter state: a dynamic module's ends with the first request, a wasm filter's costs a host call per request,
//! and tokens could get into access logs. Envoy restarts only requests without a response, at once, so a few are
//! enough.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use memchr::memchr;
use sha2::{Digest as _, Sha256};

use crate::time::Timestamp;
use crate::token::{self, MAX_TOKENS};

/// Bytes of an id that is kept as it is. Envoy's have 36; longer ones of clients could fill the memory.
const MAX_REQUEST_ID: usize = 64;

/// Requests remembered: other filters may delay a restarted one while others end.
const CAPACITY: usize = 256;

/// How long requests are remembered. Most are never restarted.
const LIFE: Duration = Duration::from_secs(10);

/// An adapter's tokens of requests that ended without a response.
#[derive(Debug, Default)]
pub struct UnansweredRequests(Mutex<VecDeque<(Timestamp, RemovedTokens)>>);

#[derive(Default)]
pub(crate) struct RemovedTokens {
    request_id: RequestId,
    pub(crate) tokens: TokenList,
}

/// Tokens, separated by commas. One token takes no allocation.
#[derive(Default)]
pub(crate) struct TokenList {
    first: InlineBytes<{ token::MAX_TEXT_LEN }>,
    /// All tokens, if there are several.
    all: Vec<u8>,
}

#[derive(PartialEq, Eq)]
struct InlineBytes<const MAX: usize> {
    bytes: [u8; MAX],
    len: usize,
}

impl fmt::Debug for RemovedTokens {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Taken")
    }
}

impl UnansweredRequests {
    /// Without any requests.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// Remembers the tokens of a request with an id.
    pub(crate) fn remember(&self, taken: RemovedTokens, now: Timestamp) {
        let mut list = self.list(now);
        if list.len() >= CAPACITY {
            list.pop_front();
        }
        list.push_back((now, taken));
    }

    /// Takes the tokens of the last request of this id.
    pub(crate) fn remove(&self, request_id: &[u8], now: Timestamp) -> Option<RemovedTokens> {
        let request_id = RequestId::new(request_id);
        let mut list = self.list(now);
        let position = list.iter().rposition(|(_, taken)| taken.request_id == request_id)?;
        list.remove(position).map(|(_, taken)| taken)
    }

    /// The requests remembered at this time. A clock set far back forgets all.
    fn list(&self, now: Timestamp) -> MutexGuard<'_, VecDeque<(Timestamp, RemovedTokens)>> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|(at, _)| now.since(*at).max(at.since(now)) < LIFE);
        list
    }
}

impl RemovedTokens {
    pub(crate) fn name(&mut self, request_id: &[u8]) {
        self.request_id = RequestId::new(request_id);
    }

    pub(crate) fn is_worth_remembering(&self) -> bool {
        !self.request_id.is_empty() && !self.tokens.is_empty()
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = &[u8]> {
        self.tokens.text().split(|byte| *byte == b',')
    }
}

impl TokenList {
    /// Adds a possible token, up to the number that is examined.
    pub(crate) fn add(&mut self, token: &[u8]) {
        let Some(short) = InlineBytes::new(token).filter(|_| memchr(b',', token).is_none()) else {
            return;
        };
        if self.is_empty() {
            self.first = short;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(self.first.get());
        }
        if self.all.len() + token.len() < MAX_TOKENS * (token::MAX_TEXT_LEN + 1) {
            self.all.push(b',');
            self.all.extend_from_slice(token);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    fn text(&self) -> &[u8] {
        if self.all.is_empty() {
            self.first.get()
        } else {
            &self.all
        }
    }
}

impl<const MAX: usize> InlineBytes<MAX> {
    fn new(bytes: &[u8]) -> Option<Self> {
        let mut short = Self::default();
        short.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        short.len = bytes.len();
        Some(short)
    }

    fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl<const MAX: usize> Default for InlineBytes<MAX> {
    fn default() -> Self {
        let bytes = [0; MAX];
        Self { bytes, len: 0 }
    }
}

/// The id of a request, or the digest of a long one.
#[derive(PartialEq, Eq)]
enum RequestId {
    Short(InlineBytes<MAX_REQUEST_ID>),
    Digest([u8; 32]),
}

impl RequestId {
    fn new(id: &[u8]) -> Self {
        match InlineBytes::new(id) {
            Some(short) => Self::Short(short),
            None => Self::Digest(Sha256::digest(id).into()),
        }
    }

    fn is_empty(&self) -> bool {
        matches!(self, Self::Short(id) if id.get().is_empty())
    }
}

impl Default for RequestId {
    fn default() -> Self {
        Self::Short(InlineBytes::default())
    }
}
