//! Keyring files: reading and writing them, and which phase of a rotation one is in.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::rotation::{self, RetiredKey, RotationError, RotationPhase, RotationStep, created, since};
use crate::cli::own_name;
use crate::envoy_config::{config_file, object_file};
use crate::exit::CommandFailure;
use crate::output::{self, Output};
use crate::time_format;
use limpet_core::config::schema::KeyStateConfig;
use limpet_core::config::{KeyDocument, KeyringDocument};
use limpet_core::keyring::Secret;
use limpet_core::time::Timestamp;

/// The field of the Secret with the keyring, in the form that `limpet keys generate --write FILE` writes.
pub(crate) const IN_SECRET: &str = "keyring.json";

pub(crate) struct KeyringFile {
    pub(super) file: String,
    /// Whether the controller of a cluster rotates it.
    is_controllers: bool,
    pub(super) document: KeyringDocument,
}

impl KeyringFile {
    pub(super) fn read(file: &str) -> Result<Self, CommandFailure> {
        let document = config_file::read(file)?;
        Self::from_document(file, &document).unwrap_or_else(|| {
            let expected = || "expected a keyring file, as `limpet keys generate --write FILE` makes one".to_owned();
            let told = object_file::instead(&document, IN_SECRET).unwrap_or_else(expected);
            Err(CommandFailure(format!("{file}: {told}")))
        })
    }

    /// `None` if this is no keyring file, which is recognized by its secrets.
    pub(super) fn from_document(file: &str, document: &Value) -> Option<Result<Self, CommandFailure>> {
        let keys = document.get("keys")?.as_array()?;
        keys.iter().find(|key| key.get("secret").is_some())?;
        let text = Zeroizing::new(document.to_string());
        let parsed =
            KeyringDocument::parse(text.as_bytes()).map_err(|error| CommandFailure(format!("{file}: {error}")));
        Some(parsed.and_then(|document| {
            let keyring = Self::new(file, document);
            rotation::check_times(&keyring.document).map_err(|unfit| keyring.failed(&unfit))?;
            keyring.warn_of_readers();
            Ok(keyring)
        }))
    }

    pub(super) fn new(file: &str, document: KeyringDocument) -> Self {
        Self {
            file: file.to_owned(),
            is_controllers: false,
            document,
        }
    }

    pub(super) fn failed(&self, unfit: &RotationError) -> CommandFailure {
        CommandFailure(format!("{}: {unfit}", self.file))
    }

    fn warn_of_readers(&self) {
        let mode = std::fs::metadata(&self.file).map(|metadata| metadata.permissions().mode());
        if let Ok(mode) = mode
            && mode & 0o077 != 0
        {
            let mode = mode & 0o777;
            let warning = format!(
                "warning: {}: others than its owner may read it (mode {mode:o})\n",
                self.file
            );
            output::print_error(&warning);
        }
    }

    /// Writes a new file.
    pub(super) fn create(&self) -> Result<(), CommandFailure> {
        config_file::create(&self.file, &self.json())
    }

    pub(super) fn replace(&self) -> Result<(), CommandFailure> {
        config_file::replace(&self.file, &self.json(), true)
    }

    fn json(&self) -> Zeroizing<String> {
        // Every field is a string or a number, so this cannot fail.
        let text = Zeroizing::new(serde_json::to_string_pretty(&self.document).unwrap_or_default());
        Zeroizing::new(format!("{}\n", *text))
    }

    /// The phase of the rotation.
    ///
    /// # Errors
    /// If the keys have states that no rotation gives them.
    pub(super) fn phase(&self) -> Result<RotationPhase, CommandFailure> {
        rotation::phase(&self.document).map_err(|unfit| self.failed(&unfit))
    }

    /// Takes one step of the rotation.
    ///
    /// # Errors
    /// If a key is added and there is no id for it.
    pub(super) fn step(&mut self, step: &RotationStep, now: Timestamp, fresh: Secret) -> Result<(), CommandFailure> {
        rotation::step(&mut self.document, step, now, fresh).map_err(|unfit| self.failed(&unfit))
    }

    /// Prints the keys, without secrets, and the next step of the rotation; `life`: how long a token may live unused.
    pub(super) fn print(&self, form: Output, now: Timestamp, life: Duration) -> Result<(), CommandFailure> {
        match form {
            Output::Text { is_wide } => output::print(&self.text_report(now, life, None, is_wide)),
            Output::Document(format) => output::print_document(format, &Value::Object(self.json_report(now, life))),
        }
    }

    pub(crate) fn json_report(&self, now: Timestamp, life: Duration) -> Map<String, Value> {
        let going = rotation::going(&self.document, life);
        let keys = self.document.keys.iter().map(|key| key_json(key, &going, now));
        let fields = [
            ("file", self.file.as_str().into()),
            ("phase", self.phase().ok().and_then(RotationPhase::number).into()),
            ("keys", keys.collect()),
        ];
        fields
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect()
    }

