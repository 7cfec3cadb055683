use clap::{Args, Subcommand};

use super::KEYS_FILE;
use crate::exit::EXIT_CODES;
use limpet_core::time::GatewayDuration;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    Generate(GenerateArgs),
    List(ListArgs),
    Rotate(RotateArgs),
    Wrap(WrapArgs),
}

/// Generate a key, or a keyring file with one key
///
/// Without FILE, print a key: 32 random bytes in base64, for an environment variable of Envoy. It can also serve as a
/// key-encryption key.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct GenerateArgs {
    /// The keyring file to create, in JSON, for its owner only (mode 0600). It must not exist yet
    pub(crate) file: Option<String>,
}

/// List keys with their states and ages, and show the phase of the rotation
///
/// Secrets are never shown.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ListArgs {
    /// A keyring file; or a configuration of the filter, or of Envoy with the filter inside, whose keys have no age
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) life: LifeArgs,
}

/// Take the rotation of a keyring file one phase further
///
/// From one key: add a new key, which verifies (phase 1); let the new key sign (phase 2); let the old key retire, so
/// that its tokens are replaced as they come in (phase 3); remove the old key. Every Envoy must have the keyring of one
/// phase before the next one begins: distribute it with `limpet keys wrap`. The old key is removed only when all its
/// tokens have ended.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RotateArgs {
    /// The keyring file
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) life: LifeArgs,
    /// Remove retiring keys at any age, which ends the sessions of their tokens
    #[arg(long)]
    pub(crate) force: bool,
}

// How long a retiring key has to stay. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct LifeArgs {
    /// A configuration of the filter, or of Envoy with the filter inside: a retiring key stays for the longest life of
    /// a token under its policies
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// The longest life of a token [default: that of the default `maxIdle`: 168h, a tenth of it, and a minute]
    #[arg(long, value_name = "DURATION", conflicts_with = "config")]
    pub(crate) longest_life: Option<GatewayDuration>,
}

/// Seal a keyring under a key-encryption key, for `wrappedKeys.text` of the filter's configuration
///
/// The command reads the key-encryption key from an environment variable, as the filter does in Envoy.
#[derive(Debug, Args)]
#[command(after_help = format!("{KEYS_FILE}\n\n{EXIT_CODES}"))]
pub(crate) struct WrapArgs {
    /// A keyring file, or another file of keys
    pub(crate) file: String,
    /// The id of the key-encryption key, and the environment variable that holds it [default with --into: the one that
    /// the present text is sealed under]
    #[arg(long, value_name = "ID=VARIABLE")]
    pub(crate) key_encryption_key: Option<String>,
    /// Replace `wrappedKeys.text` in this file, a configuration with the filter, instead of printing the text; nothing
    /// else in the file changes
    #[arg(long, value_name = "FILE")]
    pub(crate) into: Option<String>,
}
