//! The name of the filter's own cookie if sessions of several scopes share a session name and a path.

use sha2::{Digest as _, Sha256};

const SEPARATOR: u8 = b'~';
/// Base 32 (RFC 4648 section 6) in lower case.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const SCOPE_LEN: usize = 8;

/// The names that a session's cookie may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieNames {
    /// Begins with the plain name: one string is less memory to fetch.
    per_scope: String,
    plain_len: usize,
    is_per_scope: bool,
}

/// The owner of a cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CookieOwner {
    /// No session cookie of this name.
    Other,
    /// This session.
    Current,
    /// This session, under the name for the other value of `perScope`.
    Former,
    /// A session of the same name in another scope.
    OtherScope,
}

impl CookieNames {
    /// The names of `session_name`: plain, and as in `session~k3rp2x7a`.
    #[must_use]
    pub fn new(session_name: &str, scope: &[u8], is_per_scope: bool) -> Self {
        let mut per_scope = String::with_capacity(session_name.len() + 1 + SCOPE_LEN);
        per_scope.push_str(session_name);
        per_scope.push(char::from(SEPARATOR));
        per_scope.push_str(&scope_name(scope));
        Self {
            per_scope,
            plain_len: session_name.len(),
            is_per_scope,
        }
    }

    pub(crate) fn plain(&self) -> &str {
        self.per_scope.get(..self.plain_len).unwrap_or_default()
    }

    /// The name that the cookie gets.
    #[must_use]
    pub fn current(&self) -> &str {
        if self.is_per_scope {
            &self.per_scope
        } else {
            self.plain()
        }
    }

    /// The name for the other value of `perScope`.
    #[must_use]
    pub fn former(&self) -> &str {
        if self.is_per_scope {
            self.plain()
        } else {
            &self.per_scope
        }
    }

    /// The owner of the cookie called `name`.
    #[must_use]
    pub fn owner_of(&self, name: &[u8]) -> CookieOwner {
        if name == self.current().as_bytes() {
            return CookieOwner::Current;
        }
        match name.strip_prefix(self.plain().as_bytes()) {
            Some(_) if name == self.former().as_bytes() => CookieOwner::Former,
            Some(rest) if is_scope_name(rest) => CookieOwner::OtherScope,
            _ => CookieOwner::Other,
        }
    }
}

/// 40 bits of the scope's SHA-256 in base 32.
fn scope_name(scope: &[u8]) -> String {
    let digest = Sha256::digest(scope);
    let bits = digest
        .iter()
        .take(5)
        .fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    (0..SCOPE_LEN)
        .rev()
        .filter_map(|place| ALPHABET.get((bits >> (5 * place) & 31) as usize))
        .map(|character| char::from(*character))
        .collect()
}

fn is_scope_name(rest: &[u8]) -> bool {
    matches!(rest, [SEPARATOR, name @ ..] if name.len() == SCOPE_LEN && name.iter().all(|b| ALPHABET.contains(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_name_is_a_hash_in_base_32() {
        // SHA-256 of the empty string begins with e3 b0 c4 42 98.
        assert_eq!(scope_name(b""), "4oymiquy");
        assert_eq!(CookieNames::new("s", b"", true).current(), "s~4oymiquy");
        assert_eq!(CookieNames::new("s", b"", true).former(), "s");
        assert_eq!(CookieNames::new("s", b"", false).current(), "s");
        assert_eq!(CookieNames::new("s", b"", false).former(), "s~4oymiquy");
    }

    #[test]
    fn the_name_of_a_cookie_tells_its_owner() {
        for (name, per_scope, plain) in [
            ("s", CookieOwner::Former, CookieOwner::Current),
            ("s~4oymiquy", CookieOwner::Current, CookieOwner::Former),
            ("s~4oymiqu2", CookieOwner::OtherScope, CookieOwner::OtherScope),
            ("s~4OYMIQUY", CookieOwner::Other, CookieOwner::Other),
            ("s~4oymiqu", CookieOwner::Other, CookieOwner::Other),
            ("s~4oymiquy2", CookieOwner::Other, CookieOwner::Other),
            ("ss", CookieOwner::Other, CookieOwner::Other),
            ("S", CookieOwner::Other, CookieOwner::Other),
            ("", CookieOwner::Other, CookieOwner::Other),
        ] {
            assert_eq!(
                CookieNames::new("s", b"", true).owner_of(name.as_bytes()),
                per_scope,
                "{name}"
            );
            assert_eq!(
                CookieNames::new("s", b"", false).owner_of(name.as_bytes()),
                plain,
                "{name}"
            );
        }
    }
}
