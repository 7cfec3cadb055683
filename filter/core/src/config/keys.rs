//! The keyring of a configuration, wherever it says that its keys are.

use std::collections::BTreeSet;

use zeroize::Zeroizing;

use super::schema::{FilterConfig, KeyConfig, KeyStateConfig, WrappedKeysConfig};
use super::{Environment, Problem, Warning};
use crate::keyring::wrapped::Wrapped;
use crate::keyring::{Key, KeyId, KeyState, Keyring, KeyringError, Secret};

/// Finds the keys and makes a keyring of them.
pub(super) struct Keys<'a> {
    pub(super) environment: Environment<'a>,
    pub(super) problems: &'a mut Vec<Problem>,
    pub(super) warnings: &'a mut Vec<Warning>,
}

impl From<KeyStateConfig> for KeyState {
    fn from(state: KeyStateConfig) -> Self {
        match state {
            KeyStateConfig::Signing => Self::Signing,
            KeyStateConfig::Verifying => Self::Verifying,
            KeyStateConfig::Retiring => Self::Retiring,
        }
    }
}

impl From<KeyState> for KeyStateConfig {
    fn from(state: KeyState) -> Self {
        match state {
            KeyState::Signing => Self::Signing,
            KeyState::Verifying => Self::Verifying,
            KeyState::Retiring => Self::Retiring,
        }
    }
}

impl Keys<'_> {
    /// `None`: there is a problem.
    pub(super) fn keyring(&mut self, config: &FilterConfig) -> Option<Keyring> {
        match (&config.keys, &config.wrapped_keys) {
            (Some(keys), None) => self.listed(keys),
            (None, Some(wrapped)) => self.wrapped(wrapped),
            (Some(_), Some(_)) => self.problem(
                "wrappedKeys",
                "expected exactly one of keys and wrappedKeys, found both",
            ),
            (None, None) => self.problem("keys", "expected exactly one of keys and wrappedKeys, found neither"),
        }
    }

    fn problem<T>(&mut self, field: &str, message: &str) -> Option<T> {
        self.problems.push(Problem {
            field: field.to_owned(),
            message: message.to_owned(),
        });
        None
    }

    fn listed(&mut self, configs: &[KeyConfig]) -> Option<Keyring> {
        let mut keys = Vec::with_capacity(configs.len());
        for (i, config) in configs.iter().enumerate() {
            if let Some(secret) = self.secret(&format!("keys[{i}]"), config) {
                keys.push(Key::new(KeyId(config.id), config.state.into(), &secret));
            }
        }
        // A keyring that lacks a key only because that key's own field is wrong would be a second, misleading problem.
        if keys.len() < configs.len() {
            return None;
        }
        match Keyring::new(keys) {
            Ok(keyring) => Some(keyring),
            Err(error @ KeyringError::DuplicateId(id)) => {
                let again = configs.iter().rposition(|config| config.id == id.0).unwrap_or(0);
                self.problem(&format!("keys[{again}].id"), &error.to_string())
            }
            Err(error) => self.problem("keys", &error.to_string()),
        }
    }

    fn secret(&mut self, field: &str, config: &KeyConfig) -> Option<Secret> {
        match (&config.env, &config.inline) {
            (Some(name), None) => self.in_environment(&format!("{field}.env"), name),
            (None, Some(key)) => {
                self.warnings.push(Warning::InlineKey(KeyId(config.id)));
                self.decoded(&format!("{field}.inline"), &key.0)
            }
            _ => self.problem(field, "expected exactly one of env and inline"),
        }
    }

    fn wrapped(&mut self, config: &WrappedKeysConfig) -> Option<Keyring> {
        const TEXT: &str = "wrappedKeys.text";
        let list = &config.key_encryption_keys;
        let mut ids = BTreeSet::new();
        for (i, key) in list.iter().enumerate() {
            if !ids.insert(key.id) {
                let field = format!("wrappedKeys.keyEncryptionKeys[{i}].id");
                return self.problem(&field, &format!("expected distinct ids, found {} twice", key.id));
            }
        }
        if ids.is_empty() {
            return self.problem("wrappedKeys.keyEncryptionKeys", "expected at least one");
        }
        let wrapped = match Wrapped::parse(&config.text) {
            Ok(wrapped) => wrapped,
            Err(error) => return self.problem(TEXT, &error.to_string()),
        };
        let id = wrapped.key_encryption_key();
        let Some(at) = list.iter().position(|key| key.id == id.0) else {
            let message = format!("wrapped under key-encryption key {id}: expected one that keyEncryptionKeys lists");
            return self.problem(TEXT, &message);
        };
        // The other ones are not looked for: an Envoy that lacks them works, as one has to while they change.
        let named = list.get(at)?;
        let field = format!("wrappedKeys.keyEncryptionKeys[{at}].env");
        let secret = self.in_environment(&field, &named.env)?;
        let entries = match wrapped.open(&secret) {
            Ok(entries) => entries,
            Err(error) => return self.problem(TEXT, &error.to_string()),
        };
        match Keyring::new(entries.iter().map(Key::from).collect()) {
            Ok(keyring) => Some(keyring),
            Err(error) => self.problem(TEXT, &error.to_string()),
        }
    }

    fn in_environment(&mut self, field: &str, name: &str) -> Option<Secret> {
        if let Some(text) = (self.environment)(name) {
            return self.decoded(field, &Zeroizing::new(text));
        }
        // Somebody may have put the key in its place. No key in base64 looks like this.
        let is_name = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
        let found = if name.bytes().all(is_name) { name } else { "another" };
        self.problem(
            field,
            &format!("expected the name of an environment variable that the filter has, found {found} (wasm: vm_config.environment_variables.host_env_keys lists those)"),
        )
    }

    /// The text itself is never repeated: it is a key, or nearly one.
    fn decoded(&mut self, field: &str, text: &str) -> Option<Secret> {
        const EXPECTED: &str = "expected 32 bytes in base64 (44 characters; `limpet keys generate` makes one)";
        Secret::from_base64(text).or_else(|| self.problem(field, EXPECTED))
    }
}
