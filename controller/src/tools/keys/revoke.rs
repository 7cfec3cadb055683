//! `limpet keys revoke`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::count::KeyCounts;
use super::generate;
use super::ids;
use super::keyring_file::KeyringFile;
use super::{lifetime, rotation};
use crate::cli::{RevokeArgs, required};
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use crate::time_format;
use limpet_core::config::schema::KeyStateConfig;
use limpet_core::time::Timestamp;

/// What has to be done next.
const URGENT: &str = "give this keyring to every Envoy at once: one that has another honours the key";
/// What has to be done next after a dry run.
const FOR_REAL: &str = "the same without --dry-run";

/// What the command did.
struct RevocationResult {
    /// The keys that it revokes.
    revoked: BTreeSet<u8>,
    /// The keys that were revoked before.
    before: BTreeSet<u8>,
    dry_run: bool,
}

pub(crate) fn run(args: &RevokeArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let life = lifetime::from_args(&args.life)?;
    let now = time_format::now();
    let mut keyring = KeyringFile::read(required(args.file.as_ref())?)?;
    let counts = (!args.stats.is_empty())
        .then(|| KeyCounts::read(&args.stats))
        .transpose()?;
    let done = revoke(&mut keyring, now, args)?;
    let ends = counts.map(|counts| (counts.sessions(&done.revoked), counts.source()));
    match form {
        Output::Text { .. } => {
            let report = keyring.text_report(now, life, done.next(), false);
            output::print(&format!("{report}revoked  {}\n", done.words()))?;
            // Nothing ends that has not ended before.
            if let Some((sessions, source)) = ends.filter(|_| !done.revoked.is_empty()) {
                output::print(&format!("ends     at most {sessions} sessions, {source}\n"))?;
            }
        }
        Output::Document(format) => {
            let mut report = keyring.json_report(now, life);
            let ends = ends.map(|(sessions, _)| sessions);
            report.insert("revoked".to_owned(), json!(done.revoked));
            report.insert("written".to_owned(), done.writes().into());
            report.insert("endsAtMost".to_owned(), ends.into());
            output::print_document(format, &Value::Object(report))?;
        }
    }
    Ok(CommandVerdict::Good)
}

fn revoke(keyring: &mut KeyringFile, now: Timestamp, args: &RevokeArgs) -> Result<RevocationResult, CommandFailure> {
    let ids: BTreeSet<u8> = args.key.iter().copied().collect();
    let keys = keyring.document.keys.iter();
    let revoked = keys.filter(|key| key.state == KeyStateConfig::Revoked);
    let revoked: BTreeSet<u8> = revoked.map(|key| key.id).collect();
    let done = RevocationResult {
        revoked: &ids - &revoked,
        before: &ids & &revoked,
        dry_run: args.dry_run,
    };
    rotation::revoke(&mut keyring.document, &ids, now, generate::secret()?)
        .map_err(|unfit| CommandFailure(format!("--key: {unfit}")))?;
    // Whatever was read: what is written must be a keyring.
    keyring
        .document
        .check()
        .map_err(|error| CommandFailure(format!("{}: {error}", keyring.file)))?;
    if done.writes() {
        keyring.replace()?;
    }
    Ok(done)
}

impl RevocationResult {
    fn writes(&self) -> bool {
        !self.dry_run && !self.revoked.is_empty()
    }

    fn next(&self) -> Option<&'static str> {
        match (self.revoked.is_empty(), self.dry_run) {
            (true, _) => None,
            (false, true) => Some(FOR_REAL),
            (false, false) => Some(URGENT),
        }
    }

    fn words(&self) -> String {
        let was = if self.before.len() > 1 { "were" } else { "was" };
        let before = format!("{} {was} revoked before", ids::keys(&self.before));
        if self.revoked.is_empty() {
            return format!("nothing more: {before}, and nothing is written");
        }
        let revoked = ids::keys(&self.revoked);
        let revoked = if self.dry_run {
            format!("nothing, because of --dry-run; without it: {revoked}")
        } else {
            revoked
        };
        if self.before.is_empty() {
            revoked
        } else {
            format!("{revoked}; {before}")
        }
    }
}
