//! Envoys that serve one test after another.
//!
//! A process starts in a third of a second and compiles the wasm filter in more than one; new listeners and clusters
//! take milliseconds. A test has its Envoy for itself, with its own names and counters from 0, and gives it back only
//! if it succeeds.

use std::collections::VecDeque;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use hyper::Method;

use super::admin::{Admin, HANDED_OVER};
use super::process::Process;
use super::ready;
use super::run::RunDirectory;
use crate::config::Part;
use crate::{Config, Request, poll};

/// The most Envoys: three kinds for as many tests as run at once, with 100 MB each for a wasm filter.
const MOST: usize = 12;

/// Statistics: the manager, the discovery and the gauge of warming resources.
const CLUSTERS: (&str, &str, &str) = ("cluster_manager", "cds", "warming_clusters");
const LISTENERS: (&str, &str, &str) = ("listener_manager", "lds", "total_listeners_warming");

static POOL: Mutex<Pool> = Mutex::new(Pool {
    resting: VecDeque::new(),
    started: 0,
});

struct Pool {
    /// The longest at rest first.
    resting: VecDeque<(Pooled, Instant)>,
    started: usize,
}

impl Pool {
    fn get() -> MutexGuard<'static, Self> {
        POOL.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&mut self, kind: &Config) -> Next {
        let place = self.resting.iter().position(|(pooled, _)| pooled.config.is(kind));
        let rested = place
            .and_then(|place| self.resting.get(place))
            .map(|(_, since)| since.elapsed());
        match (place, rested) {
            // Only the wasm filter's VM still hands over counts.
            (Some(place), Some(rested)) if rested >= HANDED_OVER || !kind.has_vms() => self
                .resting
                .remove(place)
                .map_or(Next::Start, |(pooled, _)| Next::Take(Box::new(pooled))),
            // A rest is shorter than a start.
            (Some(_), _) => Next::Wait,
            _ => {
                if self.started < MOST || !self.give_up_one() {
                    self.started += 1;
                }
                Next::Start
            }
        }
    }

    /// Ends a resting Envoy: the first that served one test only, or the longest at rest.
    fn give_up_one(&mut self) -> bool {
        let unwanted = self.resting.iter().position(|(pooled, _)| pooled.version <= 2);
        self.resting.remove(unwanted.unwrap_or(0)).is_some()
    }
}

enum Next {
    Take(Box<Pooled>),
    Start,
    Wait,
}

#[derive(Debug)]
pub(super) struct Pooled {
    pub(super) process: Process,
    pub(super) run: RunDirectory,
    pub(super) admin: Admin,
    /// Its own configuration, without a test's.
    config: Config,
    /// Two for each test: serving it, and empty.
    version: u32,
    /// The lengths of the logs when the test began.
    written: [usize; 2],
}

/// An Envoy of the pool that serves a test, given back when dropped.
#[derive(Debug)]
pub(super) struct Lease(Option<Pooled>);

impl Lease {
    /// Lets an Envoy of the pool serve this configuration, whose [`Config::of_pool`] is `kind`.
    pub(super) async fn take(kind: Config, test: &Config) -> Result<Self> {
        let (lease, accepted) = Self::offer(kind, test).await?;
        if !accepted {
            bail!(
                "Envoy refused the configuration. Its log ends with:\n{}",
                lease.envoy()?.run.log_tail()
            );
        }
        Ok(lease)
    }

    /// As [`Lease::take`], but returns whether Envoy accepts the configuration.
    pub(super) async fn offer(kind: Config, test: &Config) -> Result<(Self, bool)> {
        let pooled = loop {
            let next = Pool::get().next(&kind);
            match next {
                Next::Take(pooled) if pooled.process.has_ended().is_none() => break *pooled,
                // It may have ended at rest.
                Next::Take(_) => Pool::get().started -= 1,
                Next::Start => break Pooled::start(kind).await.inspect_err(|_| Pool::get().started -= 1)?,
                Next::Wait => tokio::time::sleep(HANDED_OVER / 10).await,
            }
        };
        let mut lease = Self(Some(pooled));
        let served = lease.serve(test).await;
        if served.is_err() {
            lease.end();
        }
        served.map(|accepted| (lease, accepted))
    }

    pub(super) fn envoy(&self) -> Result<&Pooled> {
        self.0.as_ref().context("the Envoy went back to the pool")
    }

