//! `limpet keys rotate`.

use std::time::Duration;

use limpet_core::config;
use limpet_core::config::schema::KeyStateConfig;
use limpet_core::time::Timestamp;

use crate::check::discovery;
use crate::cli::{LifeArgs, RotateArgs};
use crate::node::Node;
use crate::output::{self, Output};
use crate::{Failure, Verdict, find, moment};

use super::ring::{self, Phase, Ring};

pub(crate) fn run(args: &RotateArgs, form: Output) -> Result<Verdict, Failure> {
    let life = life(&args.life)?;
    let now = moment::now();
    let mut ring = Ring::read(&args.file)?;
    if let Err(too_early) = rotate(&mut ring, now, life, args.force)? {
        output::complain(&format!("too early: {too_early}\n"));
        return Ok(Verdict::Bad);
    }
    // What is written has to be a keyring, whatever was read.
    ring.document
        .check()
        .map_err(|error| Failure(format!("{}: {error}", args.file)))?;
    ring.replace()?;
    ring.print(form, now, life)?;
    Ok(Verdict::Good)
}

/// One phase further. The inner error says why it is too early for that.
fn rotate(ring: &mut Ring, now: Timestamp, life: Duration, force: bool) -> Result<Result<(), String>, Failure> {
    let (phase, signing) = (ring.phase(life)?, ring.signing());
    match phase {
        Phase::Settled => {
            let last = ring.document.keys.get(signing).map_or(0, |key| key.id);
            // Later than the other, whatever the clock says: by that the next phase knows which one is new.
            let latest = ring.document.keys.iter().filter_map(ring::created).max();
            let made = latest.map_or(now, |latest| now.max(latest.after(Duration::from_millis(1))));
            // The ids of keys that are gone come back after 255 rotations.
            let new = ring::new_key(last.wrapping_add(1), KeyStateConfig::Verifying, made)?;
            ring.document.keys.push(new);
        }
        Phase::Introduced(new) => {
            set(ring, signing, KeyStateConfig::Verifying, now);
            set(ring, new, KeyStateConfig::Signing, now);
        }
        Phase::Signing(old) => set(ring, old, KeyStateConfig::Retiring, now),
        Phase::Retiring(end) => {
            match end.filter(|_| !force) {
                Some(end) if end > now => {
                    let until = moment::words(end, now);
                    return Ok(Err(format!(
                        "a token of a retiring key may live until {until}; --force removes the key all the same, and ends its sessions"
                    )));
                }
                None if !force => {
                    return Ok(Err(
                        "since when keys retire is not known; --force removes them all the same".to_owned(),
                    ));
                }
                _ => {}
            }
            ring.document.keys.retain(|key| key.state != KeyStateConfig::Retiring);
        }
    }
    Ok(Ok(()))
}

fn set(ring: &mut Ring, index: usize, state: KeyStateConfig, now: Timestamp) {
    if let Some(key) = ring.document.keys.get_mut(index) {
        key.state = state;
        key.since = Some(moment::exact(now));
    }
}

/// How long a token may live unused.
pub(super) fn life(args: &LifeArgs) -> Result<Duration, Failure> {
    match (&args.config, args.longest_life) {
        (_, Some(life)) => Ok(life.get()),
        (Some(file), None) => {
            let documents = discovery::read(file)?;
            let roots: Vec<Node<'_>> = documents.iter().map(|(file, value)| Node::root(file, value)).collect();
            let configs = find::configs(file, &roots)?;
            Ok(configs.iter().map(config::longest_life).max().unwrap_or_default())
        }
        (None, None) => Ok(ring::default_life()),
    }
}
