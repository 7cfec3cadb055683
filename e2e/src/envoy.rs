//! A running Envoy.

mod admin;
mod process;
mod restart;
mod run;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use tempfile::TempDir;

pub use self::admin::Admin;
use self::process::Process;
use self::restart::HotRestarts;
use self::run::RunDirectory;
use crate::config::discovered_filter;
use crate::{Answer, Build, Config, Request, poll, tools};

/// An Envoy of a test's own, on ports of its own, with two worker threads. It ends with its value.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    config: Config,
    run: RunDirectory,
    hot_restarts: Option<HotRestarts>,
    admin: Admin,
    listeners: BTreeMap<String, SocketAddr>,
}

impl Envoy {
    /// Starts an Envoy and waits until it serves.
    ///
    /// # Errors
    /// When it does not come up; the message has the end of its log.
    pub async fn start(config: Config) -> Result<Self> {
        Self::launch(Command::new(tools::envoy()?), config).await
    }

    /// Starts an Envoy as its users do with func-e: `func-e run -c FILE`.
    ///
    /// # Errors
    /// When it does not come up; the message has the end of its log.
    pub async fn start_by_func_e(config: Config) -> Result<Self> {
        let home = TempDir::new()?;
        let mut command = Command::new(tools::func_e()?);
        command.arg("run").env("ENVOY_PATH", tools::envoy()?);
        // Nothing of the user's own is read or written.
        for variable in [
            "HOME",
            "FUNC_E_HOME",
            "FUNC_E_CONFIG_HOME",
            "FUNC_E_DATA_HOME",
            "FUNC_E_STATE_HOME",
            "FUNC_E_RUNTIME_DIR",
        ] {
            command.env(variable, home.path());
        }
        let mut envoy = Self::launch(command, config).await?;
        envoy.run.keep(home);
        Ok(envoy)
    }

    /// Whether Envoy accepts this configuration (`--mode validate`), and what it says.
    ///
    /// # Errors
    /// When Envoy can not be run.
    pub fn validate(config: &Config) -> Result<(bool, String)> {
        let run = RunDirectory::new(config)?;
        validate("envoy.json", run.path(), &config.environment()?)
    }

    /// Whether Envoy accepts a file of `envoy-configs/` as it is, and what it says. The filter under test is where the file expects it.
    ///
    /// # Errors
    /// When Envoy can not be run.
    pub fn validate_file(file: &str) -> Result<(bool, String)> {
        let checkout = TempDir::new()?;
        symlink(
            tools::checkout().join("envoy-configs"),
            checkout.path().join("envoy-configs"),
        )?;
        std::fs::create_dir(checkout.path().join("dist"))?;
        symlink(tools::wasm()?, checkout.path().join("dist/limpet.wasm"))?;
        symlink(tools::module()?, checkout.path().join("dist/liblimpet.so"))?;
        validate(
            &format!("envoy-configs/{file}"),
            checkout.path(),
            &Config::load(file)?.environment()?,
        )
    }

    /// `command` is Envoy, or a program that passes its arguments on to Envoy.
    async fn launch(mut command: Command, config: Config) -> Result<Self> {
        let run = RunDirectory::new(&config)?;
        command.arg("--disable-hot-restart");
        Self::serve(command, config, run).await
    }

    async fn serve(command: Command, config: Config, run: RunDirectory) -> Result<Self> {
        let mut envoy = Self {
            process: Process::start(command, &config, &run)?,
            config,
            run,
            hot_restarts: None,
            admin: Admin::new(SocketAddr::from(([127, 0, 0, 1], 0))),
            listeners: BTreeMap::new(),
        };
        envoy.wait_until_ready().await?;
        Ok(envoy)
    }