    async fn serve(&mut self, test: &Config) -> Result<bool> {
        let pooled = self.0.as_mut().context("the Envoy went back to the pool")?;
        let served = pooled.serve(test).await;
        served.with_context(|| format!("Envoy's log ends with:\n{}", pooled.run.log_tail()))
    }

    pub(super) fn log(&self) -> Result<String> {
        let pooled = self.envoy()?;
        Ok(pooled.run.output("stderr")?.split_off(pooled.written[0]))
    }

    pub(super) fn access_log(&self) -> Result<String> {
        let pooled = self.envoy()?;
        Ok(pooled.run.output("stdout")?.split_off(pooled.written[1]))
    }

    pub(super) fn discovered(&self, test: &Config) -> Result<Config> {
        let pooled = self.envoy()?;
        Ok(pooled.config.serving(&Part::All(test), pooled.version))
    }

    fn end(&mut self) {
        if self.0.take().is_some() {
            Pool::get().started -= 1;
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let is_whole = |pooled: &mut Pooled| pooled.process.has_ended().is_none() && pooled.empty().is_ok();
        let has_room = Pool::get().started <= MOST;
        if !has_room || std::thread::panicking() || !self.0.as_mut().is_some_and(is_whole) {
            self.end();
        } else if let Some(pooled) = self.0.take() {
            Pool::get().resting.push_back((pooled, Instant::now()));
        }
    }
}

impl Pooled {
    async fn start(config: Config) -> Result<Self> {
        let run = RunDirectory::of_this_program(&config)?;
        let mut command = super::command()?;
        command.arg("--disable-hot-restart");
        let (configured, directory) = (config.clone(), run.clone());
        let process = on_lasting_thread(move || Process::start(command, &configured, &directory))??;
        let admin = ready(&process, &run).await?;
        Ok(Self {
            process,
            run,
            admin,
            config,
            version: 0,
            written: [0; 2],
        })
    }

    async fn serve(&mut self, test: &Config) -> Result<bool> {
        // Counters of the last test's refusals.
        self.reset_counters().await?;
        self.until_settled(LISTENERS).await?;
        self.until_settled(CLUSTERS).await?;
        self.reset_counters().await?;
        self.written = [self.run.output("stderr")?.len(), self.run.output("stdout")?.len()];
        self.version += 1;
        self.run
            .update(&self.config.serving(&Part::Clusters(test), self.version))?;
        if !self.until_settled(CLUSTERS).await? {
            return Ok(false);
        }
        self.run.update(&self.config.serving(&Part::All(test), self.version))?;
        self.until_settled(LISTENERS).await
    }

    async fn reset_counters(&self) -> Result<()> {
        let reset = Request::get(self.admin.address(), "/reset_counters").method(Method::POST);
        reset.send().await.map(drop)
    }

    fn empty(&mut self) -> Result<()> {
        self.version += 1;
        self.run.update(&self.config.serving(&Part::Nothing, self.version))
    }

    /// Waits until Envoy has applied the current version without warming resources, or refused it. Returns which.
    async fn until_settled(&self, (manager, discovery, warming): (&str, &str, &str)) -> Result<bool> {
        let stats = format!("/stats?filter=^{manager}.({discovery}.(version_text|update_rejected)|{warming})$");
        let applied = format!("{manager}.{discovery}.version_text: \"{}\"", self.version);
        let accepted = format!("{manager}.{discovery}.update_rejected: 0");
        let warm = format!("{manager}.{warming}: 0");
        poll::soon(&format!("{discovery} to have version {}", self.version), async || {
            let stats = self.admin.text(&stats).await.ok()?;
            let has = |line: &str| stats.lines().any(|present| present == line);
            (!has(&accepted) || has(&applied) && has(&warm)).then_some(has(&accepted))
        })
        .await
    }
}

/// Runs `work` on a thread that ends with the program, as `setpriv` ends a process with the thread that started it.
fn on_lasting_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    type Work = Box<dyn FnOnce() + Send>;
    static THREAD: LazyLock<mpsc::Sender<Work>> = LazyLock::new(|| {
        let (sender, receiver) = mpsc::channel::<Work>();
        std::thread::spawn(move || receiver.into_iter().for_each(|work| work()));
        sender
    });
    let (done, result) = mpsc::channel();
    // If the thread has ended, so has the result's sender.
    let _ = THREAD.send(Box::new(move || drop(done.send(work()))));
    result.recv().context("the thread has ended")
}
