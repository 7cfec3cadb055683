//! The content of both Secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use zeroize::Zeroize as _;

use crate::cluster::kube::ZeroizingSecret;
use crate::cluster::reconcile::own_secret::{self, ROTATE, ROTATED};
use crate::tools::keys::keyring_file::IN_SECRET as KEYRING;
use crate::tools::keys::rotation;
use limpet_core::config::schema::{KeyEncryptionKeyConfig, KeyStateConfig, WrappedKeysConfig};
use limpet_core::config::{KeyDocument, KeyringDocument};
use limpet_core::keyring::{KeyId, Secret, wrapped};
use limpet_core::time::Timestamp;
use limpet_model::{MANAGED_BY, MANAGER};

/// The prefix of fields with key-encryption keys, before an id, as in Envoy's environment.
const KEY_ENCRYPTION_KEY: &str = "LIMPET_KEK_";
/// The annotation with ids of keys to revoke. It stays until every Envoy has the keyring without them.
pub(crate) const REVOKE: &str = "limpet.dev/revoke";
/// The value of `limpet.dev/revoke` that was done last.
pub(super) const REVOKED: &str = "limpet.dev/revoked";
pub(super) const ANNOTATIONS: [&str; 4] = [REVOKE, REVOKED, ROTATE, ROTATED];

/// Names the field and the expectation, never the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokenKeyring(String);

impl fmt::Display for BrokenKeyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyringContent {
    pub(super) document: KeyringDocument,
    /// The value of `limpet.dev/rotate`, unless it was heeded.
    pub(super) rotation_request: Option<String>,
    pub(super) revocation: Option<Revocation>,
}

