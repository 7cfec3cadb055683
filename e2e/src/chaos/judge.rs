//! The rules by which a failure or a move has a reason.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use super::{Cause, End, Loss, Outcome, Pod, Protocol, Role, Visit};

/// How long after a pod serves again somebody may not know it yet: kube-proxy, or an Envoy.
const PROPAGATION: Duration = Duration::from_secs(5);
/// How long after the end of a process its clients may not have noticed. The machine may be busy.
const NOTICE: Duration = Duration::from_secs(2);

/// Counts by protocol.
pub type Counts = BTreeMap<Protocol, usize>;

/// What one kind of end did to clients.
#[derive(Debug, Default)]
pub struct Row {
    /// How many pods or processes ended so.
    pub ends: usize,
    /// Sessions that moved, once for each end of their pod.
    pub moved: Counts,
    /// Requests that a killed process had.
    pub lost: Counts,
    /// Connections that a killed process did not take any more. Their clients connected again.
    pub refused: Counts,
    /// Open streams that ended with a process. Their clients opened others.
    pub streams: Counts,
}

/// What a run has shown.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Requests with an answer of a backend.
    pub answered: Counts,
    /// Tokens in answers of the backend that the session was on: after a change of the key.
    pub renewed: Counts,
    /// What has a reason, by the reason.
    pub rows: BTreeMap<(Role, Cause), Row>,
    /// Requests that failed without a reason.
    pub failed: Vec<String>,
    /// Sessions that moved although their pod lived.
    pub moved: Vec<String>,
    /// Sessions that moved more than once for one end of their pod.
    pub moved_again: Vec<String>,
}

/// Judges what clients saw, in the order in which each client saw it.
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
    /// The pod of each client's session.
    sessions: BTreeMap<usize, &'a str>,
    /// How often a session has moved for an end of a pod.
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

    /// A request may be lost that a killed Envoy had, or that a killed pod of the application had. If the session's pod
    /// has ended, the request may have been at any.
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

/// Whether somebody may go elsewhere during this visit, because the pod does not serve.
fn explains_move(end: &End, visit: &Visit) -> bool {
    end.begins <= visit.ended && end.over.is_none_or(|over| visit.begun <= over + PROPAGATION)
}

/// Whether a process was killed while it may have had this request. A client that sends one on the connection of a
/// process that is gone has not noticed yet.
fn was_killed_during(end: &End, visit: &Visit, loss: &Loss) -> bool {
    let during =
        |(from, to): (Duration, Duration)| loss.opening <= to && visit.begun <= to + NOTICE && from <= visit.ended;
    end.cause.is_sudden() && end.process.is_some_and(during)
}

/// Whether a stream has ended with this process. One that ends in peace ends its streams before it ends itself.
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
