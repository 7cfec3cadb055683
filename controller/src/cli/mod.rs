//! The command line of the tools.

mod check;
mod envoy;
mod keys;
mod shell;
mod token;

pub(crate) use check::{CheckArgs, EnvoyVersion};
pub(crate) use envoy::{DrainEnvoyArgs, DrainedArgs, InstallArgs};
pub(crate) use keys::{CountArgs, GenerateArgs, KeysCommand, LifeArgs, ListArgs, RevokeArgs, RotateArgs, WrapArgs};
pub(crate) use shell::{CompletionsArgs, ManArgs};
pub(crate) use token::{InspectArgs, IssueArgs, RealmArgs, TokenCommand};

/// What several commands take, for their help.
pub(crate) const KEYS_FILE: &str = "\
A file of keys is the `keys` list of the filter's configuration, in YAML or JSON, or a whole configuration:

  - {id: 1, env: LIMPET_KEY, state: retiring}
  - {id: 2, inline: <32 bytes in base64>}

It may also be a keyring file, as `limpet keys generate FILE` makes one. A key given by `env` is read from the \
environment of this command.";
