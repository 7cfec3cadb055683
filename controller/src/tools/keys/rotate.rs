//! `limpet keys rotate`.

use std::time::Duration;

use super::generate;
use super::keyring_file::KeyringFile;
use super::lifetime;
use super::rotation::{self, Phase};
use crate::cli::RotateArgs;
use crate::exit::{Failure, Verdict};
use crate::output::{self, Output};
use crate::time_format;
use limpet_core::time::Timestamp;

pub(crate) fn run(args: &RotateArgs, form: Output) -> Result<Verdict, Failure> {
    let life = lifetime::from_args(&args.life)?;
    let now = time_format::now();
    let mut keyring = KeyringFile::read(&args.file)?;
    if let Err(too_early) = rotate(&mut keyring, now, life, args.force)? {
        output::complain(&format!("too early: {too_early}\n"));
        return Ok(Verdict::Bad);
    }
    // Whatever was read: what is written must be a keyring.
    keyring
        .document
        .check()
        .map_err(|error| Failure(format!("{}: {error}", args.file)))?;
    keyring.replace()?;
    keyring.print(form, now, life)?;
    Ok(Verdict::Good)
}

/// Takes the rotation one phase further; the inner error says why it is too early.
fn rotate(
    keyring: &mut KeyringFile,
    now: Timestamp,
    life: Duration,
    force: bool,
) -> Result<Result<(), String>, Failure> {
    let phase = keyring.phase(life)?;
    if let Phase::Retiring(end) = phase
        && !force
    {
        match end {
            Some(end) if end > now => {
                let until = time_format::words(end, now);
                return Ok(Err(format!(
                    "a token of a retiring key may live until {until}; --force removes the key anyway, and ends its \
                     sessions"
                )));
            }
            None => {
                return Ok(Err(
                    "it is not known since when keys retire; --force removes them anyway".to_owned(),
                ));
            }
            Some(_) => {}
        }
    }
    rotation::step(&mut keyring.document, phase, now, generate::secret()?);
    Ok(Ok(()))
}
