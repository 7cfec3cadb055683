use clap::Args;

use crate::exit::CommandFailure;
use limpet_core::time::GatewayDuration;

/// Show how many sessions may have a token of each key, as Envoys counted them
///
/// It is an upper bound for these Envoys: it includes sessions that have timed out, and sessions of clients that never
/// come back. Tokens from before a restart of an Envoy, and tokens of other Envoys, are missing. So count before you
/// restart Envoys.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet keys count stats-of-envoy-1.txt stats-of-envoy-2.txt
  curl -s 127.0.0.1:19000/stats | limpet keys count -")]
pub(crate) struct CountArgs {
    /// The answers of Envoys' admin interfaces at `/stats`, `/stats?format=json` or `/stats/prometheus`, a file for
    /// each Envoy; `-` is standard input
    #[arg(required = true)]
    pub(crate) stats: Vec<String>,
}

/// Generate a key, or a keyring file with one key
///
/// By default, print a key: 32 random bytes in base64, for an environment variable of Envoy. It can also serve as a
/// key-encryption key.
#[derive(Debug, Args)]
#[command(after_help = "\
  export LIMPET_KEY=$(limpet keys generate)
  limpet keys generate --write keyring.json")]
pub(crate) struct GenerateArgs {
    /// Write a keyring file, in JSON, for its owner only (mode 0600). The file must not exist yet
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<String>,
}

// Which keys are listed. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// A keyring file; or a configuration of the filter, or of Envoy with the filter inside, whose keys have no age;
    /// `-` is standard input
    pub(crate) file: Option<String>,
    #[command(flatten)]
    pub(crate) life: LifeArgs,
}

// How a keyring is rotated. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct RotateArgs {
    /// The keyring file
    pub(crate) file: Option<String>,
    #[command(flatten)]
    pub(crate) life: LifeArgs,
    /// Begin the next rotation although old keys retire
    #[arg(long)]
    pub(crate) begin: bool,
    /// Remove retiring keys at any age, which ends the sessions of their tokens
    #[arg(long)]
    pub(crate) force: bool,
    /// Print what the keyring would be, and change nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

// Which keys are revoked. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct RevokeArgs {
    /// The keyring file
    pub(crate) file: Option<String>,
    /// The id of the key; give several ids, like 3,4, to revoke several keys at once
    #[arg(long, value_name = "ID", required = true, num_args = 1.., value_delimiter = ',')]
    pub(crate) key: Vec<u8>,
    /// The answers of Envoys at `/stats`, as for `limpet keys count`: with them, show how many sessions end at most
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
    /// A configuration with the filter: a retiring key stays for the longest life of a token under its policies
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<String>,
    /// The longest life of a token [default: 184h49m: the default `maxIdle` plus 10 % plus 1m]
    #[arg(long, value_name = "DURATION", conflicts_with = "config")]
    pub(crate) longest_life: Option<GatewayDuration>,
}

/// Seal a keyring under a key-encryption key, for `wrappedKeys.text` of the filter's configuration
///
/// The command reads the key-encryption key from an environment variable, as the filter does in Envoy. By default, it
/// prints the text.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet keys wrap keyring.json --key-encryption-key 1=LIMPET_KEK_1
  limpet keys wrap keyring.json --write envoy-configs/ecds/wrapped-keys.yaml")]
pub(crate) struct WrapArgs {
    /// A keyring file, or another file of keys: the `keys` list of the filter's configuration, or a whole configuration
    pub(crate) file: String,
    /// The id of the key-encryption key, and the environment variable that holds it [default with --write: the one that
    /// the present text is sealed under]
    #[arg(long, value_name = "ID=VARIABLE")]
    pub(crate) key_encryption_key: Option<String>,
    /// Replace `wrappedKeys.text` in this file, a configuration with the filter, instead of printing the text; nothing
    /// else in the file changes
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<String>,
}

/// The file of a command that needs one.
///
/// # Errors
/// If it was not given.
pub(crate) fn required(file: Option<&String>) -> Result<&str, CommandFailure> {
    file.map(String::as_str)
        .ok_or_else(|| CommandFailure("expected FILE, a keyring file".to_owned()))
}
