//! `limpet keys count`: what Envoys counted of each key, from the texts of their `/stats`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;

use serde_json::{Value, json};

use crate::cli::CountArgs;
use crate::exit::{CommandFailure, CommandVerdict};
use crate::output::{self, Output};
use limpet_core::outcome::KeyOutcome;

/// The sums over all texts.
#[derive(Debug, Default)]
pub(super) struct KeyCounts {
    /// How many texts there are.
    envoys: usize,
    keys: BTreeMap<u8, OfKey>,
}

/// By the index in [`KeyOutcome::ALL`].
#[derive(Debug, Clone, Copy, Default)]
struct OfKey([u64; KeyOutcome::ALL.len()]);

impl OfKey {
    /// How many sessions may have a token of the key.
    fn sessions(self) -> u64 {
        let [given, replaced, ended] = self.0;
        given.saturating_sub(replaced).saturating_sub(ended)
    }
}

pub(crate) fn run(args: &CountArgs, form: Output) -> Result<CommandVerdict, CommandFailure> {
    let counts = KeyCounts::read(&args.stats)?;
    match form {
        Output::Text { .. } => output::print(&counts.text())?,
        Output::Document(format) => output::print_document(format, &counts.json())?,
    }
    Ok(CommandVerdict::Good)
}

impl KeyCounts {
    /// Reads the text of each Envoy; `-` is the standard input.
    ///
    /// # Errors
    /// If one cannot be read, is given twice, or has no counter of a key.
    pub(super) fn read(files: &[String]) -> Result<Self, CommandFailure> {
        let mut counts = Self::default();
        let mut known = BTreeMap::new();
        for file in files {
            let (identity, text) =
                read(file).map_err(|error| CommandFailure(format!("{file}: cannot be read: {error}")))?;
            if let Some(other) = known.insert(identity, file) {
                return Err(CommandFailure(format!(
                    "{file}: expected one file for each Envoy, found the one that {other} is"
                )));
            }
            if counts.add(&text) == 0 {
                return Err(CommandFailure(format!(
                    "{file}: expected what an Envoy with the filter says at /stats, /stats?format=json or \
                     /stats/prometheus, found no counter limpet.keys.<id>.given; with sdsKeys, there is none"
                )));
            }
        }
        Ok(counts)
    }

    /// Returns how many counters there were.
    fn add(&mut self, text: &str) -> usize {
        self.envoys += 1;
        counters(text)
            .into_iter()
            .map(|(id, outcome, count)| {
                let key = self.keys.entry(id).or_default();
                if let Some(sum) = key.0.get_mut(outcome as usize) {
                    *sum += count;
                }
            })
            .count()
    }

    /// How many sessions may have a token of one of these keys.
    pub(super) fn sessions(&self, ids: &BTreeSet<u8>) -> u64 {
        let keys = ids.iter().filter_map(|id| self.keys.get(id));
        keys.map(|key| key.sessions()).sum()
    }

    /// Where the numbers come from.
    pub(super) fn source(&self) -> String {
        let (envoys, they) = if self.envoys == 1 {
            ("Envoy", "it")
        } else {
            ("Envoys", "they")
        };
        format!(
            "counted by {} {envoys} since {they} started; earlier tokens, and tokens of other Envoys, are left out",
            self.envoys
        )
    }

    fn text(&self) -> String {
        let line = |(id, key): (&u8, &OfKey)| {
            let [given, replaced, ended] = key.0;
            let sessions = key.sessions();
            format!("key {id:<3}  at most {sessions} sessions: given {given}, replaced {replaced}, ended {ended}\n")
        };
        let keys: String = self.keys.iter().map(line).collect();
        format!("{keys}source   {}\n", self.source())
    }

    fn json(&self) -> Value {
        let key = |(id, key): (&u8, &OfKey)| {
            let [given, replaced, ended] = key.0;
            json!({"id": id, "sessions": key.sessions(), "given": given, "replaced": replaced, "ended": ended})
        };
        json!({"envoys": self.envoys, "keys": self.keys.iter().map(key).collect::<Vec<_>>()})
    }
}

/// What a file is, whatever it is called: its device and its number there.
type FileIdentity = (u64, u64);

fn read(file: &str) -> std::io::Result<(FileIdentity, String)> {
    let mut opened = if file == "-" {
        File::from(std::io::stdin().as_fd().try_clone_to_owned()?)
    } else {
        File::open(file)?
    };
    let metadata = opened.metadata()?;
    let mut text = String::new();
    opened.read_to_string(&mut text)?;
    Ok(((metadata.dev(), metadata.ino()), text))
}

/// The counters of keys in lines, or in Envoy's JSON.
fn counters(text: &str) -> Vec<(u8, KeyOutcome, u64)> {
    let Ok(Value::Object(json)) = serde_json::from_str(text) else {
        return text.lines().filter_map(counter).collect();
    };
    let stats = json.get("stats").and_then(Value::as_array);
    let line = |stat: &Value| counter(&format!("{}: {}", stat.get("name")?.as_str()?, stat.get("value")?));
    stats.into_iter().flatten().filter_map(line).collect()
}

/// The counter of a key in a line like `wasmcustom.limpet.keys.3.given: 17`, or in Prometheus' form of it.
fn counter(line: &str) -> Option<(u8, KeyOutcome, u64)> {
    let line = line.replace(['.', '{'], "_");
    let (_, rest) = line.split_once("limpet_keys_")?;
    let (id, rest) = rest.split_once('_')?;
    let outcome = KeyOutcome::ALL.into_iter().find(|outcome| {
        let rest = rest.strip_prefix(outcome.as_str());
        rest.is_some_and(|rest| rest.starts_with([':', '_', ' ']))
    })?;
    let count = rest.split_whitespace().next_back()?;
    Some((id.parse().ok()?, outcome, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_keys_are_found_in_both_forms() {
        for (line, expected) in [
            ("wasmcustom.limpet.keys.3.given: 17", Some((3, KeyOutcome::Given, 17))),
            ("limpet.keys.255.ended: 0", Some((255, KeyOutcome::Ended, 0))),
            (
                "dynamicmodulescustom.limpet.keys.0.replaced: 1",
                Some((0, KeyOutcome::Replaced, 1)),
            ),
            (
                "envoy_wasmcustom_limpet_keys_3_given{} 17",
                Some((3, KeyOutcome::Given, 17)),
            ),
            (
                "envoy_dynamicmodulescustom_limpet_keys_3_ended{a=\"b.c\"} 2",
                Some((3, KeyOutcome::Ended, 2)),
            ),
            (
                "envoy_wasmcustom_limpet_keys_3_given 17",
                Some((3, KeyOutcome::Given, 17)),
            ),
            ("# TYPE envoy_wasmcustom_limpet_keys_3_given counter", None),
            ("wasmcustom.limpet.keys.300.given: 17", None),
            ("wasmcustom.limpet.keys.3.giving: 17", None),
            ("wasmcustom.limpet.web.steered: 17", None),
            ("wasmcustom.limpet.keys.3.refused.expired: 17", None),
            ("", None),
        ] {
            assert_eq!(counter(line), expected, "{line}");
        }
    }
}
