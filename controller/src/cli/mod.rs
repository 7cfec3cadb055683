//! The command line of the tools.

mod check;
mod envoy;
mod help;
mod keys;
mod name;
mod shell;
mod token;

pub(crate) use check::{CheckArgs, EnvoyVersion};
pub(crate) use envoy::{DrainEnvoyArgs, EnvoyCommand, InstallArgs, WaitDrainedArgs};
pub(crate) use help::with_help;
pub(crate) use keys::{CountArgs, GenerateArgs, LifeArgs, ListArgs, RevokeArgs, RotateArgs, WrapArgs, required};
pub(crate) use name::{PLUGIN, own_file_name, own_name};
pub(crate) use shell::{CompleteArgs, CompletionScript, CompletionsArgs, ManArgs};
pub(crate) use token::{InspectArgs, IssueArgs, RealmArgs, TokenCommand};
