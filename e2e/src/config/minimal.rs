//! The chain without what `limpet check --minimal` calls unneeded.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Config;
use crate::tools;

impl Config {
    /// Removes what `limpet check --minimal` finds unneeded.
    ///
    /// # Errors
    /// If it finds nothing.
    pub fn minimal(mut self) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("envoy.json");
        std::fs::write(&file, self.bootstrap.to_string())?;
        let args = ["check", "--minimal", "-o", "json", &file.to_string_lossy()];
        let said: Value = serde_json::from_slice(&tools::run_limpet(&args, &[])?.stdout)?;
        let findings = said["files"][0]["findings"].as_array().context("no findings")?;
        let is_unneeded = |finding: &&Value| {
            let message = finding["message"].as_str();
            message.is_some_and(|message| message.starts_with("not needed: "))
        };
        let places = findings.iter().filter(is_unneeded);
        let mut places: Vec<&str> = places.filter_map(|finding| finding["path"].as_str()).collect();
        ensure!(!places.is_empty(), "nothing is unneeded: {said}");
        // Later places first, so that the others stay.
        places.sort_unstable();
        for place in places.into_iter().rev() {
            let (list, index) = place.rsplit_once('[').context("not in a list")?;
            let index: usize = index.trim_end_matches(']').parse()?;
            let list = format!("/{}", list.replace(['.', '['], "/").replace(']', ""));
            let list = self.bootstrap.pointer_mut(&list).and_then(Value::as_array_mut);
            list.context("no list")?.remove(index);
        }
        Ok(self)
    }
}
