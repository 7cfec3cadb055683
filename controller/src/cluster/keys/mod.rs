//! `limpet keys` of a cluster: the Secret with the controller's keyring. The controller changes it; a person asks by an
//! annotation. Only `list` reads what is in it.
//!
//! - `request`: what is asked for by an annotation, and whether it may be. Pure.

mod request;

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Error};
use serde_json::{Value, json};

use crate::cluster::cli::{
    CONFIG_MAP, KeysCommand, ListKeysArgs, RevokeKeysArgs, RotateKeysArgs, SecretArgs, TargetKind,
};
use crate::cluster::config::Config;
use crate::cluster::explain::ConfigSource;
use crate::cluster::kube::{FIELD_MANAGER, connect, words};
use crate::cluster::reconcile::keyring::{self, KeyringConfig, KeyringReading};
use crate::cluster::runtime::runtime;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use crate::time_format;
use crate::tools::keys::{self, ids, keyring_file, lifetime};
use limpet_api::ObjectName;
use request::KeyringRequest;

pub(crate) fn run(command: &KeysCommand, form: Output) -> Result<CommandVerdict, CommandFailure> {
    match command {
        KeysCommand::Count(args) => keys::count::run(args, form),
        KeysCommand::Generate(args) => keys::generate::run(args, form),
        KeysCommand::Wrap(args) => keys::wrap::run(args, form),
        KeysCommand::List(args) if args.of_file.file.is_some() => keys::list::run(&args.of_file, form),
        KeysCommand::Revoke(args) if args.of_file.file.is_some() => keys::revoke::run(&args.of_file, form),
        KeysCommand::Rotate(args) if args.of_file.file.is_some() => keys::rotate::run(&args.of_file, form),
        KeysCommand::List(args) => in_cluster(list(args, form)),
        KeysCommand::Revoke(args) => in_cluster(revoke(args, form)),
        KeysCommand::Rotate(args) => in_cluster(rotate(args, form)),
    }
}

fn in_cluster(work: impl Future<Output = Result<(), CommandFailure>>) -> Result<CommandVerdict, CommandFailure> {
    let runtime = runtime()?;
    runtime.block_on(work).map(|()| CommandVerdict::Good)
}

/// The keyring of a cluster.
struct ClusterKeyring {
    secrets: Api<Secret>,
    name: ObjectName,
    config: KeyringConfig,
}

impl ClusterKeyring {
    /// # Errors
    /// If nothing says where it is, or it is in no Secret.
    async fn find(args: &SecretArgs) -> Result<Self, CommandFailure> {
        let client = connect(&args.reach.cluster).await?.client;
        if let Some(name) = &args.secret {
            return Ok(Self::new(&client, name.clone(), KeyringConfig::default()));
        }
        let namespace = &args.reach.controller;
        let mut unknown = Vec::new();
        let source = ConfigSource {
            file: None,
            controller: &ObjectName::new(namespace, CONFIG_MAP),
            // The keyring is the same for all of them.
            target: TargetKind::Envoy,
        };
        let Config { keyring, .. } = source.read(&client, &mut unknown).await?;
        for why in unknown {
            output::print_error(&format!("warning: {why}\n"));
        }
        if let Some(file) = &keyring.file {
            return Err(CommandFailure(format!(
                "the controller reads its keyring from its file {file}: expected FILE, a copy of it, or --secret"
            )));
        }
        Ok(Self::new(&client, ObjectName::new(namespace, &keyring.secret), keyring))
    }

    fn new(client: &Client, name: ObjectName, config: KeyringConfig) -> Self {
        Self {
            secrets: Api::namespaced(client.clone(), &name.namespace),
            name,
            config,
        }
    }

    fn missing(&self) -> CommandFailure {
        CommandFailure(format!(
            "Secret {} does not exist: expected the keyring of a controller (--secret, --controller)",
            self.name
        ))
    }

    fn failed(&self, what: &str, error: &Error) -> CommandFailure {
        CommandFailure(format!("cannot {what} the Secret {}: {}", self.name, words(error)))
    }

