//! The configuration that an Envoy starts with: a file of `envoy-configs/`, and what a test changes in it.

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

/// The tests' key, in `LIMPET_KEY` and `LIMPET_KEY_1`. It is public, so it protects nothing.
pub const TEST_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
/// Another key, in `LIMPET_KEY_2`.
pub const OTHER_KEY: &str = "ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

/// A configuration of Envoy, and the environment variables that go with it.
#[derive(Debug, Clone)]
pub struct Config {
    bootstrap: Value,
    /// The files that Envoy discovers resources from, by the path that the configuration names.
    discovered: BTreeMap<String, Value>,
    environment: BTreeMap<String, String>,
    workers: u8,
    log_level: &'static str,
    /// The build of the filter, if it is not the one under test.
    build: Option<Build>,
    /// Where Envoy is started.
    folder: Option<PathBuf>,
    /// Whether no other test may have the same Envoy.
    alone: bool,
}

impl Config {
    /// Loads a file of `envoy-configs/`, with ports 0, so that each Envoy gets free ports.
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

    /// A bootstrap configuration from elsewhere, which already has the build of the filter under test. Its listeners
    /// get free ports of 127.0.0.1.
    #[must_use]
    pub fn made(mut bootstrap: Value) -> Self {
        each_item(&mut bootstrap["static_resources"]["listeners"], |listener| {
            // What is never bound disturbs nobody.
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

    /// Sets the first listener's port on 127.0.0.1; 0 picks a free port.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.listener()["address"] = address("127.0.0.1", port);
        self
    }

    /// Sets the admin interface's port on 127.0.0.1; 0 picks a free port.
    #[must_use]
    pub fn admin_port(mut self, port: u16) -> Self {
        self.bootstrap["admin"]["address"] = address("127.0.0.1", port);
        self
    }

    /// Sets the number of Envoy's worker threads.
    #[must_use]
    pub fn workers(mut self, workers: u8) -> Self {
        self.workers = workers;
        self
    }

    /// Starts Envoy in this directory, where it looks for files without a directory of their own.
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

    /// Uses this build of the filter, whichever is under test.
    #[must_use]
    pub fn build(mut self, build: Build) -> Self {
        self.build = Some(build);
        self
    }

    /// Uses the variant of the module that panics on demand (`e2e/panicking-module`).
    ///
    /// # Errors
    /// If it is not built.
    pub fn panicking(self) -> Result<Self> {
        let (name, value) = module_directory(&tools::panicking_module()?)?;
        Ok(self.build(Build::Module).env(name, &value))
    }

    /// Uses the module in an Envoy that also finds a module `other`, which is not ours (`e2e/other-module`).
    ///
    /// # Errors
    /// If it is not built.
    pub fn beside_another_module(self) -> Result<Self> {
        let (name, value) = module_directory(&tools::module_beside_another()?)?;
        Ok(self.build(Build::Module).env(name, &value))
    }

    /// Sets an environment variable of Envoy.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Removes an environment variable of Envoy.
    #[must_use]
    pub fn without_env(mut self, name: &str) -> Self {
        self.environment.remove(name);
        self
    }

    /// Makes any other change to the bootstrap configuration.
    #[must_use]
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.bootstrap);
        self
    }

    /// The environment variables that Envoy starts with.
    ///
    /// # Errors
    /// If the build of the filter is missing.
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

    /// Envoy's log level.
    pub(crate) fn log_verbosity(&self) -> &str {
        self.log_level
    }

    /// Where Envoy is started.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_deref().unwrap_or(Path::new("."))
    }

    /// The number of Envoy's worker threads.
    pub(crate) fn worker_count(&self) -> u8 {
        self.workers
    }
}

fn read_yaml(file: &str) -> Result<Value> {
    let path = tools::checkout().join("envoy-configs").join(file);
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_saphyr::from_str(&text).with_context(|| format!("{} is not YAML", path.display()))
}
