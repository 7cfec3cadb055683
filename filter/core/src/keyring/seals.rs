//! Seals, by which holders of the same keyring trust each other's messages.

use std::fmt;
use std::sync::Arc;

use super::{KeyEntry, KeyState};
use crate::siv::{self, HmacKey, HmacSha256, TAG_LEN};

/// A keyring's seals for one purpose. The signing key seals and all verify, so keyrings one phase of a rotation apart
/// work together.
pub struct Seals {
    signing: Option<Arc<HmacKey>>,
    /// In place, so that no copies are left behind.
    all: Vec<Arc<HmacKey>>,
}

impl Seals {
    /// For the purpose with this label (RFC 5869 `info`).
    #[must_use]
    pub fn new(entries: &[KeyEntry], label: &[u8]) -> Self {
        let with = |entry: &KeyEntry| Some(entry.secret.as_ref()?.subkey::<Arc<HmacKey>>(label));
        let is_signing = |entry: &&KeyEntry| entry.state == KeyState::Signing;
        Self {
            signing: entries.iter().find(is_signing).and_then(with),
            all: entries.iter().filter_map(with).collect(),
        }
    }

    /// A message's seal, if a key signs. `head` is its purpose: no head may begin another.
    #[must_use]
    pub fn seal(&self, head: &[u8], message: &[u8]) -> Option<[u8; TAG_LEN]> {
        let key = self.signing.as_ref()?;
        Some(siv::tag(&bound(key, head), message))
    }

    /// Whether one of the keys has sealed this, in constant time for each key.
    #[must_use]
    pub fn verifies(&self, head: &[u8], message: &[u8], seal: &[u8]) -> bool {
        self.all
            .iter()
            .any(|key| siv::verifies(&bound(key, head), message, seal))
    }
}

fn bound(key: &HmacKey, head: &[u8]) -> HmacSha256 {
    hmac::Mac::chain_update(key.begin(), head)
}

impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seals(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyring::{KeyId, Secret};

    fn entry(id: u8, state: KeyState) -> KeyEntry {
        let secret = (state != KeyState::Revoked).then(|| Secret::new([id; Secret::LEN]));
        KeyEntry {
            id: KeyId(id),
            state,
            secret,
        }
    }

    fn seals(entries: &[(u8, KeyState)]) -> Seals {
        let entries: Vec<_> = entries.iter().map(|(id, state)| entry(*id, *state)).collect();
        Seals::new(&entries, b"limpet test")
    }

    #[test]
    fn neighbouring_phases_of_a_rotation_understand_each_other() {
        use KeyState::{Retiring, Revoked, Signing, Verifying};
        let phases = [
            seals(&[(1, Signing)]),
            seals(&[(1, Signing), (2, Verifying)]),
            seals(&[(1, Retiring), (2, Signing)]),
            seals(&[(1, Revoked), (2, Signing)]),
        ];
        let understands = |one: &Seals, other: &Seals| {
            let seal = one.seal(b"head", b"message").unwrap();
            let others = [
                (&b"heads"[..], &b"message"[..]),
                (b"head", b"messages"),
                (b"", b"message"),
            ];
            assert!(
                others
                    .iter()
                    .all(|(head, message)| !other.verifies(head, message, &seal))
            );
            assert!(!other.verifies(b"head", b"message", &seal[1..]));
            other.verifies(b"head", b"message", &seal)
        };
        for pair in phases.windows(2) {
            let [one, other] = pair else { panic!() };
            assert!(understands(one, other) && understands(other, one) || pair[1].all.len() == 1);
        }
        assert!(!understands(&phases[0], &phases[3]), "a revoked key seals nothing");
        assert!(!understands(&phases[2], &phases[0]), "two phases later");
        let other = Seals::new(&[entry(1, Signing)], b"limpet other");
        assert!(!understands(&phases[0], &other), "another purpose");
    }
}
