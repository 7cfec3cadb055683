#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use kube::Client;
use limpet_xds::LogRate;
use tokio::sync::watch;
use tower::limit::RateLimit;
use tower::limit::rate::Rate;

use super::desired::{DesiredStatuses, StatusFacts, catch_up};
use super::events::{EventObject, EventRecorder, StatusEvent, problem, problems};
use super::metrics::StatusMetrics;
use super::programmed::{ProgrammedConditions, current_counts};
use super::shape::DesiredStatus;
use super::writer::{self, StatusWrite, StatusWriteOutcome};
use crate::cluster::kube::{Backoff, Observation, StatusDigest};
use crate::cluster::reconcile::delivery::Delivery;
use crate::cluster::reconcile::manifests::WrittenManifests;
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile, changed_or_never};
use crate::cluster::reconcile::replicas::{ReplicaReports, ReplicaView};
use crate::cluster::reconcile::reported::PublishedReports;
use crate::cluster::reconcile::services::RefusedServices;
use limpet_api::{Kind, ObjectName, ObjectRef, Text};
use limpet_model::reports::Condition;
use limpet_model::{Map, Objects, Reports};
use limpet_resources::changes;

/// Writes at once.
const PARALLEL: usize = 4;
/// The most writes before statuses are compared again.
const ROUND: usize = 64;
/// The most requests for statuses within a time: a start with thousands of routes must not delay others.
const REQUESTS: u64 = 9;
const REQUESTS_WITHIN: Duration = Duration::from_millis(100);

/// The reason if former Envoys serve, because others do not come up.
const ENVOYS_NOT_UPDATED: &str = "EnvoysNotUpdated";

#[derive(Debug, Clone)]
pub(crate) struct StatusInputs {
    pub(crate) reported: watch::Receiver<Option<PublishedReports>>,
    pub(crate) observation: watch::Receiver<Observation>,
    pub(crate) delivery: Delivery,
    pub(crate) replicas: ReplicaReports,
    pub(crate) without_service: watch::Receiver<RefusedServices>,
    /// The Envoys that we keep.
    pub(crate) without_envoys: watch::Receiver<WrittenManifests>,
}

pub(crate) struct StatusReconciler {
    client: Client,
    inputs: StatusInputs,
    leads: watch::Receiver<bool>,
    metrics: StatusMetrics,
    facts: StatusFacts,
    programmed: ProgrammedConditions,
    /// The last reports of other replicas, valid while no report can come.
    others: Arc<ReplicaView>,
    desired: DesiredStatuses,
    /// The source of `desired`.
    desired_from: Option<Arc<Reports>>,
    problems: BTreeMap<(Kind, ObjectName), BTreeSet<StatusEvent>>,
    malformed: BTreeMap<ObjectRef, String>,
    /// The source of `desired`.
    objects: Arc<Objects>,
    /// As of the last comparison.
    observed: Observation,
    /// Statuses that have changed on either side, or differed.
    unequal: BTreeSet<(Kind, ObjectName)>,
    /// The last written namespaces: of Gateways, of others and of failed ones.
    turns: [Text; 3],
    failed: BTreeSet<(Kind, ObjectName)>,
    /// Written digests, with the version of the object before. It is not written again until the watch brings another
    /// version.
    written: BTreeMap<(Kind, ObjectName), (String, StatusDigest)>,
    recorder: EventRecorder,
    logs: LogRate,
    /// When deferred Events are due.
    events_due: Option<Instant>,
    backoff: Backoff,
    /// Whether to compare statuses: acknowledgements come all the time and rarely change them, and comparing visits all
    /// objects.
    is_due: bool,
    #[cfg(test)]
    comparisons: usize,
}

impl Reconcile for StatusReconciler {
    const GATHER: Duration = Duration::from_millis(100);

