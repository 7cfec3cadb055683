//! The file of figures, and changes against it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::count::Counts;

const ABOUT: &str = "What one operation takes, in instructions of user space. Valgrind counts them, whose CPU has no \
    instructions for SHA-256, so that is most of each figure with a token; most real CPUs have them. The compiler \
    matters, too. `make bench-instructions` compares with these figures; UPDATE_INSTRUCTIONS=1 writes them again.";

/// The largest growth that is not reported.
const TOLERATED: f64 = 0.03;

pub(crate) type Figures = BTreeMap<String, Counts>;

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("figures.json")
}

pub(crate) fn write(figures: &Figures, tools: &str) -> Result<()> {
    let figures: serde_json::Map<String, Value> = figures
        .iter()
        .map(|(name, counts)| (name.clone(), counts.to_json()))
        .collect();
    let content = json!({"about": ABOUT, "measuredWith": tools, "operations": figures});
    std::fs::write(file(), format!("{content:#}\n"))?;
    println!("\nWrote {}", file().display());
    Ok(())
}

pub(crate) fn compare(figures: &Figures, tools: &str) -> Result<()> {
    let text = std::fs::read_to_string(file()).with_context(|| file().display().to_string())?;
    let content: Value = serde_json::from_str(&text)?;
    println!(
        "{:38} {:>12} {:>9} {:>10} {:>12}",
        "", "instructions", "change", "callbacks", "allocations"
    );
    let mut grown = Vec::new();
    for (name, counts) in figures {
        let former = content
            .pointer("/operations")
            .and_then(|operations| operations.get(name));
        let former = former.and_then(Counts::from_json);
        let change = former.as_ref().map(|former| counts.growth(former));
        let shown = change.map_or("new".to_owned(), |change| format!("{:+.2} %", change * 100.0));
        print!("{name:38} {:12} {shown:>9}", counts.instructions);
        match &counts.module {
            Some([callbacks, allocations]) => println!(" {callbacks:10} {allocations:12}"),
            None => println!(),
        }
        if change.is_some_and(|change| change > TOLERATED) {
            grown.push(format!("{name}: {shown}"));
        }
        if let (Some(now), Some(then)) = (counts.module, former.and_then(|former| former.module)) {
            for (what, (now, then)) in ["callbacks", "allocations"].iter().zip(now.iter().zip(then)) {
                if *now > then {
                    grown.push(format!("{name}: {now} {what} in the place of {then}"));
                }
            }
        }
    }
    let known = content.get("operations").and_then(Value::as_object);
    let known: BTreeSet<&str> = known.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    let measured: BTreeSet<&str> = figures.keys().map(String::as_str).collect();
    for name in known.difference(&measured) {
        println!("{name:38} is in the file, and was not measured");
    }
    if known != measured {
        println!("\nThe file has other operations. UPDATE_INSTRUCTIONS=1 writes it again.");
    }
    let with = content.get("measuredWith").and_then(Value::as_str).unwrap_or_default();
    if with != tools {
        println!("\nThe file is of other tools, so a change may be theirs: {with}; here: {tools}");
    }
    if grown.is_empty() {
        println!("\nNothing grew by more than {:.0} %.", TOLERATED * 100.0);
    } else {
        println!(
            "\nGrew by more than {:.0} %, or by a callback or an allocation:",
            TOLERATED * 100.0
        );
        for line in grown {
            println!("  {line}");
        }
    }
    Ok(())
}
