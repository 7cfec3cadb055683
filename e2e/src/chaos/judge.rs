//! Rules that give a failure or a move its reason.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::{Cause, End, Loss, Outcome, Pod, Protocol, Role, Visit};

/// The longest time until kube-proxy or an Envoy learns that a pod serves again.
const PROPAGATION: Duration = Duration::from_secs(5);
/// The longest time until clients notice the end of a process, on a busy machine.
const NOTICE: Duration = Duration::from_secs(2);

/// Counts by protocol.
pub type Counts = BTreeMap<Protocol, usize>;

/// Effects of one kind of end on clients.
#[derive(Debug, Default)]
pub struct Row {
    /// The number of ended pods or processes.
    pub ends: usize,
    /// Sessions that moved, once for each end.
    pub moved: Counts,
    /// Requests of a killed process.
    pub lost: Counts,
    /// Connections refused by a killed process; their clients connected again.
    pub refused: Counts,
    /// Open streams that ended with a process; their clients opened others.
    pub streams: Counts,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Requests that a backend answered.
    pub answered: Counts,
    /// Tokens from the session's own backend, after a change of the key.
    pub renewed: Counts,
    /// Explained losses, by reason.
    pub rows: BTreeMap<(Role, Cause), Row>,
    /// Unexplained failures.
    pub failed: Vec<String>,
    /// Sessions that moved although their pod lived.
    pub moved: Vec<String>,
    /// Sessions that moved more than once for one end of their pod.
    pub moved_again: Vec<String>,
}

/// Judges the visits, which are in each client's order.
#[must_use]
pub fn judge(pods: &[Pod], visits: &[Visit]) -> Verdict {
    let mut judge = Judge {
        pods,
        verdict: Verdict::default(),
        sessions: BTreeMap::new(),
        moves: BTreeMap::new(),
    };
    for pod in pods {
        for end in &pod.ends {
            judge.row(pod.role, end.cause).ends += 1;
        }
    }
    for visit in visits {
        judge.visit(visit);
    }
    judge.verdict
}

struct Judge<'a> {
    pods: &'a [Pod],
    verdict: Verdict,
    sessions: BTreeMap<usize, &'a str>,
    /// Moves of a session for an end of a pod.
    moves: BTreeMap<(usize, &'a str, Duration), usize>,
}

impl<'a> Judge<'a> {
    fn visit(&mut self, visit: &'a Visit) {
        match &visit.outcome {
            Outcome::Answered { backend, has_token } => self.answered(visit, backend, *has_token),
            Outcome::Failed(loss) => self.failed(visit, loss),
            Outcome::Refused(loss) => self.refused(visit, loss),
            Outcome::Ended(loss) => self.ended(visit, loss),
        }
    }

    fn row(&mut self, role: Role, cause: Cause) -> &mut Row {
        self.verdict.rows.entry((role, cause)).or_default()
    }

    fn answered(&mut self, visit: &Visit, backend: &'a str, has_token: bool) {
        count(&mut self.verdict.answered, visit);
        match self.sessions.insert(visit.client, backend) {
            Some(former) if former != backend => self.moved(visit, former, backend),
            Some(_) if has_token => count(&mut self.verdict.renewed, visit),
            _ => {}
        }
    }

    fn moved(&mut self, visit: &Visit, former: &'a str, backend: &str) {
        let end = self.ends_of(former).find(|end| explains_move(end, visit)).copied();
        let what = || format!("{}: from {former} to {backend}", told(visit));
        let Some(end) = end else {
            self.verdict.moved.push(what());
            return;
        };
        count(&mut self.row(Role::Application, end.cause).moved, visit);
        let moves = self.moves.entry((visit.client, former, end.begins)).or_default();
        *moves += 1;
        if *moves > 1 {
            self.verdict.moved_again.push(what());
        }
    }

