//! Leader election: of several replicas, the one that holds a Lease writes; all of them serve.
//!
//! As in client-go, a Lease that did not change for `leaseDurationSeconds` is free, by this process's own clock. The
//! crates for it compare the Lease's times with the machine's clock, and clocks may differ.
//!
//! The times are as for node Leases. Losing the leader costs little, since every replica serves.
//!
//! The Lease belongs to the `ServiceAccount` of its holder, and goes with it. An uninstallation takes the holder's
//! rights before its process has ended, which then cannot release the Lease; a new installation would wait until that
//! expires. Without its `ServiceAccount`, a process can write nothing, so waiting is needless.

use std::pin::{Pin, pin};
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Error};
use tokio::sync::watch;

use crate::cluster::config::LeaderConfig;
use crate::cluster::kube::named_object::{self, ObservedObject};

const LEASE: Duration = Duration::from_secs(40);
/// A holder without a renewal for this long stops writing: ten seconds before another replica may start, so that a call
/// on its way ends meanwhile.
const RENEW_DEADLINE: Duration = Duration::from_secs(30);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);
const CALL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Candidate {
    reviews: Api<SelfSubjectReview>,
    leases: Api<Lease>,
    namespace: String,
    name: String,
    identity: String,
    pod: Option<String>,
    enabled: bool,
    leads: watch::Sender<bool>,
    /// The Lease as it was last seen, and since when it has not changed.
    observed: Option<(LeaseSpec, Instant)>,
    /// When this leader sent its last renewal. The others count from a later time.
    renewed: Option<Instant>,
    written: Option<Lease>,
    /// The last error, so that it is logged once.
    failed: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LeaseHolder {
    Ours,
    Theirs,
}

impl Candidate {
    /// The receiver has whether the replica `identity` leads.
    pub(crate) fn new(client: &Client, config: &LeaderConfig, identity: String) -> (Self, watch::Receiver<bool>) {
        let (leads, receiver) = watch::channel(!config.enabled);
        let namespace = config.namespace(client).to_owned();
        let candidate = Self {
            reviews: Api::all(client.clone()),
            leases: Api::namespaced(client.clone(), &namespace),
            namespace,
            name: config.name.clone(),
            identity,
            pod: std::env::var("POD_NAME").ok(),
            enabled: config.enabled,
            leads,
            observed: None,
            renewed: None,
            written: None,
            failed: None,
        };
        (candidate, receiver)
    }

    /// Takes part until `shutdown`, then releases the Lease, so that another replica need not wait.
    pub(crate) async fn run(mut self, mut shutdown: watch::Receiver<bool>) {
        if !self.enabled {
            let _ = shutdown.wait_for(|ends| *ends).await;
            return;
        }
        let mut states = pin!(named_object::follow(self.leases.clone(), "Lease", &self.name));
        loop {
            let rest = self.acquire_or_renew().await;
            tokio::select! {
                () = self.wait(rest, states.as_mut()) => {}
                _ = shutdown.wait_for(|ends| *ends) => break,
            }
        }
        if self.set(false) {
            let released = tokio::time::timeout(CALL, self.release()).await;
            if !matches!(released, Ok(Ok(()))) {
                tracing::warn!(lease = self.name, "the Lease could not be released");
            }
        }
    }

    /// Renews the Lease, or takes it if it is free. Returns when to try again if the Lease does not change.
    async fn acquire_or_renew(&mut self) -> Duration {
        let begun = Instant::now();
        self.stop_in_time();
        let limit = self.until_deadline().map_or(CALL, |left| left.min(CALL));
        let turn = match tokio::time::timeout(limit, self.turn()).await {
            Ok(turn) => turn.map_err(|error| error.to_string()),
            Err(_) => Err("no answer".to_owned()),
        };
        let failed = turn.as_ref().err().cloned();
        if let Some(error) = failed.as_ref().filter(|_| failed != self.failed) {
            tracing::warn!(lease = self.name, %error, "leader election failed");
        }
        self.failed = failed;
        match turn {
            Ok(LeaseHolder::Ours) => {
                self.renewed = Some(begun);
                self.set(true);
                RENEW
            }
            Ok(LeaseHolder::Theirs) => {
                self.renewed = None;
                self.set(false);
                self.until_expiry().max(RETRY)
            }
            Err(_) => {
                self.stop_in_time();
                self.until_deadline().map_or(RETRY, |left| left.min(RETRY))
            }
        }
    }

    /// Stops leading after the deadline.
    fn stop_in_time(&mut self) {
        if self.until_deadline().is_none_or(|left| left.is_zero()) {
            self.renewed = None;
            self.set(false);
        }
    }

    /// How long this replica may lead without another renewal; `None`: it does not lead.
    fn until_deadline(&self) -> Option<Duration> {
        let renewed = self.renewed?;
        Some(RENEW_DEADLINE.saturating_sub(renewed.elapsed()))
    }

    /// Waits, but ends early if the Lease becomes free, and later while its holder renews it.
    async fn wait(&mut self, rest: Duration, mut states: Pin<&mut impl Stream<Item = ObservedObject<Lease>>>) {
        let mut end = Instant::now() + rest;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end.into()) => return,
                // Without the right to watch it, the Lease is read when it may have expired.
                Some(seen) = states.next() => if let Ok(lease) = seen {
                    match self.holder(lease) {
                        Some(LeaseHolder::Ours) => {}
                        Some(LeaseHolder::Theirs) if self.renewed.is_none() => {
                            end = Instant::now() + self.until_expiry();
                        }
                        _ => return,
                    }
                },
            }
        }
    }

    fn holder(&mut self, lease: Option<Lease>) -> Option<LeaseHolder> {
        let spec = lease.and_then(|lease| lease.spec)?;
        let holder = spec.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
        if holder == self.identity {
            return Some(LeaseHolder::Ours);
        }
        self.observe(&spec);
        Some(LeaseHolder::Theirs)
    }

    /// Returns whether that is a change.
    fn set(&self, leads: bool) -> bool {
        let changed = self
            .leads
            .send_if_modified(|known| std::mem::replace(known, leads) != leads);
        if changed {
            tracing::info!(lease = self.name, leads, "leader election");
        }
        changed
    }

    async fn turn(&mut self) -> Result<LeaseHolder, Error> {
        // Without other writes since, renewing is one request.
        if let Some(lease) = self.written.take()
            && let LeaseHolder::Ours = self.acquire(Some(lease)).await?
        {
            return Ok(LeaseHolder::Ours);
        }
        let lease = self.leases.get_opt(&self.name).await?;
        self.acquire(lease).await
    }

    /// Writes the Lease with us as its holder, unless another replica holds it.
    async fn acquire(&mut self, lease: Option<Lease>) -> Result<LeaseHolder, Error> {
        let post = PostParams::default();
        let Some(mut lease) = lease else {
            let metadata = ObjectMeta {
                name: Some(self.name.clone()),
                owner_references: self.owner().await,
                ..ObjectMeta::default()
            };
            let spec = Some(self.taken(None));
            let lease = Lease { metadata, spec };
            let created = self.leases.create(&post, &lease).await;
            return self.wrote(created);
        };
        let spec = lease.spec.unwrap_or_default();
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let is_held = !holder.is_empty() && holder != self.identity && !self.is_predecessor(&holder);
        if is_held && !self.has_expired(&spec) {
            return Ok(LeaseHolder::Theirs);
        }
        let is_own = holder == self.identity;
        if !is_own {
            lease.metadata.owner_references = self.owner().await;
        }
        let mut taken = self.taken(is_own.then_some(&spec));
        taken.lease_transitions = Some(spec.lease_transitions.unwrap_or_default() + i32::from(!is_own));
        lease.spec = Some(taken);
        // By its resourceVersion: of two replicas, the second gets a conflict.
        let replaced = self.leases.replace(&self.name, &post, &lease).await;
        self.wrote(replaced)
    }

    /// The `ServiceAccount` of this process. Only an object of the same namespace can be an owner.
    async fn owner(&self) -> Option<Vec<OwnerReference>> {
        let post = PostParams::default();
        let review = self.reviews.create(&post, &SelfSubjectReview::default()).await;
        // Without an answer, the Lease has no owner, as when a person runs the controller.
        let user = review.ok()?.status?.user_info?;
        let name = user.username?;
        let name = name.strip_prefix(&format!("system:serviceaccount:{}:", self.namespace))?;
        Some(vec![OwnerReference {
            api_version: "v1".to_owned(),
            kind: "ServiceAccount".to_owned(),
            name: name.to_owned(),
            uid: user.uid?,
            ..OwnerReference::default()
        }])
    }

    fn wrote(&mut self, result: Result<Lease, Error>) -> Result<LeaseHolder, Error> {
        match result {
            Ok(lease) => {
                self.written = Some(lease);
                Ok(LeaseHolder::Ours)
            }
            // Another replica was faster, or the Lease was deleted.
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(LeaseHolder::Theirs),
            Err(error) => Err(error),
        }
    }

    /// Whether this is an earlier process in the same pod. It has ended, or this one would not have started.
    fn is_predecessor(&self, holder: &str) -> bool {
        let pod = holder.rsplit_once('_').map(|(pod, _)| pod);
        pod.is_some() && pod == self.pod.as_deref()
    }

    fn has_expired(&mut self, spec: &LeaseSpec) -> bool {
        self.observe(spec);
        self.until_expiry().is_zero()
    }

    fn observe(&mut self, spec: &LeaseSpec) {
        if self.observed.as_ref().is_none_or(|(seen, _)| seen != spec) {
            self.observed = Some((spec.clone(), Instant::now()));
        }
    }

    /// How long another replica's Lease lasts without a change.
    fn until_expiry(&self) -> Duration {
        let Some((spec, since)) = &self.observed else {
            return Duration::ZERO;
        };
        let held = spec
            .lease_duration_seconds
            .and_then(|seconds| u64::try_from(seconds).ok());
        held.map_or(LEASE, Duration::from_secs).saturating_sub(since.elapsed())
    }

    /// The Lease with us as its holder. `own`: the Lease if we hold it already.
    fn taken(&self, own: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(LEASE.as_secs()).ok(),
            acquire_time: own
                .and_then(|own| own.acquire_time.clone())
                .or_else(|| Some(now.clone())),
            renew_time: Some(now),
            ..own.cloned().unwrap_or_default()
        }
    }

    async fn release(&self) -> Result<(), Error> {
        let mut lease = self.leases.get(&self.name).await?;
        let spec = lease.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(&*self.identity) {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            self.leases.replace(&self.name, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// The API server echoes requests after a delay.
    fn candidate(delay: Duration) -> (Candidate, watch::Receiver<bool>) {
        let answer = move |request: Request<Body>| async move {
            tokio::time::sleep(delay).await;
            Ok::<_, std::io::Error>(Response::new(request.into_body()))
        };
        let client = Client::new(tower::service_fn(answer), "default");
        let config = LeaderConfig::default();
        Candidate::new(&client, &config, "one_1".to_owned())
    }

    /// A Lease that this replica has written.
    fn written() -> Lease {
        let spec = LeaseSpec {
            holder_identity: Some("one_1".to_owned()),
            ..LeaseSpec::default()
        };
        Lease {
            metadata: ObjectMeta::default(),
            spec: Some(spec),
        }
    }

    #[tokio::test]
    async fn a_renewal_counts_from_before_its_call() {
        let (mut candidate, leads) = candidate(Duration::from_millis(200));
        candidate.written = Some(written());
        let begun = Instant::now();
        assert_eq!(candidate.acquire_or_renew().await, RENEW);
        assert!(*leads.borrow());
        let after = candidate.renewed.unwrap().duration_since(begun);
        assert!(after < Duration::from_millis(100), "{after:?}");
    }

    #[tokio::test]
    async fn a_leader_stops_at_the_deadline_amid_a_call() {
        let (mut candidate, leads) = candidate(CALL * 2);
        candidate.written = Some(written());
        candidate.set(true);
        let left = Duration::from_millis(200);
        candidate.renewed = Instant::now().checked_sub(RENEW_DEADLINE.saturating_sub(left));
        assert!(candidate.renewed.is_some());
        let begun = Instant::now();
        candidate.acquire_or_renew().await;
        assert!(begun.elapsed() < CALL / 2, "{:?}", begun.elapsed());
        assert!(!*leads.borrow());
        assert!(RENEW_DEADLINE + CALL < LEASE);
    }

    #[tokio::test]
    async fn a_leader_tries_again_before_the_deadline() {
        let (mut candidate, leads) = candidate(Duration::ZERO);
        candidate.set(true);
        candidate.renewed = Instant::now().checked_sub(RENEW_DEADLINE.saturating_sub(RETRY / 2));
        // The answer to a read is empty, which is no Lease.
        let rest = candidate.acquire_or_renew().await;
        assert!(*leads.borrow());
        assert!(rest <= RETRY / 2, "{rest:?}");
    }
}
