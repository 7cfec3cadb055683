use clap::{Args, Subcommand};

use super::ReachArgs;
use super::controller::object_name;
use crate::cli::{CountArgs, GenerateArgs, ListArgs, RevokeArgs, RotateArgs, WrapArgs};
use limpet_api::ObjectName;

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    Count(CountArgs),
    Generate(GenerateArgs),
    List(ListKeysArgs),
    Revoke(RevokeKeysArgs),
    Rotate(RotateKeysArgs),
    Wrap(WrapArgs),
}

/// List keys with their states and ages, and show the phase of the rotation
///
/// Without FILE, it is a cluster's keyring, which the controller rotates. It is read with the right to get its Secret.
/// Secrets of keys are never shown. With `-o wide`, each key has its exact times.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet keys list
  limpet keys list --secret limpet-system/limpet-keyring
  limpet keys list -o wide keyring.json --config envoy.yaml")]
pub(crate) struct ListKeysArgs {
    #[command(flatten)]
    pub(crate) of_file: ListArgs,
    #[command(flatten)]
    pub(crate) keyring: SecretArgs,
}

/// Rotate a keyring: ask the controller for it, or take a keyring file one phase further
///
/// Without FILE, the command sets the annotation `limpet.dev/rotate` of the Secret, and the controller rotates. It
/// needs the rights to get and patch the Secret. No key leaves the cluster.
///
/// A file is changed. From one key: add a new key, which verifies (phase 1); let the new key sign (phase 2); let the
/// old key retire, so that its tokens are replaced as they come in (phase 3); remove the old key. Every Envoy must have
/// the keyring of one phase before the next one begins: distribute it with `limpet keys wrap`.
///
/// A retiring or revoked key is removed when all its tokens have ended. Until then, in phase 3, the next phase is not
/// due, and the file stays as it is. With --begin, the next rotation begins while old keys retire, of which there are
/// at most 8.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet keys rotate
  limpet keys rotate --secret limpet-system/limpet-keyring --dry-run
  limpet keys rotate keyring.json --config envoy.yaml")]
pub(crate) struct RotateKeysArgs {
    #[command(flatten)]
    pub(crate) of_file: RotateArgs,
    #[command(flatten)]
    pub(crate) keyring: SecretArgs,
}

/// Revoke keys that have leaked
///
/// An Envoy that has the changed keyring honours no token of a revoked key. The secret is forgotten, and the id stays,
/// so that Envoys count the sessions that end. If the key signs, another one signs in the same step: the one that
/// verifies, because Envoys know it, or else a new one.
///
/// Without FILE, the command sets the annotation `limpet.dev/revoke` of the Secret, and the controller revokes. It
/// needs the rights to get and patch the Secret. No key leaves the cluster. A file is changed.
#[derive(Debug, Args)]
#[command(after_help = "\
  limpet keys revoke --key 3
  limpet keys revoke --key 3,4 --dry-run
  limpet keys revoke keyring.json --key 1 --stats stats-of-envoy-1.txt")]
pub(crate) struct RevokeKeysArgs {
    #[command(flatten)]
    pub(crate) of_file: RevokeArgs,
    #[command(flatten)]
    pub(crate) keyring: SecretArgs,
}

// Which keyring of a cluster. No doc comment: clap would take it for the command's.
#[derive(Debug, Args)]
pub(crate) struct SecretArgs {
    /// The Secret with the keyring of a controller [default without FILE: as the controller's configuration says]
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = object_name, conflicts_with = "file")]
    pub(crate) secret: Option<ObjectName>,
    #[command(flatten)]
    pub(crate) reach: ReachArgs,
}
