//! A running Envoy.

mod admin;
mod pool;
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
use self::pool::Lease;
use self::process::Process;
use self::restart::HotRestarts;
use self::run::RunDirectory;
use crate::config::discovered_filter;
use crate::{Answer, Build, Config, Request, poll, tools};

/// An Envoy for one test, on free ports, with two workers. Dropping it stops it, or frees it for the next test
/// ([`Envoy::serve`]).
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    config: Config,
    run: RunDirectory,
    hot_restarts: Option<HotRestarts>,
    admin: Admin,
    listeners: BTreeMap<String, SocketAddr>,
    /// Set if the Envoy is one of the pool.
    lease: Option<Lease>,
}

impl Envoy {
    /// As [`Envoy::start`] in a tenth of the time, by an Envoy that runs already, unless [`Config::alone`].
    ///
    /// # Errors
    /// If it refuses the configuration.
    pub async fn serve(config: Config) -> Result<Self> {
        let Some(kind) = config.of_pool() else {
            return Self::start(config).await;
        };
        let lease = Lease::take(kind, &config).await?;
        let pooled = lease.envoy()?;
        let (process, run, admin) = (pooled.process.clone(), pooled.run.clone(), pooled.admin);
        let names = config.listener_names();
        let mut listeners = admin.listeners().await?;
        listeners.retain(|name, _| names.contains(name));
        Ok(Self {
            process,
            config,
            run,
            hot_restarts: None,
            admin,
            listeners,
            lease: Some(lease),
        })
    }

    /// Starts an Envoy and waits until it is ready.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(config: Config) -> Result<Self> {
        Self::launch(command()?, config).await
    }

    /// Starts an Envoy by `func-e run -c FILE`.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start_by_func_e(config: Config) -> Result<Self> {
        let home = TempDir::new()?;
        let mut command = Command::new(tools::func_e()?);
        command.arg("run").env("ENVOY_PATH", tools::envoy()?);
        // Read and write nothing of the user's.
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

    /// Whether Envoy accepts this configuration, and its output. An Envoy of the pool is asked, or `--mode validate`.
    ///
    /// # Errors
    /// If Envoy cannot be run.
    pub async fn validate(config: &Config) -> Result<(bool, String)> {
        if let Some(kind) = config.of_pool() {
            let (lease, accepted) = Lease::offer(kind, config).await?;
            return Ok((accepted, lease.log()?));
        }
        let run = RunDirectory::new(config)?;
        validate("envoy.json", run.path(), &config.environment()?)
    }

    /// Whether Envoy accepts a file of `envoy-configs/` unchanged, and its output.
    ///
    /// # Errors
    /// If Envoy cannot be run.
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

    async fn launch(mut command: Command, config: Config) -> Result<Self> {
        let run = RunDirectory::new(&config)?;
        command.arg("--disable-hot-restart");
        Self::run(command, config, run).await
    }

    async fn run(command: Command, config: Config, run: RunDirectory) -> Result<Self> {
        let mut envoy = Self {
            process: Process::start(command, &config, &run)?,
            config,
            run,
            hot_restarts: None,
            admin: Admin::new(SocketAddr::from(([127, 0, 0, 1], 0))),
            listeners: BTreeMap::new(),
            lease: None,
        };
        envoy.wait_until_ready().await?;
        Ok(envoy)
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The address of the first listener.
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
    /// If there is no such listener.
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

    /// The value of a counter of the filter, such as `web.issued`.
    ///
    /// # Errors
    /// If the admin interface does not answer.
    pub async fn metric(&self, name: &str) -> Result<u64> {
        self.stat(&Build::tested()?.counter(name)).await
    }

    /// The value of a counter or gauge of Envoy; 0 if it does not exist yet.
    ///
    /// # Errors
    /// If the admin interface does not answer.
    pub async fn stat(&self, name: &str) -> Result<u64> {
        self.admin.stat(name).await
    }

    /// All counters and gauges whose names match a regular expression.
    ///
    /// # Errors
    /// If the admin interface does not answer.
    pub async fn stats(&self, filter: &str) -> Result<BTreeMap<String, u64>> {
        self.admin.stats(filter).await
    }

    /// The admin interface's answer at this path.
    ///
    /// # Errors
    /// If it does not answer with 200.
    pub async fn admin_text(&self, path: &str) -> Result<String> {
        self.admin.text(path).await
    }

    /// Waits until a counter or gauge has this value.
    ///
    /// # Errors
    /// If it does not after a minute and a half.
    pub async fn until_stat(&self, name: &str, value: u64) -> Result<()> {
        self.admin.until_stat(name, value).await
    }

    /// Waits until every worker has applied a change, so that `check` holds for a series of new clients' answers.
    /// Counters show an update earlier.
    ///
    /// # Errors
    /// If that does not happen in a minute and a half.
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

    /// Changes what Envoy discovers, by moving each changed file into place.
    ///
    /// # Errors
    /// If Envoy does not watch a changed file, or it cannot be written.
    pub fn update(&mut self, change: impl FnOnce(Config) -> Config) -> Result<()> {
        let config = change(self.config.clone());
        match &self.lease {
            Some(lease) => {
                self.config.ensure_same_bootstrap(&config)?;
                self.run.update(&lease.discovered(&config)?)?;
            }
            None => self.run.update(&config)?,
        }
        self.config = config;
        Ok(())
    }

    /// The file that the filter is discovered from.
    #[must_use]
    pub fn discovered_filter(&self) -> PathBuf {
        self.run.file(&discovered_filter())
    }

    /// Envoy's log.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub fn log(&self) -> Result<String> {
        match &self.lease {
            Some(lease) => lease.log(),
            None => self.run.output("stderr"),
        }
    }

    /// Envoy's standard output: the access log.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn stdout(&self) -> Result<String> {
        match &self.lease {
            Some(lease) => lease.access_log(),
            None => self.run.output("stdout"),
        }
    }

    async fn wait_until_ready(&mut self) -> Result<()> {
        self.admin = ready(&self.process, &self.run).await?;
        self.listeners = self.admin.listeners().await?;
        Ok(())
    }
}

/// Envoy, which `setpriv` ends with the thread that starts it.
fn command() -> Result<Command> {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]).arg(tools::envoy()?);
    Ok(command)
}

async fn ready(process: &Process, run: &RunDirectory) -> Result<Admin> {
    let admin_file = run.file("admin");
    let found = poll::until("Envoy to start", async || {
        if let Some(status) = process.has_ended() {
            return Some(Err(anyhow::anyhow!("Envoy ended ({status})")));
        }
        let admin = Admin::read(&admin_file)?;
        admin.ready().await.then_some(Ok(admin))
    })
    .await;
    found
        .and_then(|answer| answer)
        .with_context(|| format!("Envoy's log ends with:\n{}", run.log_tail()))
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
