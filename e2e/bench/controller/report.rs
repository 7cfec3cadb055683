//! The output.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use limpet_e2e::kibibytes;
pub(crate) use limpet_e2e::milliseconds;

pub(crate) fn row(what: &str, value: impl Display) {
    println!("  {what:44} {value}");
}

pub(crate) fn kilobytes(count: u64) -> String {
    format!("{}.{} MB", count / 1024, count % 1024 * 10 / 1024)
}

/// In KiB.
pub(crate) fn peak_memory(process: &str) -> Result<u64> {
    kibibytes(process, "status", "VmHWM:")
}

/// In KiB.
pub(crate) fn memory(process: &str) -> Result<u64> {
    kibibytes(process, "status", "VmRSS:")
}

pub(crate) fn latencies(mut times: Vec<Duration>) -> Result<String> {
    times.sort();
    let (Some(longest), count) = (times.last(), times.len()) else {
        bail!("nothing measured");
    };
    let at = |of_hundred: usize| times.get((count * of_hundred).div_ceil(100).saturating_sub(1));
    let (middle, high) = at(50).zip(at(99)).context("nothing measured")?;
    let [middle, high, longest] = [*middle, *high, *longest].map(milliseconds);
    Ok(format!("p50 {middle}, p99 {high}, longest {longest} ({count})"))
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
