//! `limpet keys revoke`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::count::Counts;
use super::generate;
use super::keyring_file::KeyringFile;
use super::{lifetime, rotation};
use crate::cli::RevokeArgs;
use crate::exit::{Failure, Verdict};
use crate::output::{self, Output};
use crate::time_format;

/// What has to be done next.
const URGENT: &str = "give this keyring to every Envoy at once: one that has another honours the key";

pub(crate) fn run(args: &RevokeArgs, form: Output) -> Result<Verdict, Failure> {
    let life = lifetime::from_args(&args.life)?;
    let now = time_format::now();
    let mut keyring = KeyringFile::read(&args.file)?;
    let ids: BTreeSet<u8> = args.key.iter().copied().collect();
    let counts = (!args.stats.is_empty())
        .then(|| Counts::read(&args.stats))
        .transpose()?;
    rotation::revoke(&mut keyring.document, &ids, now, generate::secret()?)
        .map_err(|unfit| Failure(format!("--key: {unfit}")))?;
    // Whatever was read: what is written must be a keyring.
    keyring
        .document
        .check()
        .map_err(|error| Failure(format!("{}: {error}", args.file)))?;
    if !args.dry_run {
        keyring.replace()?;
    }
    let ends = counts.map(|counts| (counts.sessions(&ids), counts.source()));
    match form {
        Output::Text => {
            let ends = ends.map(|(sessions, source)| format!("ends     at most {sessions} sessions, {source}\n"));
            output::print(&format!(
                "{}{}",
                keyring.text_report(now, life, Some(URGENT)),
                ends.unwrap_or_default()
            ))?;
        }
        Output::Json => {
            let mut report = keyring.json_report(now, life);
            let ends = ends.map(|(sessions, _)| sessions);
            report.insert("endsAtMost".to_owned(), ends.into());
            output::print_json(&Value::Object(report))?;
        }
    }
    Ok(Verdict::Good)
}
