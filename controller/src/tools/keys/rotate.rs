//! `limpet keys rotate`.

use std::collections::BTreeSet;
use std::time::Duration;

use super::generate;
use super::keyring_file::KeyringFile;
use super::lifetime;
use super::rotation::{self, MAX_RETIRING, RetiredKey, RotationPhase, RotationStep};
use crate::cli::{RotateArgs, required};
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use crate::time_format;
use limpet_core::time::Timestamp;

pub(crate) fn run(args: &RotateArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let life = lifetime::from_args(&args.life)?;
    let now = time_format::now();
    let mut keyring = KeyringFile::read(required(args.file.as_ref())?)?;
    if let Err(NotDue { why, is_for_ever }) = rotate(&mut keyring, now, life, args)? {
        match form {
            Output::Text { .. } if is_for_ever => output::print_error(&format!("not due: {why}\n")),
            Output::Text { .. } => output::print(&format!("not due: {why}\n"))?,
            Output::Document(format) => {
                let mut report = keyring.json_report(now, life);
                report.insert("notDue".to_owned(), why.into());
                output::print_document(format, &report.into())?;
            }
        }
        // A job that runs every week finds keys that still retire, and goes on when they are gone.
        return Ok(if is_for_ever {
            CommandVerdict::Warned
        } else {
            CommandVerdict::Good
        });
    }
    // Whatever was read: what is written must be a keyring.
    keyring
        .document
        .check()
        .map_err(|error| CommandFailure(format!("{}: {error}", keyring.file)))?;
    if !args.dry_run {
        keyring.replace()?;
    }
    keyring.print(form, now, life)?;
    Ok(CommandVerdict::Good)
}

/// Why the next step is not taken.
struct NotDue {
    why: String,
    /// Whether waiting does not change that.
    is_for_ever: bool,
}

/// Takes the rotation one phase further, if that is due.
fn rotate(
    keyring: &mut KeyringFile,
    now: Timestamp,
    life: Duration,
    args: &RotateArgs,
) -> Result<Result<(), NotDue>, CommandFailure> {
    let fresh = generate::secret()?;
    let going = rotation::going(&keyring.document, life);
    let is_over = |going: &&RetiredKey| (args.force && going.retires) || going.end.is_some_and(|end| end <= now);
    let over: BTreeSet<u8> = going.iter().filter(is_over).map(|going| going.id).collect();
    let removes = !over.is_empty();
    keyring.step(&RotationStep::Remove(over), now, fresh.clone())?;
    let step = match keyring.phase()? {
        RotationPhase::Introduced(new) => RotationStep::Sign(new),
        RotationPhase::Signing(old) => RotationStep::Retire(old),
        RotationPhase::Settled if !removes => RotationStep::Introduce,
        RotationPhase::Settled | RotationPhase::Retiring if args.begin && !rotation::is_full(&keyring.document) => {
            RotationStep::Introduce
        }
        RotationPhase::Settled | RotationPhase::Retiring if removes => return Ok(Ok(())),
        RotationPhase::Settled | RotationPhase::Retiring => return Ok(Err(not_due(&going, now, args.begin))),
    };
    keyring.step(&step, now, fresh)?;
    Ok(Ok(()))
}

/// Why the next step cannot be taken while these keys retire.
fn not_due(going: &[RetiredKey], now: Timestamp, begin: bool) -> NotDue {
    let first = going.iter().find(|going| going.retires);
    let Some(end) = first.and_then(|first| first.end) else {
        return NotDue {
            why: "it is not known since when keys retire; --force removes them anyway".to_owned(),
            is_for_ever: true,
        };
    };
    let until = time_format::words(end, now);
    let meanwhile = if begin {
        format!("{MAX_RETIRING} keys are retiring (maximum {MAX_RETIRING})")
    } else {
        "--begin starts the next rotation meanwhile".to_owned()
    };
    NotDue {
        why: format!(
            "a token of a retiring key may live until {until}; {meanwhile}; --force removes retiring keys anyway, and \
             ends their sessions"
        ),
        is_for_ever: false,
    }
}
