//! Which token of a request counts: of all that are honoured, the one whose session began last.
//!
//! A browser keeps the cookie of a former path, domain or partition beside the new one, and sends both. Their order
//! says nothing about their age (RFC 6265 section 5.4).

use std::cmp::Reverse;

use crate::keyring::KeyId;
use crate::outcome::RequestOutcome;
use crate::time::Timestamp;
use crate::token::{Claims, Destination, MAX_TOKENS, Refusal};

/// Where a token was found. Of tokens of the same age, the one that is found in the first of these places counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Found {
    /// In the policy's own carrier.
    Own,
    /// In the policy's own cookie, under the name that it had before.
    UnderFormerName,
    /// In the further carrier at this index, which was the policy's own.
    Former(usize, UnderName),
    /// In a further carrier.
    Further,
    /// In the request that Envoy began again, in any carrier.
    BeforeRedirect,
}

/// The name of a cookie of the policy's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum UnderName {
    Plain,
    /// With the scope (`perScope`).
    OfScope,
}

/// A token that the policy honours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Honoured {
    pub(crate) claims: Claims,
    /// The nonce of the session.
    pub(crate) nonce: [u8; 4],
    /// The key of the token.
    pub(crate) key: KeyId,
    /// Whether the client needs a new token even if the same host answers.
    pub(crate) renew: bool,
    pub(crate) found: Found,
}

/// Why no token of a request is honoured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NotHonoured {
    pub(crate) outcome: RequestOutcome,
    /// The key of the token: one of the keyring that verified it, or a revoked one that it names.
    pub(crate) key: Option<KeyId>,
}

impl NotHonoured {
    pub(crate) const NO_TOKEN: Self = Self {
        outcome: RequestOutcome::NoToken,
        key: None,
    };

    /// The first refusal of two.
    pub(crate) fn or(self, other: Self) -> Self {
        if self.outcome == RequestOutcome::NoToken {
            other
        } else {
            self
        }
    }
}

/// What came of the tokens of a request.
#[derive(Debug)]
pub(crate) struct Newest {
    /// The token that counts, or why the first one is refused.
    verdict: Result<Honoured, NotHonoured>,
    /// The other honoured ones, in no order. Nearly always none.
    older: Vec<Honoured>,
    /// How many tokens were examined.
    examined: usize,
}

impl Newest {
    pub(crate) const NO_TOKEN: Self = Self {
        verdict: Err(NotHonoured::NO_TOKEN),
        older: Vec::new(),
        examined: 0,
    };

    /// Takes a token into account, unless so many came before it that it is not to be verified. Any text that does not
    /// have the form of a token costs next to nothing.
    pub(crate) fn add(&mut self, open: impl FnOnce() -> Result<Honoured, NotHonoured>) {
        if self.examined >= MAX_TOKENS {
            return;
        }
        let opened = open();
        if !opened.is_err_and(|why| why.outcome == RequestOutcome::Refused(Refusal::Malformed)) {
            self.examined += 1;
        }
        self.verdict = match (self.verdict, opened) {
            (Err(why), Err(this)) => Err(why.or(this)),
            (Err(_), Ok(honoured)) | (Ok(honoured), Err(_)) => Ok(honoured),
            (Ok(newest), Ok(honoured)) => {
                let is_newer = age(&honoured) > age(&newest);
                let (newest, older) = if is_newer {
                    (honoured, newest)
                } else {
                    (newest, honoured)
                };
                self.older.push(older);
                Ok(newest)
            }
        };
    }

    /// Where the client still keeps its session in a carrier that the policy had before.
    pub(crate) fn former(&self) -> Option<Found> {
        let older = self.older.iter().map(|older| older.found);
        older.into_iter().find(|found| matches!(found, Found::Former(..)))
    }

    /// The token that counts, or why the first one is refused.
    pub(crate) fn verdict(&self) -> Result<Honoured, NotHonoured> {
        self.verdict.map(|newest| Honoured {
            renew: newest.renew || self.is_kept_elsewhere(&newest),
            ..newest
        })
    }

    /// Whether the client keeps this token elsewhere than in the policy's own carrier, and an older one there, which
    /// would count when this one is not sent.
    fn is_kept_elsewhere(&self, newest: &Honoured) -> bool {
        match newest.found {
            Found::Own => false,
            Found::UnderFormerName | Found::Former(..) => true,
            Found::Further | Found::BeforeRedirect => self.older.iter().any(|older| older.found != Found::Further),
        }
    }

    /// The request does not get to the destination of the token that counts. The next one counts that has another
    /// destination, if there is any.
    pub(crate) fn leads_nowhere(&mut self) -> bool {
        let Ok(newest) = self.verdict else { return false };
        self.older
            .retain(|older| older.claims.destination != newest.claims.destination);
        let Some(next) = (0..self.older.len()).max_by_key(|at| self.older.get(*at).map(age)) else {
            return false;
        };
        self.verdict = Ok(self.older.swap_remove(next));
        true
    }
}

/// What is greater counts.
fn age(honoured: &Honoured) -> impl Ord + use<> {
    (honoured.claims.age(), Reverse(honoured.found))
}

impl Honoured {
    /// The claims of a session that continues. `last_seen` never goes back, and `issued_at` stays, so a renewal does
    /// not extend the absolute timeout. The session has arrived, whatever the clock of the Envoy that moved it says.
    pub(crate) fn renewed(self, destination: Destination, now: Timestamp) -> Claims {
        Claims {
            destination,
            last_seen: self.claims.last_seen.max(now).max(self.claims.issued_at),
            ..self.claims
        }
    }
}
