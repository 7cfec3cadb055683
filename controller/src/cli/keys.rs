use clap::{Args, Subcommand};

use super::KEYS_FILE;
use crate::exit::EXIT_CODES;
use limpet_core::time::GatewayDuration;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    Count(CountArgs),
    Generate(GenerateArgs),
    List(ListArgs),
    Revoke(RevokeArgs),
    Rotate(RotateArgs),
    Wrap(WrapArgs),
}

/// Say how many sessions may have a token of each key, as Envoys counted them
///
/// It is an upper bound for these Envoys: sessions that have timed out, and those of clients that never come back, are
/// among them. It leaves out tokens that an Envoy gave before it was started again, and those of other Envoys.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct CountArgs {
    /// What each Envoy says at `/stats`, `/stats?format=json` or `/stats/prometheus` of its admin interface; `-` for
    /// the standard input
    #[arg(required = true)]
    pub(crate) stats: Vec<String>,
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
    /// A keyring file; or a configuration of the filter, or of Envoy with the filter inside, whose keys have no age;
    /// `-` is standard input
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) life: LifeArgs,
}

/// Take the rotation of a keyring file one phase further
///
/// From one key: add a new key, which verifies (phase 1); let the new key sign (phase 2); let the old key retire, so
/// that its tokens are replaced as they come in (phase 3); remove the old key. Every Envoy must have the keyring of one
/// phase before the next one begins: distribute it with `limpet keys wrap`. An old key is removed only when all its
/// tokens have ended. With --begin, the next rotation begins while old keys retire; at most 8 may.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RotateArgs {
    /// The keyring file
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) life: LifeArgs,
    /// Begin the next rotation although old keys retire
    #[arg(long)]
    pub(crate) begin: bool,
    /// Remove retiring keys at any age, which ends the sessions of their tokens
    #[arg(long)]
    pub(crate) force: bool,
}

/// Revoke keys that somebody else may know
///
/// A revoked key counts nothing from the moment on at which an Envoy has the keyring: its secret is forgotten, and its
/// id stays, so that Envoys count the sessions that end. If the key signs, another one signs in the same step: the one
/// that verifies, because Envoys know it, or else a new one.
#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct RevokeArgs {
    /// The keyring file
    pub(crate) file: String,
    /// The id of the key; give several ids, like 3,4, to revoke several keys at once
    #[arg(long, value_name = "ID", required = true, num_args = 1.., value_delimiter = ',')]
    pub(crate) key: Vec<u8>,
    /// What each Envoy says at `/stats`, as for `count`: with it, say how many sessions this ends at most
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) stats: Vec<String>,
    /// Print what the keyring would be, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) life: LifeArgs,
}

// How long a retiring key has to stay. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct LifeArgs {
    /// A configuration of the filter, or of Envoy with the filter inside: a retiring key stays for the longest life of
    /// a token under its policies
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// The longest life of a token [default: 184h49m, for the default `maxIdle`]
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
