use std::fmt;
use std::sync::Arc;

use serde::Serialize;
use zeroize::Zeroizing;

use super::short_hash::hash;

/// A certificate chain and its private key, both in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The chain, the server's own certificate first.
    pub chain: Arc<[u8]>,
    /// The private key.
    pub key: Arc<Zeroizing<Vec<u8>>>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

/// Certificates of authorities, at least one, in PEM and nothing else. A copy shares all texts.
#[derive(Clone, PartialEq, Eq)]
pub struct Authorities {
    /// Made once: each route and each cluster asks for it.
    name: Arc<str>,
    texts: Arc<[Arc<str>]>,
}

impl Authorities {
    /// Takes this text.
    #[must_use]
    pub fn of_pem(pem: &str) -> Self {
        Self {
            name: hash(pem.as_bytes(), 16).into(),
            texts: [Arc::from(pem)].into(),
        }
    }

    /// All of them, independent of their order; `None` if there are none.
    pub(crate) fn joined(mut all: Vec<&Self>) -> Option<Self> {
        all.sort_unstable_by_key(|one| &one.name);
        all.dedup_by_key(|one| &one.name);
        if let [one] = *all {
            return Some(one.clone());
        }
        let names: String = all.iter().map(|one| &*one.name).collect();
        (!all.is_empty()).then(|| Self {
            name: hash(names.as_bytes(), 16).into(),
            texts: all.iter().flat_map(|one| one.texts.iter().cloned()).collect(),
        })
    }

    /// The text.
    #[must_use]
    pub fn pem(&self) -> String {
        self.texts.iter().map(|text| &**text).collect()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.texts.iter().map(|text| text.len()).sum()
    }

    /// A hash of the content: equal authorities are one.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// Writes only their name.
impl Serialize for Authorities {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name)
    }
}

impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Authorities").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_of_authorities_was_a_hash_of_their_text() {
        let authorities = Authorities::of_pem("one");
        let copy = authorities.clone();
        assert_eq!(authorities.name().as_ptr(), copy.name().as_ptr());
    }

    #[test]
    fn each_policy_had_a_text_of_its_own_of_joined_authorities() {
        let [one, two] = ["one", "two"].map(Authorities::of_pem);
        let joined = [vec![&one, &two], vec![&two, &one, &two]].map(|all| Authorities::joined(all).unwrap());
        assert_eq!(joined[0], joined[1]);
        let texts = |joined: &Authorities| joined.texts.iter().map(|text| text.as_ptr()).collect::<Vec<_>>();
        assert_eq!(texts(&joined[0]), texts(&joined[1]));
        assert!(texts(&joined[0]).contains(&one.texts[0].as_ptr()));
        assert_eq!(joined[0].bytes(), 6);
    }
}
