//! `limpet keys rotate`.

use std::time::Duration;

use limpet_core::config;
use limpet_core::time::Timestamp;

use crate::cli::{LifeArgs, RotateArgs};
use crate::envoy_config::discovery;
use crate::envoy_config::filter_configs;
use crate::envoy_config::node::Node;
use crate::exit::{Failure, Verdict};
use crate::output::{self, Output};
use crate::time_format;

use super::generate;
use super::ring::{self, Ring};
use super::rotation::{self, Phase};

pub(crate) fn run(args: &RotateArgs, form: Output) -> Result<Verdict, Failure> {
    let life = life(&args.life)?;
    let now = time_format::now();
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
    let phase = ring.phase(life)?;
    if let Phase::Retiring(end) = phase
        && !force
    {
        match end {
            Some(end) if end > now => {
                let until = time_format::words(end, now);
                return Ok(Err(format!(
                    "a token of a retiring key may live until {until}; --force removes the key all the same, and ends its sessions"
                )));
            }
            None => {
                return Ok(Err(
                    "since when keys retire is not known; --force removes them all the same".to_owned(),
                ));
            }
            Some(_) => {}
        }
    }
    rotation::step(&mut ring.document, phase, now, generate::secret()?);
    Ok(Ok(()))
}

/// How long a token may live unused.
pub(super) fn life(args: &LifeArgs) -> Result<Duration, Failure> {
    match (&args.config, args.longest_life) {
        (_, Some(life)) => Ok(life.get()),
        (Some(file), None) => {
            let documents = discovery::read(file)?;
            let roots: Vec<Node<'_>> = documents.iter().map(|(file, value)| Node::root(file, value)).collect();
            let configs = filter_configs::read(file, &roots)?;
            Ok(configs.iter().map(config::longest_life).max().unwrap_or_default())
        }
        (None, None) => Ok(ring::default_life()),
    }
}
