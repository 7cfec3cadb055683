//! Internal redirects: Envoy follows a redirect itself and begins the request again, with the headers as the filter
//! left them. The tokens that the filter took out of them are remembered until 256 others have come.
//!
//! Envoy's own place for this would be filter state. But that of a dynamic module ends with the first request, and that
//! of a wasm filter would cost every request a host call, and tokens could get into access logs. A request that ends
//! without a response is the only one that Envoy may begin again, and it does so at once, so a few of them are enough.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The longest request id. Envoy's own have 36 bytes; longer ones come from clients, which could fill the memory.
const MAX_REQUEST_ID: usize = 64;

/// How many requests are remembered. Other filters may delay a request that begins again while others end.
const CAPACITY: usize = 256;

/// The tokens of requests that ended without a response. An adapter has one for all its requests.
#[derive(Debug, Default)]
pub struct Unanswered(Mutex<VecDeque<Taken>>);

/// The tokens that the filter took out of a request, separated by commas.
pub(crate) struct Taken {
    request_id: Box<[u8]>,
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
    pub(crate) fn remember(&self, taken: Taken) {
        let mut list = self.list();
        if list.len() >= CAPACITY {
            list.pop_front();
        }
        list.push_back(taken);
    }

    /// The tokens of the last request of this id, which are then forgotten.
    pub(crate) fn take(&self, request_id: &[u8]) -> Option<Taken> {
        let mut list = self.list();
        let position = list.iter().rposition(|taken| *taken.request_id == *request_id)?;
        list.remove(position)
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Taken {
    /// What to remember of the request of this id; `None` if nothing was taken out of it, or the id is none.
    pub(crate) fn new(request_id: &[u8], tokens: Vec<u8>) -> Option<Self> {
        let is_id = (1..=MAX_REQUEST_ID).contains(&request_id.len());
        (is_id && !tokens.is_empty()).then(|| Self {
            request_id: request_id.into(),
            tokens: tokens.into(),
        })
    }

    pub(crate) fn tokens(&self) -> impl Iterator<Item = &[u8]> {
        self.tokens.split(|byte| *byte == b',')
    }
}
