//! `limpet keys wrap`.

use std::collections::BTreeSet;

use serde_json::json;

use super::keys_file;
use super::source::{self, KeySourceError};
use crate::cli::WrapArgs;
use crate::envoy_config::config_file;
use crate::envoy_config::filter_configs;
use crate::envoy_config::node::ConfigNode;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use limpet_core::config::schema::{FilterConfig, WrappedKeysConfig};
use limpet_core::keyring::wrapped::{self, WrappedKeyring};
use limpet_core::keyring::{KeyEntry, KeyId};

struct WrappingKey {
    id: KeyId,
    variable: String,
}

pub(crate) fn run(args: &WrapArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let entries = entries(&args.file)?;
    let given = args.key_encryption_key.as_deref().map(WrappingKey::parse).transpose()?;
    let (text, id) = match (&args.write, given) {
        (Some(file), given) => into(file, &entries, given)?,
        (None, Some(given)) => (given.wrap(&entries)?, given.id),
        (None, None) => {
            return Err(CommandFailure(
                "expected --key-encryption-key ID=VARIABLE, or --write and a configuration that names it".to_owned(),
            ));
        }
    };
    match (form, &args.write) {
        (Output::Text { .. }, None) => output::print(&format!("{text}\n"))?,
        (Output::Text { .. }, Some(file)) => {
            let keys = if entries.len() == 1 { "key" } else { "keys" };
            let count = entries.len();
            output::print(&format!(
                "{file}: {count} {keys}, wrapped under key-encryption key {id}\n"
            ))?;
        }
        (Output::Document(format), into) => {
            let keys: Vec<u8> = entries.iter().map(|entry| entry.id.0).collect();
            output::print_document(
                format,
                &json!({"text": text, "keyEncryptionKey": id.0, "keys": keys, "file": into}),
            )?;
        }
    }
    Ok(CommandVerdict::Good)
}

/// The keys of a file of keys, with their secrets.
fn entries(file: &str) -> Result<Vec<KeyEntry>, CommandFailure> {
    let failed = |unavailable: KeySourceError| CommandFailure(format!("{file}: {unavailable}"));
    keys_file::read(file)?
        .iter()
        .map(|key| source::entry(key).map_err(failed))
        .collect()
}

impl WrappingKey {
    /// Parses `ID=VARIABLE`. A wrong text is not repeated, because it may be a key.
    fn parse(text: &str) -> Result<Self, CommandFailure> {
        let expected = || {
            let expected = "--key-encryption-key: expected ID=VARIABLE, like 1=LIMPET_KEK_1: a number up to 255 and \
                            the name of an environment variable";
            CommandFailure(expected.to_owned())
        };
        let (id, variable) = text.split_once('=').ok_or_else(expected)?;
        let id = id
            .parse()
            .ok()
            .filter(|_| source::is_variable(variable))
            .ok_or_else(expected)?;
        Ok(Self {
            id: KeyId(id),
            variable: variable.to_owned(),
        })
    }

    fn wrap(&self, entries: &[KeyEntry]) -> Result<String, CommandFailure> {
        let wrong = |reason: &str| KeySourceError::Wrong(format!("key-encryption key {}: {reason}", self.id));
        let secret =
            source::from_environment(&self.variable, wrong).map_err(|error| CommandFailure(error.to_string()))?;
        wrapped::wrap(entries, self.id, &secret).map_err(|error| CommandFailure(format!("keys: {error}")))
    }
}

/// Replaces the wrapped keyring of a configuration. The rest of the file stays as it is, byte for byte.
fn into(file: &str, entries: &[KeyEntry], given: Option<WrappingKey>) -> Result<(String, KeyId), CommandFailure> {
    let failed = |reason: &str| CommandFailure(format!("{file}: {reason}"));
    let (content, value) = config_file::read_with_text(file)?;
    let present = wrapped_keys(file, &value)?;
    let texts: BTreeSet<&str> = present.iter().map(|wrapped| wrapped.text.as_str()).collect();
    let [old] = texts.into_iter().collect::<Vec<_>>()[..] else {
        return Err(failed("expected one wrappedKeys.text, found several that differ"));
    };
    let parsed = WrappedKeyring::parse(old)
        .map_err(|error| failed(&format!("wrappedKeys.text: {error}; put the first one there by hand")))?;
    let id = given.as_ref().map_or(parsed.key_encryption_key(), |given| given.id);
    for wrapped in &present {
        if !wrapped.key_encryption_keys.iter().any(|key| key.id == id.0) {
            return Err(failed(&format!(
                "wrappedKeys.keyEncryptionKeys: expected one with the id {id}"
            )));
        }
    }
    let named = present.iter().flat_map(|wrapped| &wrapped.key_encryption_keys);
    let variable = named.filter(|key| key.id == id.0).map(|key| key.env.clone()).next();
    let wrapping = given.unwrap_or_else(|| WrappingKey {
        id,
        variable: variable.unwrap_or_default(),
    });
    let text = wrapping.wrap(entries)?;
    if text != old {
        // The text is too long to occur by chance, and no kind of string escapes any of its characters.
        let changed = content.replace(old, &text);
        let all_changed = |wrapped: &WrappedKeysConfig| wrapped.text == text;
        if !wrapped_keys(file, &config_file::parse(file, &changed)?)?
            .iter()
            .all(all_changed)
        {
            return Err(failed("expected wrappedKeys.text in one piece"));
        }
        config_file::replace(file, &changed, false)?;
    }
    Ok((text, id))
}

/// The wrapped keyrings in a document, at least one.
fn wrapped_keys(file: &str, document: &serde_json::Value) -> Result<Vec<WrappedKeysConfig>, CommandFailure> {
    let configs = filter_configs::read(file, &[ConfigNode::root(file, document)])?;
    let wrapped: Vec<_> = configs
        .into_iter()
        .filter_map(|config: FilterConfig| config.wrapped_keys)
        .collect();
    if wrapped.is_empty() {
        return Err(CommandFailure(format!(
            "{file}: expected a configuration with wrappedKeys"
        )));
    }
    Ok(wrapped)
}
