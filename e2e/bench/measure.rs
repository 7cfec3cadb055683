//! Variants take turns in short slices, in an order that changes each round, so that other load affects all of them.
//! Each is compared with its round's baseline. Only the half of the rounds with the least waiting for a CPU counts.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use limpet_e2e::Scheduled;

use crate::{h2load, load};

pub(crate) enum Load {
    Same(h2load::Load),
    Different(load::Load),
}

impl From<h2load::Load> for Load {
    fn from(load: h2load::Load) -> Self {
        Self::Same(load)
    }
}

impl From<load::Load> for Load {
    fn from(load: load::Load) -> Self {
        Self::Different(load)
    }
}

pub(crate) struct Run {
    pub(crate) name: String,
    pid: u32,
    load: Load,
    /// Microseconds of CPU per request, for each round.
    pub(crate) spent: Vec<f64>,
}

impl Run {
    pub(crate) fn new(name: impl Into<String>, pid: u32, load: impl Into<Load>) -> Self {
        Self {
            name: name.into(),
            pid,
            load: load.into(),
            spent: Vec::new(),
        }
    }

    async fn slice(&self, requests: usize) -> Result<Scheduled> {
        let before = Scheduled::of(self.pid)?;
        let sent = match &self.load {
            Load::Same(load) => load.send(requests),
            Load::Different(load) => load.send(requests).await,
        };
        sent.with_context(|| self.name.clone())?;
        Ok(Scheduled::of(self.pid)?.since(before))
    }

    pub(crate) fn median(&self) -> f64 {
        let [_, median, _] = quartiles(&self.spent);
        median
    }

    /// The CPU time beyond a baseline's, for each round.
    pub(crate) fn over(&self, baseline: &Self) -> Vec<f64> {
        let rounds = self.spent.iter().zip(&baseline.spent);
        rounds.map(|(spent, base)| spent - base).collect()
    }

    /// The CPU time as a multiple of another's, for each round.
    pub(crate) fn times(&self, other: &Self) -> Vec<f64> {
        let rounds = self.spent.iter().zip(&other.spent);
        rounds.map(|(spent, other)| spent / other).collect()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// The rounds, of which half count.
    pub(crate) rounds: usize,
    /// In each slice.
    pub(crate) requests: usize,
}

impl Effort {
    pub(crate) async fn measure(self, runs: &mut [&mut Run]) -> Result<()> {
        #[expect(clippy::cast_precision_loss, reason = "some thousands")]
        let requests = self.requests as f64;
        let count = runs.len();
        let mut waited = Vec::new();
        // The first round warms up connections, caches and V8's optimised code.
        for round in 0..=self.rounds {
            let mut waited_this_round = Duration::ZERO;
            for turn in 0..count {
                let at = if round % 2 == 0 {
                    round + turn
                } else {
                    round + count - turn
                };
                let Some(run) = runs.get_mut(at % count) else { continue };
                let Scheduled { ran, waited } = run.slice(self.requests).await?;
                waited_this_round += waited;
                if round > 0 {
                    run.spent.push(ran.as_secs_f64() * 1e6 / requests);
                }
            }
            if round > 0 {
                waited.push(waited_this_round);
            }
            eprint!("\rround {round} of {} ", self.rounds);
        }
        eprintln!();
        let mut sorted = waited.clone();
        sorted.sort();
        let limit = sorted
            .get(self.rounds.saturating_sub(1) / 2)
            .copied()
            .unwrap_or_default();
        for run in runs {
            let mut rounds = waited.iter();
            run.spent
                .retain(|_| rounds.next().is_some_and(|waited| *waited <= limit));
        }
        Ok(())
    }
}

/// Prints each build's addition to the first `loads` runs, without a filter, and to its own first load.
pub(crate) fn print_added(runs: &[Run], loads: usize, first_load: &str) -> Result<()> {
    let (baselines, builds) = runs.split_at_checked(loads).context("no baseline")?;
    for run in runs {
        ensure!(!run.spent.is_empty(), "{}: nothing measured", run.name);
    }
    let times = format!("times that of {first_load}");
    println!("{:45} {:>10} {:>20} {times:>24}", "", "added us", "quartiles");
    for build in builds.chunks(loads) {
        let added: Vec<_> = build
            .iter()
            .zip(baselines)
            .map(|(run, base)| quartiles(&run.over(base)))
            .collect();
        let [_, one, _] = added.first().copied().context("nothing measured")?;
        for (run, [low, median, high]) in build.iter().zip(&added) {
            let quartiles = format!("{low:.1} to {high:.1}");
            // Noise may exceed the addition.
            let times = if one > 0.0 {
                format!("{:.2}", median / one)
            } else {
                "cannot be resolved".to_owned()
            };
            println!("{:45} {median:10.2} {quartiles:>20} {times:>24}", run.name);
        }
    }
    println!();
    for run in baselines {
        println!("{:45} {:10.1}", run.name, run.median());
    }
    Ok(())
}

pub(crate) fn quartiles(values: &[f64]) -> [f64; 3] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| {
        let at = (sorted.len().saturating_sub(1)) * quarter / 4;
        sorted.get(at).copied().unwrap_or(f64::NAN)
    })
}
