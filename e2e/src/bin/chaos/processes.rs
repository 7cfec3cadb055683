//! The processes of pods: when each has ended, and what it used.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use limpet_e2e::chaos::Role;

/// How often is looked whether processes are there.
const INTERVAL: Duration = Duration::from_millis(20);
/// How often is looked for new ones.
const SEARCH: Duration = Duration::from_millis(200);

/// A process that serves.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    /// Unique in this run. The kernel gives an id again.
    pub(crate) number: u32,
    pub(crate) id: u32,
    pub(crate) role: Role,
    /// The uid of its pod.
    pub(crate) pod: String,
    /// When it was last seen to run.
    pub(crate) seen: Duration,
    /// When it was first seen to run no more.
    pub(crate) gone: Option<Duration>,
}

/// The processes of all pods, those that have ended too.
#[derive(Debug, Clone)]
pub(crate) struct Processes {
    begun: Instant,
    known: Arc<Mutex<Vec<Process>>>,
}

impl Processes {
    /// Watches until the program ends, in a thread of its own: nothing else may make it late.
    pub(crate) fn watch(begun: Instant) -> Result<Self> {
        let processes = Self {
            begun,
            known: Arc::default(),
        };
        let watching = processes.clone();
        let thread = std::thread::Builder::new().name("processes".to_owned());
        thread.spawn(move || watching.run())?;
        Ok(processes)
    }

    fn run(&self) {
        let mut searched = None;
        loop {
            if searched.is_none_or(|searched: Instant| searched.elapsed() >= SEARCH) {
                searched = Some(Instant::now());
                self.search();
            }
            self.look();
            std::thread::sleep(INTERVAL);
        }
    }

    /// Every process is looked at each time: one that a container runtime starts becomes another program later.
    fn search(&self) {
        let running: BTreeSet<u32> = {
            let known = self.lock();
            let running = known.iter().filter(|process| process.gone.is_none());
            running.map(|process| process.id).collect()
        };
        for id in ids().into_iter().filter(|id| !running.contains(id)) {
            let Some((role, pod)) = is_of_pod(id) else { continue };
            let mut known = self.lock();
            let number = u32::try_from(known.len()).unwrap_or(u32::MAX);
            known.push(Process {
                number,
                id,
                role,
                pod,
                seen: self.begun.elapsed(),
                gone: None,
            });
        }
    }

    fn look(&self) {
        let now = self.begun.elapsed();
        for process in self.lock().iter_mut().filter(|process| process.gone.is_none()) {
            if runs(process.id) {
                process.seen = now;
            } else if !is_known(process.id) {
                process.gone = Some(self.begun.elapsed());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Process>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them, in the order in which they were found.
    pub(crate) fn all(&self) -> Vec<Process> {
        self.lock().clone()
    }

    /// The process of this pod that runs.
    pub(crate) fn of(&self, pod: &str) -> Option<Process> {
        let known = self.lock();
        let mut running = known.iter().filter(|process| process.gone.is_none());
        running.find(|process| process.pod == pod).cloned()
    }
}

/// Ends a process as nobody can prevent. Returns whether it was there: it may have ended for another reason.
pub(crate) fn kill(process: &Process) -> Result<bool> {
    let mut kill = std::process::Command::new("kill");
    let output = kill.args(["-KILL", &process.id.to_string()]).output();
    Ok(output.context("cannot run kill")?.status.success())
}

fn ids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Whether anything is left of it. Its connections end between its last instruction and this.
fn is_known(id: u32) -> bool {
    Path::new("/proc").join(id.to_string()).exists()
}

/// What has begun to end has no program any more.
pub(crate) fn runs(id: u32) -> bool {
    fs::read_link(format!("/proc/{id}/exe")).is_ok()
}

/// The role and the pod of a process that serves in one.
fn is_of_pod(id: u32) -> Option<(Role, String)> {
    let arguments = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
    let mut arguments = arguments.split('\0');
    let program = Path::new(arguments.next()?).file_name()?.to_str()?.to_owned();
    let role = match (program.as_str(), arguments.next()) {
        ("backend", _) => Role::Application,
        ("envoy", _) => Role::Envoy,
        // Not one that writes a bootstrap.
        ("limpet", Some("controller")) if arguments.next() != Some("bootstrap") => Role::Controller,
        _ => return None,
    };
    let cgroup = fs::read_to_string(format!("/proc/{id}/cgroup")).ok()?;
    let pod = cgroup
        .lines()
        .find_map(|line| line.split('/').find_map(|part| part.strip_prefix("pod")))?;
    Some((role, pod.to_owned()))
}

/// The folder of a process's cgroup that has this controller, in either version of cgroups. A process that has just
/// begun is in that of its pod in one hierarchy, and in that of the whole node in another.
pub(crate) fn cgroup(id: u32, controller: &str) -> Option<PathBuf> {
    let groups = fs::read_to_string(format!("/proc/{id}/cgroup")).ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let root = match controllers {
            "" => PathBuf::from("/sys/fs/cgroup"),
            _ if controllers.split(',').any(|name| name == controller) => Path::new("/sys/fs/cgroup").join(controllers),
            _ => return None,
        };
        let folder = root.join(path.trim_start_matches('/'));
        path.contains("/pod").then_some(())?;
        folder.join("cgroup.procs").exists().then_some(folder)
    })
}
