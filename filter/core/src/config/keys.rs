use std::collections::BTreeSet;

use zeroize::Zeroizing;

use super::schema::{FilterConfig, KeyConfig, KeyStateConfig, WrappedKeysConfig};
use super::{ConfigError, Problem};
use crate::keyring::wrapped::WrappedKeyring;
use crate::keyring::{KeyEntry, KeyId, KeyState, Keyring, KeyringError, Secret};
use crate::time::GatewayDuration;

/// The environment variables of Envoy's process.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A working configuration's flaw, for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigWarning {
    /// This key is in the configuration itself.
    InlineKey(KeyId),
    /// The filter's own cookie or header has a name of applications.
    WellKnownName {
        /// The field of the name.
        field: String,
        /// The name.
        name: String,
        /// Its default owner.
        owner: &'static str,
    },
    /// A fence is ahead of the clock by more than `clockSkew`.
    FenceAhead {
        /// The field of its time.
        field: String,
        /// Its time. Its distance would be another text in each worker's log.
        not_before: u64,
        /// `clockSkew`.
        skew: GatewayDuration,
        /// How many other fences are too.
        others: usize,
    },
}

impl ConfigWarning {
    /// The field that it is about.
    #[must_use]
    pub fn field(&self) -> &str {
        match self {
            Self::InlineKey(_) => "keys",
            Self::WellKnownName { field, .. } | Self::FenceAhead { field, .. } => field,
        }
    }
}

impl std::fmt::Display for ConfigWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InlineKey(id) => write!(
                f,
                "key {id} is inline: Envoy shows it in /config_dump, so use it for development only and env otherwise"
            ),
            Self::WellKnownName { name, owner, .. } => write!(
                f,
                "{name} is the name of a session of the application's own ({owner}): if the application sets it, the \
                 filter removes it; choose another name, or mode prefix or rewrite"
            ),
            Self::FenceAhead {
                not_before,
                skew,
                others,
                ..
            } => {
                write!(
                    f,
                    "expected a time at most {skew} (clockSkew) from now, found {not_before}, as if a clock were \
                     wrong: the fence begins {skew} after the filter has read it first, and until then no session at \
                     the address lasts"
                )?;
                if *others > 0 {
                    write!(f, " (so are {others} other fences)")?;
                }
                Ok(())
            }
        }
    }
}

pub(crate) fn keyring(
    config: &FilterConfig,
    environment: Environment<'_>,
) -> Result<(Keyring, Vec<ConfigWarning>), ConfigError> {
    let mut keys = Keys {
        environment,
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    match keys.keyring(config) {
        Some(keyring) => Ok((keyring, keys.warnings)),
        None => Err(ConfigError {
            problems: keys.problems,
        }),
    }
}

pub(crate) fn in_secret(config: &FilterConfig) -> Result<(), ConfigError> {
    let problem = match (&config.keys, &config.wrapped_keys, &config.sds_keys) {
        (None, None, Some(sds)) if !sds.name.is_empty() => return Ok(()),
        (None, None, Some(_)) => Problem {
            field: "sdsKeys.name".to_owned(),
            message: "expected the name of a secret".to_owned(),
        },
        _ => not_one(config),
    };
    Err(ConfigError {
        problems: vec![problem],
    })
}

fn not_one(config: &FilterConfig) -> Problem {
    let sources = [
        ("keys", config.keys.is_some()),
        ("wrappedKeys", config.wrapped_keys.is_some()),
        ("sdsKeys", config.sds_keys.is_some()),
    ];
    let last = sources.iter().rfind(|(_, given)| *given);
    let found = given_of(&sources);
    Problem {
        field: last.map_or("keys", |(name, _)| *name).to_owned(),
        message: format!("expected exactly one of keys, wrappedKeys and sdsKeys, found {found}"),
    }
}

pub(super) fn given_of(fields: &[(&str, bool)]) -> String {
    let given = fields.iter().filter(|(_, given)| *given);
    let names: Vec<&str> = given.map(|(name, _)| *name).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(" and ")
    }
}

struct Keys<'a> {
    environment: Environment<'a>,
    problems: Vec<Problem>,
    warnings: Vec<ConfigWarning>,
}

impl From<KeyStateConfig> for KeyState {
    fn from(state: KeyStateConfig) -> Self {
        match state {
            KeyStateConfig::Signing => Self::Signing,
            KeyStateConfig::Verifying => Self::Verifying,
            KeyStateConfig::Retiring => Self::Retiring,
            KeyStateConfig::Revoked => Self::Revoked,
        }
    }
}