    async fn changed(&mut self) -> Result<(), Closed> {
        let inputs = &mut self.inputs;
        tokio::select! {
            changed = inputs.reported.changed() => changed?,
            changed = inputs.observation.changed() => changed?,
            changed = self.leads.changed() => changed?,
            () = changed_or_never(&mut inputs.without_service) => {}
            () = changed_or_never(&mut inputs.without_envoys) => {}
            () = inputs.delivery.changed() => return Ok(()),
            () = inputs.replicas.changed() => return Ok(()),
        }
        self.is_due = true;
        Ok(())
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        // Changes since `changed`. A closed channel ends the loop.
        self.is_due |= self.leads.has_changed().unwrap_or_default()
            || self.inputs.reported.has_changed().unwrap_or_default()
            || self.inputs.observation.has_changed().unwrap_or_default()
            || self.until_tell().is_some_and(|rest| rest.is_zero());
        let leads = *self.leads.borrow_and_update();
        self.metrics.leads.set(leads.into());
        let reported = self.inputs.reported.borrow_and_update().clone()?;
        let observation = self.inputs.observation.borrow_and_update().clone();
        let look = self.update_desired(&reported);
        if !leads {
            // Another replica writes now, so this one does not know what was written.
            self.written.clear();
            self.failed.clear();
            self.observed = Observation::default();
            // Frees former versions of objects.
            (self.objects, self.malformed) = (Arc::default(), BTreeMap::new());
            return look;
        }
        if !self.is_due {
            return look.into_iter().chain(self.until_tell()).min();
        }
        #[cfg(test)]
        {
            self.comparisons += 1;
        }
        let jobs = self.jobs(&observation);
        let more = jobs.len() >= ROUND;
        let failed = self.write(jobs).await;
        self.record_malformed(&reported.objects);
        let tell = self
            .recorder
            .report(self.problems(&observation, &reported.objects))
            .await;
        self.events_due = tell.map(|rest| Instant::now() + rest);
        self.is_due = failed || more;
        if failed {
            return Some(self.backoff.next());
        }
        self.backoff.reset();
        if more {
            return Some(Self::GATHER);
        }
        look.into_iter().chain(tell).min()
    }
}

impl StatusReconciler {
    pub(crate) fn new(
        client: Client,
        inputs: StatusInputs,
        leads: watch::Receiver<bool>,
        metrics: StatusMetrics,
        facts: StatusFacts,
        recorder: EventRecorder,
    ) -> Self {
        Self {
            recorder,
            logs: LogRate::default(),
            events_due: None,
            client: paced(client),
            inputs,
            leads,
            metrics,
            facts,
            programmed: ProgrammedConditions::default(),
            others: Arc::default(),
            desired: DesiredStatuses::new(),
            desired_from: None,
            problems: BTreeMap::new(),
            malformed: BTreeMap::new(),
            objects: Arc::default(),
            observed: Observation::default(),
            unequal: BTreeSet::new(),
            turns: Default::default(),
            failed: BTreeSet::new(),
            written: BTreeMap::new(),
            backoff: Backoff::of_the_api(),
            is_due: true,
            #[cfg(test)]
            comparisons: 0,
        }
    }

