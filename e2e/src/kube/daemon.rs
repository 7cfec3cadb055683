//! Background processes.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};

use crate::poll;

/// A process killed when dropped, or at the latest with the network namespace.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    process: Child,
    log: PathBuf,
}

impl Daemon {
    /// Starts a process whose output goes to `NAME.log` in this directory.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(name: &str, command: &mut Command, directory: &Path) -> Result<Self> {
        let log = directory.join(format!("{name}.log"));
        let file = File::options().create(true).append(true).open(&log)?;
        let process = command
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("cannot start {name} ({})", command.get_program().display()))?;
        Ok(Self {
            name: name.to_owned(),
            process,
            log,
        })
    }

    /// The process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Waits until `check` returns a value.
    ///
    /// # Errors
    /// If it does not in a minute and a half, or the process ends.
    pub async fn until_ready<T>(&mut self, mut check: impl AsyncFnMut() -> Option<T>) -> Result<T> {
        let (name, process) = (&self.name, &mut self.process);
        let ready = poll::until(&format!("{name} to start"), async || {
            if let Ok(Some(status)) = process.try_wait() {
                return Some(Err(anyhow::anyhow!("{name} ended ({status})")));
            }
            check().await.map(Ok)
        })
        .await;
        ready
            .and_then(|answer| answer)
            .with_context(|| format!("the log of {name} ends with:\n{}", self.log_tail()))
    }

    /// Checks that the process runs.
    pub(super) fn ensure_running(&self) -> Result<()> {
        // The id of our child is unique; an ended process has no arguments.
        let arguments = std::fs::read(format!("/proc/{}/cmdline", self.id()))?;
        let name = &self.name;
        ensure!(
            !arguments.is_empty(),
            "{name} has ended; its log ends with:\n{}",
            self.log_tail()
        );
        Ok(())
    }

    /// Kills the process.
    pub fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Pauses the process (SIGSTOP) until [`Daemon::go_on`].
    ///
    /// # Errors
    /// If the process has ended.
    pub fn pause(&self) -> Result<()> {
        self.signal("STOP")
    }

    /// Continues the process (SIGCONT).
    ///
    /// # Errors
    /// If the process has ended.
    pub fn go_on(&self) -> Result<()> {
        self.signal("CONT")
    }

    fn signal(&self, name: &str) -> Result<()> {
        let signal = format!("-{name}");
        let sent = Command::new("kill").args([signal, self.id().to_string()]).status()?;
        ensure!(sent.success(), "cannot send SIG{name} to {}", self.name);
        Ok(())
    }

    pub(super) async fn terminate(mut self) -> Result<()> {
        self.signal("TERM")?;
        let process = &mut self.process;
        let ended = async || process.try_wait().ok().flatten();
        let status = poll::until(&format!("{} to end", self.name), ended).await?;
        let name = &self.name;
        ensure!(
            status.success(),
            "{name} ended with {status}; its log ends with:\n{}",
            self.log_tail()
        );
        Ok(())
    }

    /// The process's output.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&std::fs::read(&self.log)?).into_owned())
    }

    fn log_tail(&self) -> String {
        let log = self.log().unwrap_or_default();
        let mut lines: Vec<_> = log.lines().collect();
        lines.drain(..lines.len().saturating_sub(20));
        lines.join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() {
            eprintln!("--- the end of the log of {} ---\n{}", self.name, self.log_tail());
        }
    }
}
