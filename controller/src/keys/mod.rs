//! New keys, and files of keys.

pub(crate) mod source;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use limpet_core::config::schema::KeyConfig;
use limpet_core::keyring::Secret;
use serde_json::{Value, json};
use zeroize::Zeroizing;

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
}
