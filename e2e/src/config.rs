//! Envoy's configuration: a file of `envoy-configs/`, and a test's changes.

mod clusters;
mod discovery;
mod json;
mod listeners;
mod memory;
mod minimal;
mod pooled;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::build::module_directory;
use crate::{Build, tools};

use self::json::{address, each_item};

pub use listeners::filter_with;

pub(crate) use discovery::{BOOTSTRAP, discovered_filter};
pub(crate) use json::{each_object, each_wasm, merge};
pub(crate) use pooled::Part;

/// The tests' public key, in `LIMPET_KEY` and `LIMPET_KEY_1`.
pub const TEST_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
/// Another key, in `LIMPET_KEY_2`.
pub const OTHER_KEY: &str = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

/// Envoy's configuration and environment variables.
#[derive(Debug, Clone)]
pub struct Config {
    bootstrap: Value,
    /// The files that Envoy discovers resources from, by their configured path.
    discovered: BTreeMap<String, Value>,
    environment: BTreeMap<String, String>,
    workers: u8,
    log_level: &'static str,
    /// The build of the filter, if not the tested one.
    build: Option<Build>,
    folder: Option<PathBuf>,
    /// Whether no other test may have the same Envoy.
    alone: bool,
}

impl Config {
    /// Loads a file of `envoy-configs/` with free ports.
    ///
    /// # Errors
    /// If the file does not exist or is not YAML.
    pub fn load(file: &str) -> Result<Self> {
        let mut bootstrap = read_yaml(file)?;
        let discovered = discovery::read_files(&mut bootstrap)?;
        let config = Self {
            discovered,
            ..Self::bare(bootstrap)
        };
        Ok(config.admin_port(0).port(0))
    }

    /// A bootstrap from elsewhere with the filter under test, on free ports of 127.0.0.1.
    #[must_use]
    pub fn made(mut bootstrap: Value) -> Self {
        each_item(&mut bootstrap["static_resources"]["listeners"], |listener| {
            if listener["bind_to_port"] != false {
                listener["address"] = address("127.0.0.1", 0);
            }
        });
        Self::bare(bootstrap).admin_port(0)
    }

    fn bare(bootstrap: Value) -> Self {
        let config = Self {
            bootstrap,
            discovered: BTreeMap::new(),
            environment: BTreeMap::new(),
            workers: 2,
            log_level: "info",
            build: None,
            folder: None,
            alone: false,
        };
        config
            .env("LIMPET_KEY", TEST_KEY)
            .env("LIMPET_KEY_1", TEST_KEY)
            .env("LIMPET_KEY_2", OTHER_KEY)
    }

    /// Sets the first listener's port on 127.0.0.1; 0 is a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.listener()["address"] = address("127.0.0.1", port);
        self
    }

    /// Sets the admin port on 127.0.0.1; 0 is a free one.
    #[must_use]
    pub fn admin_port(mut self, port: u16) -> Self {
        self.bootstrap["admin"]["address"] = address("127.0.0.1", port);
        self
    }

    /// Sets the number of workers.
    #[must_use]
    pub fn workers(mut self, workers: u8) -> Self {
        self.workers = workers;
        self
    }

    /// Starts Envoy in this directory.
    #[must_use]
    pub fn within(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Sets Envoy's log level, such as `trace`.
    #[must_use]
    pub fn log_level(mut self, level: &'static str) -> Self {
        self.log_level = level;
        self
    }

    /// Uses this build of the filter.
    #[must_use]
    pub fn build(mut self, build: Build) -> Self {
        self.build = Some(build);
        self
    }

    /// Uses the module that panics on demand (`e2e/panicking-module`).
    ///
    /// # Errors
    /// If it is not built.
    pub fn panicking(self) -> Result<Self> {
        let (name, value) = module_directory(&tools::panicking_module()?)?;
        Ok(self.build(Build::Module).env(name, &value))
    }

    /// Uses the module beside another one, `other` (`e2e/other-module`).
    ///
    /// # Errors
    /// If it is not built.
    pub fn beside_another_module(self) -> Result<Self> {
        let (name, value) = module_directory(&tools::module_beside_another()?)?;
        Ok(self.build(Build::Module).env(name, &value))
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Removes an environment variable.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self
    }

    /// Changes the bootstrap.
    #[must_use]
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.bootstrap);
        self
    }

    pub(crate) fn environment(&self) -> Result<BTreeMap<String, String>> {
        let mut environment = self.environment.clone();
        if let Some((name, value)) = self.tested_build()?.environment()? {
            environment.entry(name.to_owned()).or_insert(value);
        }
        Ok(environment)
    }

    fn tested_build(&self) -> Result<Build> {
        self.build.map_or_else(Build::tested, Ok)
    }

    pub(crate) fn log_verbosity(&self) -> &str {
        self.log_level
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_deref().unwrap_or(Path::new("."))
    }

    pub(crate) fn worker_count(&self) -> u8 {
        self.workers
    }
}

fn read_yaml(file: &str) -> Result<Value> {
    let path = tools::checkout().join("envoy-configs").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))
}