impl KeyringContent {
    /// The revoked keys that not every Envoy knows to be revoked.
    pub(super) fn revoking(&self) -> Option<&BTreeSet<u8>> {
        match &self.revocation {
            Some(Revocation::Done(ids)) => Some(ids),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Revocation {
    /// Keys of which some are not revoked yet.
    Due(BTreeSet<u8>),
    /// Revoked keys of which Envoys may not know yet.
    Done(BTreeSet<u8>),
    Invalid(BrokenKeyring),
}

pub(crate) fn document(secret: &SecretObject) -> Result<KeyringDocument, BrokenKeyring> {
    ring(secret).map(|ring| ring.document)
}

pub(super) fn ring(secret: &SecretObject) -> Result<KeyringContent, BrokenKeyring> {
    let field = format!("data[{KEYRING}]");
    let data = secret.data.as_ref().and_then(|data| data.get(KEYRING));
    let Some(ByteString(json)) = data else {
        return Err(BrokenKeyring(format!(
            "{field}: expected a keyring, as `limpet keys generate --write FILE` makes one"
        )));
    };
    let broken = |error: &dyn fmt::Display| BrokenKeyring(format!("{field}: {error}"));
    let document = KeyringDocument::parse(json).map_err(|error| broken(&error))?;
    rotation::check_times(&document).map_err(|error| broken(&error))?;
    let annotation = |name| secret.metadata.annotations.as_ref()?.get(name).cloned();
    let revocation = annotation(REVOKE).map(|text| revocation(&text, &document));
    Ok(KeyringContent {
        document,
        rotation_request: own_secret::rotation_request(secret),
        revocation,
    })
}

fn revocation(text: &str, document: &KeyringDocument) -> Revocation {
    let parsed: Option<BTreeSet<u8>> = text.split(',').map(|id| id.trim().parse().ok()).collect();
    let there: BTreeSet<u8> = document.keys.iter().map(|key| key.id).collect();
    let Some(ids) = parsed.filter(|ids| ids.is_subset(&there)) else {
        let there: Vec<String> = there.iter().map(u8::to_string).collect();
        return Revocation::Invalid(BrokenKeyring(format!(
            "metadata.annotations[{REVOKE}]: expected ids of keys of the keyring ({}), with commas between them, found \
             {text:?}: nothing is revoked",
            there.join(", ")
        )));
    };
    let revoked = |key: &KeyDocument| key.state == KeyStateConfig::Revoked || !ids.contains(&key.id);
    if document.keys.iter().all(revoked) {
        Revocation::Done(ids)
    } else {
        Revocation::Due(ids)
    }
}

/// Renames `limpet.dev/revoke` to `limpet.dev/revoked`.
pub(super) fn with_revocation_done(secret: &SecretObject) -> ZeroizingSecret {
    let mut changed = secret.clone();
    let annotations = changed.metadata.annotations.get_or_insert_default();
    if let Some(text) = annotations.remove(REVOKE) {
        annotations.insert(REVOKED.to_owned(), text);
    }
    ZeroizingSecret::new(changed)
}

/// The Secret with only the keyring changed. `heeded`: the value of `limpet.dev/rotate` that this answers.
pub(super) fn with_ring(secret: &SecretObject, document: &KeyringDocument, heeded: Option<&str>) -> ZeroizingSecret {
    let mut changed = secret.clone();
    let data = changed.data.get_or_insert_default();
    if let Some(mut old) = data.insert(KEYRING.to_owned(), bytes(document)) {
        old.0.zeroize();
    }
    own_secret::heed(&mut changed, heeded);
    ZeroizingSecret::new(changed)
}

pub(super) fn new_ring(name: &str, document: &KeyringDocument) -> ZeroizingSecret {
    with_ring(&named(name), document, None)
}

pub(super) fn first_ring(now: Timestamp, secret: Secret) -> KeyringDocument {
    KeyringDocument {
        keys: vec![rotation::new_key(1, KeyStateConfig::Signing, now, secret)],
    }
}

fn bytes(document: &KeyringDocument) -> ByteString {
    // Every field is text or a number: this cannot fail.
    ByteString(serde_json::to_vec(document).unwrap_or_default())
}

fn named(name: &str) -> SecretObject {
    let labels = BTreeMap::from([(MANAGED_BY.to_owned(), MANAGER.to_owned())]);
    SecretObject {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        type_: Some("Opaque".to_owned()),
        ..SecretObject::default()
    }
}

/// By their ids; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyEncryptionKeys(BTreeMap<u8, Secret>);

impl KeyEncryptionKeys {
    pub(super) fn one(id: u8, secret: Secret) -> Self {
        Self(BTreeMap::from([(id, secret)]))
    }

    /// Fails without a key-encryption key, or with an invalid one.
    pub(super) fn read(secret: &SecretObject) -> Result<Self, BrokenKeyring> {
        let mut keys = BTreeMap::new();
        for (name, ByteString(value)) in secret.data.iter().flatten() {
            let Some(id) = name.strip_prefix(KEY_ENCRYPTION_KEY) else {
                continue;
            };
            let broken = |expected: &str| BrokenKeyring(format!("data[{name}]: expected {expected}"));
            let id: u8 = id
                .parse()
                .ok()
                // `07` would be another variable than in Envoy's configuration.
                .filter(|number: &u8| number.to_string() == id)
                .ok_or_else(|| broken("a name that ends with a number up to 255"))?;
            let key = std::str::from_utf8(value).ok().and_then(Secret::from_base64);
            let key = key.ok_or_else(|| broken("32 bytes in base64, as `limpet keys generate` prints them"))?;
            keys.insert(id, key);
        }
        if keys.is_empty() {
            return Err(BrokenKeyring(format!(
                "data: expected {KEY_ENCRYPTION_KEY}1: 32 bytes in base64, as `limpet keys generate` prints them"
            )));
        }
        Ok(Self(keys))
    }

    pub(super) fn object(&self, name: &str) -> ZeroizingSecret {
        let field = |(id, secret): (&u8, &Secret)| {
            let text = secret.to_base64();
            (variable(*id), ByteString(text.as_bytes().to_vec()))
        };
        ZeroizingSecret::new(SecretObject {
            data: Some(self.0.iter().map(field).collect()),
            ..named(name)
        })
    }

    /// The keyring for the filter's configuration, sealed under the key with the lowest id; equal in every replica.
    ///
    /// The lowest, so that a new key can reach all Envoys before it is used, once the old one is removed. Only this key
    /// is named, so that a new one does not change what Envoys have.
    pub(super) fn wrap(&self, document: &KeyringDocument) -> Result<WrappedKeysConfig, BrokenKeyring> {
        let none = || BrokenKeyring("data: expected a key-encryption key".to_owned());
        let (id, secret) = self.0.first_key_value().ok_or_else(none)?;
        let text = wrapped::wrap(&document.entries(), KeyId(*id), secret);
        Ok(WrappedKeysConfig {
            text: text.map_err(|error| BrokenKeyring(format!("data[{KEYRING}]: keys: {error}")))?,
            key_encryption_keys: vec![KeyEncryptionKeyConfig {
                id: *id,
                env: variable(*id),
            }],
        })
    }
}

fn variable(id: u8) -> String {
    format!("{KEY_ENCRYPTION_KEY}{id}")
}
