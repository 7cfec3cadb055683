//! `limpet keys generate`.

use serde_json::json;
use zeroize::{Zeroize as _, Zeroizing};

use super::keyring_file::KeyringFile;
use super::{lifetime, rotation};
use crate::cli::GenerateArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use crate::time_format;
use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::KeyStateConfig;
use limpet_core::keyring::Secret;

pub(crate) fn run(args: &GenerateArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    match &args.write {
        Some(file) => keyring(file, form),
        None => key(form),
    }
}

fn key(form: Output) -> Result<CommandVerdict, CommandFailure> {
    let key = secret()?.to_base64();
    match form {
        Output::Text { .. } => output::print(&Zeroizing::new(format!("{}\n", *key)))?,
        Output::Document(format) => output::print_document(format, &json!({"key": *key}))?,
    }
    Ok(CommandVerdict::Good)
}

/// Writes a keyring file with one key, which signs.
fn keyring(file: &str, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let now = time_format::now();
    let key = rotation::new_key(1, KeyStateConfig::Signing, now, secret()?);
    let keyring = KeyringFile::new(file, KeyringDocument { keys: vec![key] });
    keyring.create()?;
    keyring.print(form, now, lifetime::default())?;
    Ok(CommandVerdict::Good)
}

/// 32 random bytes.
pub(crate) fn secret() -> Result<Secret, CommandFailure> {
    let mut bytes = [0; Secret::LEN];
    getrandom::fill(&mut bytes).map_err(|error| CommandFailure(format!("the system has no random bytes: {error}")))?;
    let secret = Secret::new(bytes);
    bytes.zeroize();
    Ok(secret)
}