    /// The process's id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The first listener's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        let main = self.config.listener_name();
        self.listeners.get(main).copied().unwrap_or(self.admin.address())
    }

    /// The addresses of all listeners.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners.values().copied().collect()
    }

    /// The address of the listener of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn listener(&self, name: &str) -> Result<SocketAddr> {
        self.listeners
            .get(name)
            .copied()
            .with_context(|| format!("Envoy has no listener {name}"))
    }

    /// The admin interface's address.
    #[must_use]
    pub fn admin(&self) -> SocketAddr {
        self.admin.address()
    }

    /// A GET request to the first listener.
    #[must_use]
    pub fn get(&self, path: &str) -> Request {
        Request::get(self.address(), path)
    }

    /// One of the filter's counters, named as in `web.issued`.
    ///
    /// # Errors
    /// When the admin interface does not answer.
    pub async fn metric(&self, name: &str) -> Result<u64> {
        self.stat(&Build::tested()?.counter(name)).await
    }

    /// One of Envoy's counters or gauges; 0 where it does not exist yet.
    ///
    /// # Errors
    /// When the admin interface does not answer.
    pub async fn stat(&self, name: &str) -> Result<u64> {
        self.admin.stat(name).await
    }

    /// All counters and gauges whose names match a regular expression.
    ///
    /// # Errors
    /// When the admin interface does not answer.
    pub async fn stats(&self, filter: &str) -> Result<BTreeMap<String, u64>> {
        self.admin.stats(filter).await
    }

    /// What the admin interface answers at this path.
    ///
    /// # Errors
    /// When it does not answer, or not with 200.
    pub async fn admin_text(&self, path: &str) -> Result<String> {
        self.admin.text(path).await
    }

    /// Waits until a counter or gauge has this value.
    ///
    /// # Errors
    /// When that does not happen.
    pub async fn until_stat(&self, name: &str, value: u64) -> Result<()> {
        self.admin.until_stat(name, value).await
    }

    /// Waits until every worker has heard of a change: until this holds for the answers to a run of clients without a session. An update is
    /// the main thread's first, and so are Envoy's counters.
    ///
    /// # Errors
    /// When that does not happen; `what` says what was awaited.
    pub async fn until_every_worker(&self, what: &str, check: impl Fn(&Answer) -> bool) -> Result<()> {
        poll::until(&format!("every worker: {what}"), async || {
            for _ in 0..20 {
                let answer = self.get("/").send().await.ok()?;
                if !check(&answer) {
                    return None;
                }
            }
            Some(())
        })
        .await
    }

    /// Changes what Envoy discovers: each file that is another one then is moved into place, as Envoy expects it.
    ///
    /// # Errors
    /// When the change is in no file that Envoy watches, or a file can not be written.
    pub fn update(&mut self, change: impl FnOnce(Config) -> Config) -> Result<()> {
        let config = change(self.config.clone());
        self.run.update(&config)?;
        self.config = config;
        Ok(())
    }

    /// The file that the filter is discovered from.
    #[must_use]
    pub fn discovered_filter(&self) -> PathBuf {
        self.run.file(&discovered_filter())
    }

    /// Everything Envoy has logged.
    ///
    /// # Errors
    /// When the log can not be read.
    pub fn log(&self) -> Result<String> {
        self.run.output("stderr")
    }

    /// What Envoy has written to its standard output: the access log, where there is one.
    ///
    /// # Errors
    /// When it can not be read.
    pub fn stdout(&self) -> Result<String> {
        self.run.output("stdout")
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        let admin_file = self.run.file("admin");
        let process = &mut self.process;
        let found = poll::until("Envoy to come up", async || {
            if let Some(status) = process.has_ended() {
                return Some(Err(anyhow::anyhow!("Envoy ended ({status})")));
            }
            let admin = Admin::read(&admin_file)?;
            admin.ready().await.then_some(Ok(admin))
        })
        .await;
        self.admin = found
            .and_then(|answer| answer)
            .with_context(|| format!("Envoy's log ends with:\n{}", self.run.log_tail()))?;
        self.listeners = self.admin.listeners().await?;
        Ok(())
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the end of Envoy's log ---\n{}", self.run.log_tail());
        }
    }
}

fn validate(file: &str, directory: &Path, environment: &BTreeMap<String, String>) -> Result<(bool, String)> {
    let output = Command::new(tools::envoy()?)
        .args(["--mode", "validate", "-l", "warning", "-c", file])
        .current_dir(directory)
        .envs(environment)
        .output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}