    fn until_tell(&self) -> Option<Duration> {
        let at = self.events_due?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    /// Returns when to update again.
    fn update_desired(&mut self, reported: &PublishedReports) -> Option<Duration> {
        let (programmed, again) = match &self.inputs.delivery {
            Delivery::Xds(status) => {
                let gateways = reported.gateways.iter();
                let variables = &reported.variables;
                let seen = gateways.map(|gateway| (gateway.clone(), current_counts(gateway, status, variables)));
                if let Some(others) = self.inputs.replicas.others() {
                    self.others = others;
                }
                let again = self.programmed.observe(seen.collect(), &self.others, Instant::now());
                self.inputs.replicas.report_envoys(self.programmed.local_counts());
                (self.programmed.conditions(&self.others), again)
            }
            Delivery::Objects { written, .. } => (written.borrow().conditions.clone(), None),
        };
        let without_service = self.inputs.without_service.borrow_and_update().clone();
        let is_known = self
            .desired_from
            .as_ref()
            .is_some_and(|of| Arc::ptr_eq(of, &reported.reports));
        let envoys = self.inputs.without_envoys.borrow_and_update().clone();
        let facts = StatusFacts {
            controller: self.facts.controller.clone(),
            programmed,
            without_service,
            services_role: self.facts.services_role.clone(),
            without_envoys: envoys.conditions,
            stuck: envoys.stuck,
        };
        if !is_known || facts != self.facts {
            self.log_refusals(&facts.programmed);
            self.make_desired(&reported.reports, facts);
            self.is_due = true;
        }
        again
    }

    fn make_desired(&mut self, reports: &Arc<Reports>, facts: StatusFacts) {
        let before = self.desired_from.replace(Arc::clone(reports)).unwrap_or_default();
        let facts_before = std::mem::replace(&mut self.facts, facts);
        let changed = catch_up(&mut self.desired, (&before, &facts_before), (reports, &self.facts));
        for of in &changed {
            let wanted = self.desired.get(&of.0).and_then(|of_kind| of_kind.get(&of.1));
            let problems = wanted
                .iter()
                .filter_map(|wanted| wanted.as_ref())
                .flat_map(|(_, wanted)| problems(wanted));
            let problems: BTreeSet<StatusEvent> = problems.collect();
            if problems.is_empty() {
                self.problems.remove(of);
            } else {
                self.problems.insert(of.clone(), problems);
            }
        }
        self.unequal.extend(changed);
    }

    /// The xDS server logs only Envoy's words.
    fn log_refusals(&self, programmed: &BTreeMap<ObjectName, Condition>) {
        for (gateway, condition) in programmed {
            if condition.reason == "Invalid"
                && self.facts.programmed.get(gateway) != Some(condition)
                && let Some(left_out) = self.logs.permit()
            {
                let reason = &condition.message;
                tracing::warn!(kind = "Gateway", object = %gateway, reason, left_out, "is not programmed");
            }
        }
    }

    /// The changed statuses that differ.
    fn jobs(&mut self, observation: &Observation) -> Vec<StatusWrite> {
        if self.observed.served != observation.served {
            self.observed = Observation::default();
        }
        let nothing = Map::new();
        for (kind, observed) in &*observation.objects {
            let before = self.observed.objects.get(kind).unwrap_or(&nothing);
            let changed = changes(before, observed).map(|(name, ..)| (*kind, name.clone()));
            self.unequal.extend(changed);
        }
        self.observed = observation.clone();
        // They stay in `unequal` until the write is known.
        let (mut jobs, mut equal) = (Vec::new(), Vec::new());
        for (class, of) in self.in_turn() {
            if jobs.len() >= ROUND {
                break;
            }
            match self.job(&of) {
                Some(job) => jobs.push(job),
                None => equal.push(of.clone()),
            }
            if let Some(last) = self.turns.get_mut(class) {
                *last = of.1.namespace;
            }
        }
        for of in &equal {
            self.unequal.remove(of);
            self.failed.remove(of);
            let observed = self.observed.objects.get(&of.0);
            if observed.is_none_or(|observed| !observed.contains_key(&of.1)) {
                self.written.remove(of);
            }
        }
        jobs
    }

    /// The order of statuses, with indices into `turns`. Namespaces take turns, so that none waits for another, and so
    /// do Gateways and others: there are few Gateways and people look at them, but one may change all the time. Failed
    /// ones have every eighth turn.
    fn in_turn(&self) -> Vec<(usize, (Kind, ObjectName))> {
        const OTHERS: usize = 1;
        const FAILED: usize = 2;
        let class = |of: &(Kind, ObjectName)| match of.0 {
            _ if self.failed.contains(of) => FAILED,
            Kind::GatewayClass | Kind::Gateway => 0,
            _ => OTHERS,
        };
        let mut classes: [Vec<&(Kind, ObjectName)>; 3] = Default::default();
        for of in &self.unequal {
            if let Some(same) = classes.get_mut(class(of)) {
                same.push(of);
            }
        }
        let mut all = Vec::with_capacity(self.unequal.len());
        for (class, (mut same, last)) in classes.into_iter().zip(&self.turns).enumerate() {
            same.sort_by_key(|of| (of.1.namespace <= *last, &of.1.namespace));
            let place = |rank: usize| if class == FAILED { 8 * rank + 7 } else { rank };
            all.extend(same.into_iter().enumerate().map(|(rank, of)| (place(rank), class, of)));
        }
        all.sort_by_key(|(place, ..)| *place);
        all.into_iter().map(|(_, class, of)| (class, of.clone())).collect()
    }

    /// The write of an object's status. `None`: it is as wanted.
    fn job(&self, (kind, name): &(Kind, ObjectName)) -> Option<StatusWrite> {
        let is_judged = matches!(self.inputs.delivery, Delivery::Xds(_)) || kind.is_session_policy();
        let resource = self.observed.served.get(kind).filter(|_| is_judged)?;
        let observed = self.observed.objects.get(kind)?.get(name)?;
        let nothing = StatusDigest::of_nothing();
        let (digest, wanted) = match self.desired.get(kind).and_then(|of_kind| of_kind.get(name)) {
            Some(Some((digest, wanted))) => (*digest, wanted.clone()),
            Some(None) => return None,
            // An object of another controller or class.
            None if matches!(kind, Kind::GatewayClass | Kind::Gateway | Kind::IngressRoute) => return None,
            None => (nothing, DesiredStatus::Entries(Vec::new())),
        };
        let written = self.written.get(&(*kind, name.clone()));
        let is_written = written.is_some_and(|(version, of)| *version == observed.version && *of == digest);
        let there = if wanted.leaves_addresses() {
            observed.status.without_addresses
        } else {
            observed.status.ours
        };
        if there == digest || is_written {
            return None;
        }
        Some(StatusWrite {
            kind: *kind,
            resource: resource.clone(),
            name: name.clone(),
            uid: observed.uid.clone(),
            version: observed.version.clone(),
            is_first: observed.status.is_absent,
            digest,
            desired: wanted,
        })
    }

    /// Returns whether to try again.
    async fn write(&mut self, jobs: Vec<StatusWrite>) -> bool {
        let client = &self.client;
        let controller = self.facts.controller.as_str();
        let leads = self.leads.clone();
        let write = |job: StatusWrite| {
            let leads = leads.clone();
            async move {
                // The Lease may have been lost meanwhile.
                let result = if *leads.borrow() {
                    Some(writer::write(client.clone(), &job, controller).await)
                } else {
                    None
                };
                (job, result)
            }
        };
        let results: Vec<_> = futures::stream::iter(jobs)
            .map(write)
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        let mut failed = false;
        for (job, result) in results {
            let Some(result) = result else { continue };
            let (kind, name) = (job.kind.as_str(), &job.name);
            let outcome = result.as_ref().map_or("failed", |outcome| outcome.name());
            self.metrics.wrote(outcome);
            let is_done = match result {
                Ok(StatusWriteOutcome::Conflict) => false,
                Ok(outcome) => {
                    tracing::debug!(kind, object = %name, outcome = outcome.name(), "status");
                    true
                }
                // It would be refused again.
                Err(kube::Error::Api(status)) if status.code == 422 => {
                    if let Some(left_out) = self.logs.permit() {
                        tracing::error!(kind, object = %name, error = status.message, left_out, "a status was refused");
                    }
                    true
                }
                Err(error) => {
                    if let Some(left_out) = self.logs.permit() {
                        tracing::warn!(kind, object = %name, %error, left_out, "a status cannot be written");
                    }
                    false
                }
            };
            let of = (job.kind, job.name);
            if is_done {
                self.failed.remove(&of);
                self.written.insert(of, (job.version, job.digest));
            } else {
                self.failed.insert(of);
                failed = true;
            }
        }
        failed
    }

    fn record_malformed(&mut self, objects: &Arc<Objects>) {
        let before = std::mem::replace(&mut self.objects, Arc::clone(objects));
        for (object, error) in objects.malformed_since(&before) {
            match error {
                Some(error) => drop(self.malformed.insert(object, error.to_string())),
                None => drop(self.malformed.remove(&object)),
            }
        }
    }

    fn problems(&self, observation: &Observation, objects: &Objects) -> BTreeMap<EventObject, BTreeSet<StatusEvent>> {
        let mut all: BTreeMap<EventObject, BTreeSet<StatusEvent>> = BTreeMap::new();
        let mut add = |kind: Kind, name: &ObjectName, problems: BTreeSet<StatusEvent>| {
            let observed = observation.objects.get(&kind).and_then(|of_kind| of_kind.get(name));
            let uid = observed.map_or_else(|| uid(objects, kind, name), |observed| Some(&observed.uid));
            let resource = observation.served.get(&kind);
            if let (false, Some(uid), Some(resource)) = (problems.is_empty(), uid, resource) {
                let regarding = EventObject {
                    kind: kind.as_str(),
                    api_version: resource.api_version.clone(),
                    name: name.clone(),
                    uid: uid.clone(),
                };
                all.entry(regarding).or_default().extend(problems);
            }
        };
        for ((kind, name), problems) in &self.problems {
            add(*kind, name, problems.clone());
        }
        for (gateway, message) in &self.facts.stuck {
            let problem = StatusEvent::of_object(ENVOYS_NOT_UPDATED, message.clone());
            add(Kind::Gateway, gateway, [problem].into());
        }
        let without_status = self.desired_from.iter().flat_map(|of| &of.without_status);
        for (object, condition) in without_status {
            add(object.kind, &object.name, [problem(condition)].into());
        }
        // Conditions of the object were added above.
        let has_condition = |kind: Kind, name: &ObjectName| self.problems.contains_key(&(kind, name.clone()));
        let is_foreign = |object: &ObjectRef| {
            let of = self.desired_from.as_ref().filter(|_| object.kind == Kind::IngressRoute);
            of.is_some_and(|of| !of.ingress_routes.contains_key(&object.name))
        };
        for (object, malformed) in &self.malformed {
            // An object of another class does not count.
            if is_foreign(object) {
                continue;
            }
            let is_told = self
                .desired_from
                .as_ref()
                .is_some_and(|of| of.without_status.contains_key(object));
            if !is_told && !has_condition(object.kind, &object.name) {
                let problem = StatusEvent::of_object("Invalid", malformed.clone());
                add(object.kind, &object.name, [problem].into());
            }
        }
        all
    }
}

/// Limits the rate of requests.
fn paced(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let send = tower::service_fn(move |request| {
        let client = client.clone();
        async move { client.send(request).await }
    });
    let rate = Rate::new(REQUESTS, REQUESTS_WITHIN);
    Client::new(RateLimit::new(send, rate), namespace)
}

/// The uid of an object of a kind without a status of ours.
fn uid<'a>(objects: &'a Objects, kind: Kind, name: &ObjectName) -> Option<&'a String> {
    Some(match kind {
        Kind::Service => &objects.services.get(name)?.meta.uid,
        Kind::ReferenceGrant => &objects.reference_grants.get(name)?.meta.uid,
        Kind::EnvoyDeployment => &objects.envoy_deployments.get(name)?.meta.uid,
        Kind::TlsCertificateDelegation => &objects.certificate_delegations.get(name)?.meta.uid,
        _ => return None,
    })
}
