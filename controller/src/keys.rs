//! New keys, and files of keys.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::config::schema::KeyConfig;
use limpet_core::keyring::Secret;
use serde_json::{Value, json};
use zeroize::{Zeroize as _, Zeroizing};

use crate::output::{self, Output};
use crate::{Failure, Verdict, document};

/// `limpet keys generate`.
pub(crate) fn generate(form: Output) -> Result<Verdict, Failure> {
    let mut bytes = Zeroizing::new([0; Secret::LEN]);
    getrandom::fill(bytes.as_mut_slice())
        .map_err(|error| Failure(format!("the system has no random bytes: {error}")))?;
    let key = Zeroizing::new(STANDARD.encode(bytes.as_slice()));
    match form {
        Output::Text => output::print(&format!("{}\n", *key))?,
        Output::Json => output::print_json(&json!({"key": *key}))?,
    }
    Ok(Verdict::Good)
}

/// Reads a file of keys: the `keys` list of the filter's configuration, or an object that has it.
pub(crate) fn read(file: &str) -> Result<Vec<KeyConfig>, Failure> {
    let document = document::read(file)?;
    let (prefix, list) = match &document {
        Value::Object(fields) => match fields.get("keys") {
            Some(list) => ("keys", list),
            None => return Err(Failure(format!("{file}: keys: expected a list of keys"))),
        },
        list => ("", list),
    };
    let keys: Vec<KeyConfig> = serde_path_to_error::deserialize(list).map_err(|error| {
        let field = match error.path().to_string().as_str() {
            "." => "keys".to_owned(),
            path => format!("{prefix}{path}"),
        };
        Failure(format!(
            "{file}: {field}: {}",
            without_quotations(&error.inner().to_string())
        ))
    })?;
    if keys.is_empty() {
        return Err(Failure(format!("{file}: keys: expected at least one key")));
    }
    Ok(keys)
}

/// Why a key can not be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unavailable {
    /// Its environment variable is not set here.
    NotSet(String),
    /// It is no key.
    Wrong(String),
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSet(variable) => write!(f, "the environment variable {variable} is not set"),
            Self::Wrong(reason) => f.write_str(reason),
        }
    }
}

/// The secret of a key, from the configuration or from this process's environment.
pub(crate) fn secret(key: &KeyConfig) -> Result<Secret, Unavailable> {
    let (source, text) = match (&key.env, &key.inline) {
        (Some(name), None) if !is_variable(name) => {
            return Err(Unavailable::Wrong(format!("key {}: env: {NO_VARIABLE}", key.id)));
        }
        (Some(name), None) => match std::env::var(name) {
            Ok(text) => (name.as_str(), Zeroizing::new(text)),
            Err(_) => return Err(Unavailable::NotSet(name.clone())),
        },
        (None, Some(inline)) => ("inline", Zeroizing::new(inline.0.clone())),
        _ => {
            return Err(Unavailable::Wrong(format!(
                "key {}: expected exactly one of env and inline",
                key.id
            )));
        }
    };
    let mut decoded = Zeroizing::new(STANDARD.decode(text.trim()).unwrap_or_default());
    let Ok(mut bytes) = <[u8; Secret::LEN]>::try_from(decoded.as_mut_slice() as &[u8]) else {
        let expected = "expected 32 bytes in base64 (44 characters; `limpet keys generate` makes one)";
        return Err(Unavailable::Wrong(format!("key {}: {source}: {expected}", key.id)));
    };
    let secret = Secret::new(bytes);
    bytes.zeroize();
    Ok(secret)
}

/// What to say where `env` holds something else, which is not repeated: it may be the key itself.
pub(crate) const NO_VARIABLE: &str =
    "expected the name of an environment variable: letters, digits and underscores, no digit first";

/// Whether `name` can be the name of an environment variable. No key in base64 can: it ends with `=`.
pub(crate) fn is_variable(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
}

/// A message about a field of keys without the text that it quotes, which may be a key in the wrong place.
pub(crate) fn without_quotations(message: &str) -> String {
    match (message.find('"'), message.rfind('"')) {
        (Some(first), Some(last)) if first < last => {
            let before = message.get(..first).unwrap_or_default();
            let after = message.get(last + 1..).unwrap_or_default();
            format!("{}{after}", before.trim_end())
        }
        _ => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_repeat_what_may_be_a_key() {
        let message = "invalid type: string \"c2Vj\\\"cmV0\", expected struct KeyConfig";
        assert_eq!(
            without_quotations(message),
            "invalid type: string, expected struct KeyConfig"
        );
        assert_eq!(without_quotations("missing field `id`"), "missing field `id`");
    }

    #[test]
    fn a_key_is_no_variable() {
        assert!(is_variable("LIMPET_KEY_1"));
        for name in ["", "1KEY", "bm90IGEgc2VjcmV0OiBldmVyeWJvZHkgcmVhZHMgaXQ=", "A-B"] {
            assert!(!is_variable(name), "{name:?}");
        }
    }
}
