//! Internal redirects: Envoy follows a redirect itself and begins the request again, with the headers as the filter
//! left them. The tokens that the filter took out of them are remembered for some seconds, unless 256 others come.
//!
//! Envoy's own place for this would be filter state. But that of a dynamic module ends with the first request, and that
//! of a wasm filter would cost every request a host call, and tokens could get into access logs. A request that ends
//! without a response is the only one that Envoy may begin again, and it does so at once, so a few of them are enough.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::time::Timestamp;

/// The longest request id that is kept as it is. Envoy's own have 36 bytes; longer ones come from clients, which could
/// fill the memory.
const MAX_REQUEST_ID: usize = 64;

/// How many requests are remembered. Other filters may delay a request that begins again while others end.
const CAPACITY: usize = 256;

/// How long they are remembered. Most requests that end without a response do not begin again.
const LIFE: Duration = Duration::from_secs(10);

/// The tokens of requests that ended without a response. An adapter has one for all its requests.
#[derive(Debug, Default)]
pub struct Unanswered(Mutex<VecDeque<(Timestamp, Taken)>>);

/// The tokens that the filter took out of a request, separated by commas.
pub(crate) struct Taken {
    request_id: RequestId,
    tokens: Box<[u8]>,
}

impl fmt::Debug for Taken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Taken")
    }
}

impl Unanswered {
    /// Without any requests.
    #[must_use]
    pub const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// Remembers the tokens of a request that has ended without a response.
    pub(crate) fn remember(&self, taken: Taken, now: Timestamp) {
        let mut list = self.list(now);
        if list.len() >= CAPACITY {
            list.pop_front();
        }
        list.push_back((now, taken));
    }

    /// The tokens of the last request of this id, which are then forgotten.
    pub(crate) fn take(&self, request_id: &[u8], now: Timestamp) -> Option<Taken> {
        let request_id = RequestId::new(request_id);
        let mut list = self.list(now);
        let position = list.iter().rposition(|(_, taken)| taken.request_id == request_id)?;
        list.remove(position).map(|(_, taken)| taken)
    }

    /// What is remembered at this time. A clock that was set far back forgets all.
    fn list(&self, now: Timestamp) -> MutexGuard<'_, VecDeque<(Timestamp, Taken)>> {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|(at, _)| now.since(*at).max(at.since(now)) < LIFE);
        list
    }
}

impl Taken {
    /// What to remember of the request of this id; `None` if nothing was taken out of it, or the id is none.
    pub(crate) fn new(request_id: &[u8], tokens: Vec<u8>) -> Option<Self> {
        (!request_id.is_empty() && !tokens.is_empty()).then(|| Self {
            request_id: RequestId::new(request_id),
            tokens: tokens.into(),
        })
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = &[u8]> {
        self.tokens.split(|byte| *byte == b',')
    }
}

/// The id of a request, or the digest of a long one.
#[derive(PartialEq, Eq)]
enum RequestId {
    Short(Box<[u8]>),
    Digest([u8; 32]),
}

impl RequestId {
    fn new(id: &[u8]) -> Self {
        if id.len() <= MAX_REQUEST_ID {
            Self::Short(id.into())
        } else {
            Self::Digest(Sha256::digest(id).into())
        }
    }
}
