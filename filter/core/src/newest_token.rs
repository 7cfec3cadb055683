//! Which token of a request counts: of the honoured ones, the one whose session began last.
//!
//! A browser keeps the cookie of a former path, domain or partition, and sends both. Their order says nothing about
//! their age (RFC 6265 section 5.4).

use std::cmp::Reverse;

use crate::keyring::KeyId;
use crate::outcome::RequestOutcome;
use crate::time::Timestamp;
use crate::token::{Claims, DestinationId, MAX_TOKENS, TokenRefusal};

/// The places of tokens, in order of precedence among tokens of the same age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TokenOrigin {
    Own,
    /// In the policy's own cookie, under its former name.
    UnderFormerName,
    /// In the further carrier at this index, formerly the policy's own.
    Former(usize, FormerCookieName),
    Further,
    /// In the request before an internal redirect, in any carrier.
    BeforeRedirect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FormerCookieName {
    Plain,
    /// With the scope (`perScope`).
    OfScope,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptedToken {
    pub(crate) claims: Claims,
    pub(crate) nonce: [u8; 4],
    pub(crate) key: KeyId,
    /// Whether a new token is due even if the same host answers.
    pub(crate) renew: bool,
    pub(crate) origin: TokenOrigin,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct NoAcceptedToken {
    pub(crate) outcome: RequestOutcome,
    /// The key that verified the token, or the revoked one that it names.
    pub(crate) key: Option<KeyId>,
}

impl NoAcceptedToken {
    pub(crate) const NO_TOKEN: Self = Self {
        outcome: RequestOutcome::NoToken,
        key: None,
    };

    pub(crate) fn or(self, other: Self) -> Self {
        if self.outcome == RequestOutcome::NoToken {
            other
        } else {
            self
        }
    }
}

#[derive(Debug)]
pub(crate) struct NewestToken {
    /// The token that counts, or why the first one is refused.
    verdict: Result<AcceptedToken, NoAcceptedToken>,
    /// The other honoured tokens, unordered, and nearly always none.
    older: Vec<AcceptedToken>,
    examined: usize,
}

impl NewestToken {
    pub(crate) const NO_TOKEN: Self = Self {
        verdict: Err(NoAcceptedToken::NO_TOKEN),
        older: Vec::new(),
        examined: 0,
    };

    /// Takes a token into account, up to [`MAX_TOKENS`]. A text without the form of a token costs next to nothing.
    pub(crate) fn add(&mut self, open: impl FnOnce() -> Result<AcceptedToken, NoAcceptedToken>) {
        if self.examined >= MAX_TOKENS {
            return;
        }
        let opened = open();
        if !opened.is_err_and(|why| why.outcome == RequestOutcome::Refused(TokenRefusal::Malformed)) {
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

    pub(crate) fn former(&self) -> Option<TokenOrigin> {
        let older = self.older.iter().map(|older| older.origin);
        older.into_iter().find(|found| matches!(found, TokenOrigin::Former(..)))
    }

    pub(crate) fn result(&self) -> Result<AcceptedToken, NoAcceptedToken> {
        self.verdict.map(|newest| AcceptedToken {
            renew: newest.renew || self.is_kept_elsewhere(&newest),
            ..newest
        })
    }

    /// Whether an older token in the policy's own carrier would count without this one.
    fn is_kept_elsewhere(&self, newest: &AcceptedToken) -> bool {
        match newest.origin {
            TokenOrigin::Own => false,
            TokenOrigin::UnderFormerName | TokenOrigin::Former(..) => true,
            TokenOrigin::Further | TokenOrigin::BeforeRedirect => {
                self.older.iter().any(|older| older.origin != TokenOrigin::Further)
            }
        }
    }

    /// The destination is unreachable. The next token with another destination counts, if there is one.
    pub(crate) fn skip_unreachable(&mut self) -> bool {
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

/// The greater one counts.
fn age(honoured: &AcceptedToken) -> impl Ord + use<> {
    (honoured.claims.age(), Reverse(honoured.origin))
}

impl AcceptedToken {
    /// The claims of a session that continues, and has arrived. `last_seen` never goes back, and `issued_at` stays, so
    /// a renewal does not extend the absolute timeout.
    pub(crate) fn renewed(self, destination: DestinationId, now: Timestamp) -> Claims {
        Claims {
            destination,
            last_seen: self.claims.last_seen.max(now).max(self.claims.issued_at),
            ..self.claims
        }
    }
}
