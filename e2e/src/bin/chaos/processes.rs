//! The processes of pods, with their ends.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use limpet_e2e::chaos::Role;

const INTERVAL: Duration = Duration::from_millis(20);
/// How often new processes are searched.
const SEARCH: Duration = Duration::from_millis(200);

#[derive(Debug, Clone)]
pub(crate) struct Process {
    /// Unique in this run, unlike kernel ids.
    pub(crate) number: u32,
    pub(crate) id: u32,
    pub(crate) role: Role,
    pub(crate) pod: String,
    /// When it last ran.
    pub(crate) seen: Duration,
    /// When it first ran no more.
    pub(crate) gone: Option<Duration>,
}

#[derive(Debug, Clone)]
pub(crate) struct Processes {
    begun: Instant,
    known: Arc<Mutex<Vec<Process>>>,
}

impl Processes {
    /// Watches until the program ends, in its own thread so that nothing delays it.
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

    /// Checks every process each time: a container runtime's child becomes another program later.
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

    pub(crate) fn all(&self) -> Vec<Process> {
        self.lock().clone()
    }

    pub(crate) fn of(&self, pod: &str) -> Option<Process> {
        let known = self.lock();
        let mut running = known.iter().filter(|process| process.gone.is_none());
        running.find(|process| process.pod == pod).cloned()
    }
}

/// Kills a process with SIGKILL. Returns whether it still existed.
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

/// Whether the kernel still knows it. Its connections end between its last instruction and this.
fn is_known(id: u32) -> bool {
    Path::new("/proc").join(id.to_string()).exists()
}

/// Whether a process still has its program, which an ending one lacks.
pub(crate) fn runs(id: u32) -> bool {
    fs::read_link(format!("/proc/{id}/exe")).is_ok()
}

fn is_of_pod(id: u32) -> Option<(Role, String)> {
    let arguments = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
    let mut arguments = arguments.split('\0');
    let program = Path::new(arguments.next()?).file_name()?.to_str()?.to_owned();
    let role = match (program.as_str(), arguments.next()) {
        ("backend", _) => Role::Application,
        ("envoy", _) => Role::Envoy,
        ("limpet", Some("controller")) if arguments.next() != Some("bootstrap") => Role::Controller,
        _ => return None,
    };
    let cgroup = fs::read_to_string(format!("/proc/{id}/cgroup")).ok()?;
    let pod = cgroup
        .lines()
        .find_map(|line| line.split('/').find_map(|part| part.strip_prefix("pod")))?;
    Some((role, pod.to_owned()))
}

/// The folder of a process's cgroup with this controller, in cgroups v1 or v2, whose hierarchies may differ for a new
/// process.
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