    /// A killed Envoy or application pod may lose a request. If the session's pod has ended, the request may have been
    /// at any.
    fn failed(&mut self, visit: &Visit, loss: &Loss) {
        let of_session = self.sessions.get(&visit.client).copied();
        let has_moved = of_session.is_some_and(|pod| self.ends_of(pod).any(|end| explains_move(end, visit)));
        let reason = self.pods.iter().find_map(|pod| {
            let is_its = match pod.role {
                Role::Application => has_moved || of_session == Some(&pod.name),
                Role::Envoy => loss.envoy.is_some() && pod.address == loss.envoy,
                Role::Controller => false,
            };
            let end = pod
                .ends
                .iter()
                .find(|end| is_its && was_killed_during(end, visit, loss))?;
            Some((pod.role, end.cause))
        });
        match reason {
            Some((role, cause)) => count(&mut self.row(role, cause).lost, visit),
            None => self.unexplained(visit, loss),
        }
    }

    /// A killed Envoy refuses connections until kube-proxy knows.
    fn refused(&mut self, visit: &Visit, loss: &Loss) {
        let envoys = self.pods.iter().filter(|pod| pod.role == Role::Envoy);
        let mut ends = envoys.flat_map(|pod| &pod.ends);
        let cause = ends
            .find(|end| end.cause.is_sudden() && explains_move(end, visit))
            .map(|end| end.cause);
        match cause {
            Some(cause) => count(&mut self.row(Role::Envoy, cause).refused, visit),
            None => self.unexplained(visit, loss),
        }
    }

    fn ended(&mut self, visit: &Visit, loss: &Loss) {
        let of_session = self.sessions.get(&visit.client).copied();
        let reason = self.pods.iter().find_map(|pod| {
            let is_its = match pod.role {
                Role::Application => of_session == Some(&pod.name),
                Role::Envoy => loss.envoy.is_some() && pod.address == loss.envoy,
                Role::Controller => false,
            };
            let end = pod.ends.iter().find(|end| is_its && has_ended_during(end, visit))?;
            Some((pod.role, end.cause))
        });
        match reason {
            Some((role, cause)) => count(&mut self.row(role, cause).streams, visit),
            None => self.unexplained(visit, loss),
        }
    }

    fn unexplained(&mut self, visit: &Visit, loss: &Loss) {
        let envoy = match (self.envoy(loss.envoy), loss.envoy) {
            (Some(pod), _) => pod.name.clone(),
            (None, Some(address)) => format!("no known Envoy, {address}"),
            (None, None) => "an unknown Envoy".to_owned(),
        };
        let session = self.sessions.get(&visit.client).copied().unwrap_or("no pod");
        let told = told(visit);
        let fault = format!("{told}: at {envoy}, session of {session}: {}", loss.reason);
        self.verdict.failed.push(fault);
    }

    fn envoy(&self, address: Option<IpAddr>) -> Option<&'a Pod> {
        let mut envoys = self.pods.iter().filter(|pod| pod.role == Role::Envoy);
        envoys.find(|pod| address.is_some() && pod.address == address)
    }

    fn ends_of(&self, name: &str) -> impl Iterator<Item = &'a End> + use<'a> {
        let pod = self.pods.iter().find(|pod| pod.name == name);
        pod.into_iter().flat_map(|pod| &pod.ends)
    }
}

fn explains_move(end: &End, visit: &Visit) -> bool {
    end.begins <= visit.ended && end.over.is_none_or(|over| visit.begun <= over + PROPAGATION)
}

/// Whether a process was killed while it may have had this request, also before the client noticed.
fn was_killed_during(end: &End, visit: &Visit, loss: &Loss) -> bool {
    let during =
        |(from, to): (Duration, Duration)| loss.opening <= to && visit.begun <= to + NOTICE && from <= visit.ended;
    end.cause.is_sudden() && end.process.is_some_and(during)
}

/// Whether a stream ended with this process, or in peace before it.
fn has_ended_during(end: &End, visit: &Visit) -> bool {
    // A process without an end was ending when the run was over.
    end.begins <= visit.ended && end.process.is_none_or(|(_, to)| visit.begun <= to + NOTICE)
}

fn count(counts: &mut Counts, visit: &Visit) {
    *counts.entry(visit.protocol).or_default() += 1;
}

fn told(visit: &Visit) -> String {
    let (begun, ended) = (visit.begun.as_secs_f32(), visit.ended.as_secs_f32());
    format!(
        "client {} ({}), {begun:.3} s to {ended:.3} s",
        visit.client,
        visit.protocol.name()
    )
}