    /// `urgent`: what has to be done before the next step of the rotation; `is_wide`: with exact times.
    pub(crate) fn text_report(&self, now: Timestamp, life: Duration, urgent: Option<&str>, is_wide: bool) -> String {
        let going = rotation::going(&self.document, life);
        let words = |key: &KeyDocument| {
            let state = state_name(key.state);
            let unknown = || "unknown".to_owned();
            let since_words = if is_wide {
                time_format::words
            } else {
                time_format::distance
            };
            let since = since(key).map_or_else(unknown, |since| since_words(since, now));
            let created = created(key).map_or_else(unknown, |created| time_format::words(created, now));
            let removable = going.iter().find(|going| is_wide && going.id == key.id);
            let removable = removable.and_then(|going| going.end).map_or_else(String::new, |end| {
                format!(", removable from {}", time_format::words(end, now))
            });
            format!(
                "key {:<3}  {state:9}  since {since}, made {created}{removable}\n",
                key.id
            )
        };
        let keys: String = self.document.keys.iter().map(words).collect();
        let (done, next) = self.progress(self.phase().ok(), &going, now);
        let next = urgent.unwrap_or(&next);
        format!("phase    {done}\n{keys}next     {next}\n")
    }

    /// The controller, or the command with these options.
    fn who_rotates(&self, options: &str) -> String {
        if self.is_controllers {
            return "the controller".to_owned();
        }
        // What came by standard input is in some file all the same, or in a Secret.
        let file = if self.file == config_file::STDIN {
            "FILE"
        } else {
            &self.file
        };
        format!("`{} keys rotate {file}{options}`", own_name())
    }

    /// The phase, and the next step.
    fn progress(&self, phase: Option<RotationPhase>, going: &[RetiredKey], now: Timestamp) -> (String, String) {
        let id = |i: usize| self.document.keys.get(i).map_or(0, |key| key.id);
        let signing = id(rotation::signing(&self.document));
        let rotate = |options: &str| self.who_rotates(options);
        let everywhere = |then: String| format!("once every Envoy has this keyring, {}: {then}", rotate(""));
        match phase {
            None => (
                "unknown: no rotation gives keys these states".to_owned(),
                "by hand".to_owned(),
            ),
            Some(RotationPhase::Settled) => (
                if going.is_empty() {
                    format!("none: key {signing} signs, and there is no other key")
                } else {
                    format!("none: key {signing} signs, and all others are revoked")
                },
                if self.is_controllers {
                    let asks = format!("`{} keys rotate` asks", own_name());
                    format!("the controller makes a new key, which verifies, when it is due, or when {asks}")
                } else {
                    format!("{} makes a new key, which verifies", rotate(""))
                },
            ),
            Some(RotationPhase::Introduced(new)) => {
                let new = id(new);
                (
                    format!("1 of 3: key {new} verifies and signs nothing yet"),
                    everywhere(format!("key {new} signs")),
                )
            }
            Some(RotationPhase::Signing(old)) => {
                let old = id(old);
                (
                    format!("2 of 3: key {signing} signs, and tokens of key {old} are good"),
                    everywhere(format!(
                        "key {old} retires, and its tokens are replaced as they come in"
                    )),
                )
            }
            Some(RotationPhase::Retiring) => (
                format!("3 of 3: key {signing} signs, and tokens of retiring keys are replaced as they come in"),
                match going.iter().find(|going| going.retires).and_then(|first| first.end) {
                    Some(end) if end <= now => format!("{}: retiring keys go", rotate("")),
                    Some(end) => format!("{}, {}: retiring keys go", time_format::words(end, now), rotate("")),
                    None => format!(
                        "{}: retiring keys go; since when they retire is not known",
                        rotate(" --force")
                    ),
                },
            ),
        }
    }
}

/// The keyring of a cluster, from a Secret.
#[allow(dead_code, reason = "a build without the controller knows no cluster")]
pub(crate) fn of_cluster(secret: &str, document: KeyringDocument) -> KeyringFile {
    KeyringFile {
        is_controllers: true,
        ..KeyringFile::new(secret, document)
    }
}

/// As the configuration names it.
pub(crate) fn state_name(state: KeyStateConfig) -> &'static str {
    match state {
        KeyStateConfig::Signing => "signing",
        KeyStateConfig::Verifying => "verifying",
        KeyStateConfig::Retiring => "retiring",
        KeyStateConfig::Revoked => "revoked",
    }
}

fn key_json(key: &KeyDocument, going: &[RetiredKey], now: Timestamp) -> Value {
    let end = going
        .iter()
        .find(|going| going.id == key.id)
        .and_then(|going| going.end);
    json!({
        "removableFrom": end.map(time_format::exact),
        "id": key.id,
        "state": state_name(key.state),
        "created": key.created,
        "ageSeconds": created(key).map(|created| now.since(created).as_secs()),
        "since": key.since,
        "sinceSeconds": since(key).map(|since| now.since(since).as_secs()),
    })
}