    /// Asks the controller by an annotation. No key comes here: only metadata is read.
    async fn ask(&self, request: &KeyringRequest, dry_run: bool) -> Result<(), CommandFailure> {
        let found = self.secrets.get_metadata_opt(&self.name.name).await;
        let found = found.map_err(|error| self.failed("read", &error))?;
        let meta = found.ok_or_else(|| self.missing())?.metadata;
        let present = meta.annotations.unwrap_or_default();
        request
            .check(&present)
            .map_err(|why| CommandFailure(format!("Secret {}: {why}", self.name)))?;
        // What was read must not have changed.
        let change = json!({"metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "annotations": {request.annotation(): request.value()},
        }});
        let params = PatchParams {
            dry_run,
            ..PatchParams::apply(FIELD_MANAGER)
        };
        let change = Patch::Merge(&change);
        let patched = self.secrets.patch_metadata(&self.name.name, &params, &change).await;
        patched.map(drop).map_err(|error| self.failed("annotate", &error))
    }

    async fn say(&self, request: &KeyringRequest, dry_run: bool, form: Output) -> Result<(), CommandFailure> {
        self.ask(request, dry_run).await?;
        match form {
            Output::Text { .. } => output::print(&request.text(&self.name, dry_run)),
            Output::Document(format) => output::print_document(format, &request.json(&self.name, dry_run)),
        }
    }
}

async fn rotate(args: &RotateKeysArgs, form: Output) -> Result<(), CommandFailure> {
    let of_file = &args.of_file;
    only_with_file(&[
        ("--begin", of_file.begin),
        ("--force", of_file.force),
        ("--config", of_file.life.config.is_some()),
        ("--longest-life", of_file.life.longest_life.is_some()),
    ])?;
    let keyring = ClusterKeyring::find(&args.keyring).await?;
    let request = KeyringRequest::Rotate(time_format::now());
    keyring.say(&request, of_file.dry_run, form).await
}

async fn revoke(args: &RevokeKeysArgs, form: Output) -> Result<(), CommandFailure> {
    let of_file = &args.of_file;
    only_with_file(&[
        ("--stats", !of_file.stats.is_empty()),
        ("--config", of_file.life.config.is_some()),
        ("--longest-life", of_file.life.longest_life.is_some()),
    ])?;
    let keyring = ClusterKeyring::find(&args.keyring).await?;
    let request = KeyringRequest::Revoke(of_file.key.iter().copied().collect());
    keyring.say(&request, of_file.dry_run, form).await
}

/// # Errors
/// If an option is given that is about keyring files.
fn only_with_file(options: &[(&str, bool)]) -> Result<(), CommandFailure> {
    match options.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(CommandFailure(format!(
            "{option}: expected it only with FILE: the controller decides this for the keyring of a cluster"
        ))),
        None => Ok(()),
    }
}

async fn list(args: &ListKeysArgs, form: Output) -> Result<(), CommandFailure> {
    let life = lifetime::from_args(&args.of_file.life)?;
    let keyring = ClusterKeyring::find(&args.keyring).await?;
    let secret = keyring.secrets.get_opt(&keyring.name.name).await;
    let secret = secret.map_err(|error| keyring.failed("read", &error))?;
    let secret = secret.ok_or_else(|| keyring.missing())?;
    let now = time_format::now();
    let KeyringReading {
        document,
        problems,
        revoking,
        is_rotation_requested,
    } = keyring::read(&keyring.config, secret, now);
    for problem in &problems {
        output::print_error(&format!("warning: Secret {}: {problem}\n", keyring.name));
    }
    let Some(document) = document else {
        return Err(CommandFailure(format!("Secret {} has no valid keyring", keyring.name)));
    };
    let listed = keyring_file::of_cluster(&keyring.name.to_string(), document);
    match form {
        Output::Text { is_wide } => {
            let mut text = listed.text_report(now, life, None, is_wide);
            if is_rotation_requested {
                text += "asked    a rotation, which has not begun\n";
            }
            if !revoking.is_empty() {
                // Writing to a String cannot fail.
                let _ = writeln!(
                    text,
                    "revoked  {}, which not every Envoy knows yet",
                    ids::keys(&revoking)
                );
            }
            output::print(&text)
        }
        Output::Document(format) => {
            let mut fields = listed.json_report(now, life);
            fields.remove("file");
            fields.insert("secret".to_owned(), keyring.name.to_string().into());
            fields.insert("rotationRequested".to_owned(), is_rotation_requested.into());
            fields.insert("revoking".to_owned(), json!(revoking));
            output::print_document(format, &Value::Object(fields))
        }
    }
}