impl From<KeyState> for KeyStateConfig {
    fn from(state: KeyState) -> Self {
        match state {
            KeyState::Signing => Self::Signing,
            KeyState::Verifying => Self::Verifying,
            KeyState::Retiring => Self::Retiring,
            KeyState::Revoked => Self::Revoked,
        }
    }
}

impl Keys<'_> {
    /// `None` if there is a problem.
    fn keyring(&mut self, config: &FilterConfig) -> Option<Keyring> {
        match (&config.keys, &config.wrapped_keys, &config.sds_keys) {
            (Some(keys), None, None) => self.listed(keys),
            (None, Some(wrapped), None) => self.wrapped(wrapped),
            (None, None, Some(_)) => self.problem(
                "sdsKeys",
                "expected keys or wrappedKeys: Envoy hands secrets (SDS) only to dynamic modules, from 1.40 on",
            ),
            _ => {
                self.problems.push(not_one(config));
                None
            }
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
        let found = self.problems.len();
        let entries: Vec<KeyEntry> = configs
            .iter()
            .enumerate()
            .map(|(i, config)| KeyEntry {
                id: KeyId(config.id),
                state: config.state.into(),
                secret: self.secret(&format!("keys[{i}]"), config),
            })
            .collect();
        // The keyring could have a second, misleading problem.
        if self.problems.len() > found {
            return None;
        }
        match Keyring::from_entries(&entries) {
            Ok(keyring) => Some(keyring),
            Err(error @ KeyringError::DuplicateId(id)) => {
                let again = configs.iter().rposition(|config| config.id == id.0).unwrap_or(0);
                self.problem(&format!("keys[{again}].id"), &error.to_string())
            }
            Err(error) => self.problem("keys", &error.to_string()),
        }
    }

    /// `None` if the key is revoked, or there is a problem.
    fn secret(&mut self, field: &str, config: &KeyConfig) -> Option<Secret> {
        if config.state == KeyStateConfig::Revoked {
            let given = [("env", config.env.is_some()), ("inline", config.inline.is_some())];
            for (source, _) in given.iter().filter(|(_, given)| *given) {
                let message = "remove it: the key is revoked, so nothing but its id is needed";
                self.problem::<()>(&format!("{field}.{source}"), message);
            }
            return None;
        }
        match (&config.env, &config.inline) {
            (Some(name), None) => self.in_environment(&format!("{field}.env"), name),
            (None, Some(key)) => {
                self.warnings.push(ConfigWarning::InlineKey(KeyId(config.id)));
                self.decoded(&format!("{field}.inline"), &key.0, "")
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
        let wrapped = match WrappedKeyring::parse(&config.text) {
            Ok(wrapped) => wrapped,
            Err(error) => return self.problem(TEXT, &error.to_string()),
        };
        let id = wrapped.key_encryption_key();
        let Some(at) = list.iter().position(|key| key.id == id.0) else {
            let message = format!("wrapped under key-encryption key {id}: expected one that keyEncryptionKeys lists");
            return self.problem(TEXT, &message);
        };
        // Only this one must be there, so Envoys with the old key, the new one or both work during a change.
        let named = list.get(at)?;
        let field = format!("wrappedKeys.keyEncryptionKeys[{at}].env");
        let secret = self.in_environment(&field, &named.env)?;
        let entries = match wrapped.open(&secret) {
            Ok(entries) => entries,
            Err(error) => return self.problem(TEXT, &format!("{error}; tried with {}", variable(&named.env))),
        };
        match Keyring::from_entries(&entries) {
            Ok(keyring) => Some(keyring),
            Err(error) => self.problem(TEXT, &error.to_string()),
        }
    }

    fn in_environment(&mut self, field: &str, name: &str) -> Option<Secret> {
        if let Some(text) = (self.environment)(name) {
            return self.decoded(field, &Zeroizing::new(text), &format!(" in {}", variable(name)));
        }
        let message = format!(
            "expected {} in the environment of Envoy's process, with a key, found none; the wasm filter has only those \
             that vm_config.environment_variables.host_env_keys lists",
            variable(name)
        );
        self.problem(field, &message)
    }

    /// Errors do not repeat the text, which may be a key. `place`: where it is, if the field does not say so.
    fn decoded(&mut self, field: &str, text: &str, place: &str) -> Option<Secret> {
        Secret::from_base64(text).or_else(|| {
            let message = format!(
                "expected 32 bytes in base64{place} (44 characters; `limpet keys generate` makes one), found {} \
                 characters",
                text.chars().count()
            );
            self.problem(field, &message)
        })
    }
}

/// The variable in a message, shown only if the name cannot be a key by mistake: no key in base64 looks like this.
fn variable(name: &str) -> String {
    let is_name = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    if name.bytes().all(is_name) {
        format!("the variable {name}")
    } else {
        "the variable of this name".to_owned()
    }
}
