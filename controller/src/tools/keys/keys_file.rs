//! Files of keys: a keyring file, the `keys` list of a configuration, or an object that has it.

use serde_json::Value;

use super::keyring_file::{IN_SECRET, KeyringFile};
use crate::envoy_config::{config_file, object_file};
use crate::exit::CommandFailure;
use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::{InlineKey, KeyConfig};
use limpet_core::keyring::KeyEntry;

pub(crate) fn read(file: &str) -> Result<Vec<KeyConfig>, CommandFailure> {
    let document = config_file::read(file)?;
    if let Some(keyring) = KeyringFile::from_document(file, &document) {
        return Ok(of_document(&keyring?.document));
    }
    let (prefix, list) = match &document {
        Value::Object(fields) => {
            let expected = || {
                let told = object_file::instead(&document, IN_SECRET);
                let told = told.unwrap_or_else(|| "keys: expected a list of keys".to_owned());
                CommandFailure(format!("{file}: {told}"))
            };
            ("keys", fields.get("keys").ok_or_else(expected)?)
        }
        list => ("", list),
    };
    let keys: Vec<KeyConfig> = serde_path_to_error::deserialize(list).map_err(|error| {
        let field = match error.path().to_string().as_str() {
            "." => "keys".to_owned(),
            path => format!("{prefix}{path}"),
        };
        CommandFailure(format!(
            "{file}: {field}: {}",
            without_quotations(&error.inner().to_string())
        ))
    })?;
    if keys.is_empty() {
        return Err(CommandFailure(format!("{file}: keys: expected at least one key")));
    }
    Ok(keys)
}

/// The keys of a keyring.
pub(crate) fn of_document(document: &KeyringDocument) -> Vec<KeyConfig> {
    let inline = |entry: KeyEntry| KeyConfig {
        id: entry.id.0,
        env: None,
        inline: entry.secret.map(|secret| InlineKey(secret.to_base64().to_string())),
        state: entry.state.into(),
    };
    document.entries().into_iter().map(inline).collect()
}

/// A message without the text that it quotes, which may be a key in the wrong place.
fn without_quotations(message: &str) -> String {
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
