//! A run's files: JSON, a picture, and the page about both builds.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use limpet_e2e::chaos::{Report, page, picture, summary};
use limpet_e2e::tools;
use serde_json::Value;

/// The folder for whole runs; shorter ones go to `target`.
const PAGES: &str = "design";

pub(crate) fn write(report: &Report, is_whole: bool) -> Result<()> {
    let run = report.json();
    let filter = run["about"]["filter"].as_str().unwrap_or_default();
    println!("{}", summary(&run));
    let parent = tools::checkout().join(if is_whole { PAGES } else { "target" });
    let folder = parent.join("chaos");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(format!("{filter}.json")), format!("{run:#}\n"))?;
    let title = format!("{} filter, {} clients", filter, run["about"]["clients"]);
    fs::write(folder.join(format!("{filter}.svg")), picture(&title, &report.samples))?;
    fs::write(parent.join("chaos.md"), page(&runs(&folder)?))?;
    println!("The results are in {}.", folder.display());
    Ok(())
}

fn runs(folder: &std::path::Path) -> Result<Vec<Value>> {
    let files = ["wasm.json", "module.json"].map(|file| folder.join(file));
    let there = files.into_iter().filter(|file| file.exists());
    there
        .map(|file: PathBuf| Ok(serde_json::from_str(&fs::read_to_string(file)?)?))
        .collect()
}

pub(crate) fn machine() -> Result<String> {
    let memory = fs::read_to_string("/proc/meminfo")?;
    let memory = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next());
    let kibibytes: u64 = memory.context("no MemTotal")?.parse()?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let kernel = kernel.trim().split('-').next().unwrap_or_default();
    let cpus = std::thread::available_parallelism()?;
    Ok(format!("{cpus} CPUs, {} GiB, Linux {kernel}", kibibytes >> 20))
}
