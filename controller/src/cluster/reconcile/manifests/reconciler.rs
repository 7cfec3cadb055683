use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant as SteadyTime};

use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Error};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::complaints::OrphanDiagnostics;
use super::difference::{LiveObjects, ManifestKey, NormalizedObjects, excess, is_as_wanted, keep, key};
use super::propagation::Propagation;
use super::proxies;
use super::recipient::ManifestRecipient;
use super::results::ManifestResults;
use super::scale;
use super::written::{DesiredManifests, WrittenManifests};
use crate::cluster::kube::{Backoff, FIELD_MANAGER, StatusDigest, TruncatedObject, delete};
use crate::cluster::reconcile::diagnostics::is_about_the_object;
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use crate::cluster::reconcile::turns::{DeferredRetries, RoundOrder};
use limpet_api::ObjectName;
use limpet_outputs::envoys;
use limpet_outputs::manifests::{
    CONTROLLER_LABEL, MANAGED_BY, MANAGER, Manifest, ManifestKind, WriteStage, controller_label,
};
use limpet_xds::LogRate;

/// The time between checks for changes by others, which are undone.
const LOOK: Duration = Duration::from_secs(10);
/// The annotation with the digest of what was last applied, see `difference`.
const DIGEST: &str = "limpet.dev/digest";

pub(crate) struct ManifestReconciler {
    client: Client,
    recipient: ManifestRecipient,
    label: String,
    propagation: Propagation,
    desired: watch::Receiver<Option<Arc<DesiredManifests>>>,
    leads: watch::Receiver<bool>,
    sender: watch::Sender<WrittenManifests>,
    complaints: OrphanDiagnostics,
    backoff: Backoff,
    /// Written generations, and when all proxies should have the keyring of each.
    settling: VecDeque<(u64, Instant)>,
    normalized: NormalizedObjects,
    order: RoundOrder,
    /// Refused objects.
    waiting: DeferredRetries<ManifestKey, ManifestRefusal>,
    /// What proxies lacked at the last check.
    lacking: BTreeMap<ObjectName, String>,
    logs: LogRate,
}

#[derive(Debug, Default)]
struct ListedObjects {
    live: LiveObjects,
    not_served: BTreeSet<&'static ManifestKind>,
    /// Namespaces that could not be read, and why.
    unreadable: BTreeMap<String, String>,
    autoscaled: BTreeSet<ObjectName>,
}

enum ManifestRound {
    Done(Box<ManifestResults>),
    /// There is newer input, or the Lease was lost.
    Outdated,
}

impl Reconcile for ManifestReconciler {
    const GATHER: Duration = Duration::from_millis(50);

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            changed = self.desired.changed() => Ok(changed?),
            changed = self.leads.changed() => Ok(changed?),
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        let leads = *self.leads.borrow_and_update();
        let wanted = self.desired.borrow_and_update().clone();
        let (true, Some(wanted)) = (leads, wanted) else {
            self.complaints.report(&BTreeMap::new());
            self.waiting = DeferredRetries::default();
            self.propagation.clear();
            self.settling.clear();
            return None;
        };
        match self.round(&wanted).await {
            Ok(ManifestRound::Outdated) => Some(Self::GATHER),
            Ok(ManifestRound::Done(found)) => {
                self.backoff.reset();
                self.publish(&wanted, &found);
                let is_settled = found.is_settled() && !self.propagation.settles(Instant::now());
                let look = if is_settled { LOOK } else { LOOK / 5 };
                let rest = self.waiting.rest(SteadyTime::now());
                // Each look lists everything, so due objects are gathered.
                let look = rest.map_or(look, |rest| rest.clamp(LOOK / 5, look));
                let due = self.settling.front().map(|(_, due)| *due);
                let due = due.into_iter().chain(found.due);
                let rests = due.map(|due| due.saturating_duration_since(Instant::now()));
                Some(rests.fold(look, Duration::min))
            }
            Err(error) => {
                tracing::warn!(%error, "the objects for {} cannot be written", self.recipient.name());
                Some(self.backoff.next())
            }
        }
    }
}

impl ManifestReconciler {
    pub(crate) fn new(
        client: Client,
        recipient: ManifestRecipient,
        controller_name: &str,
        propagation: Duration,
        wanted: watch::Receiver<Option<Arc<DesiredManifests>>>,
        leads: watch::Receiver<bool>,
        complaints: OrphanDiagnostics,
    ) -> (Self, watch::Receiver<WrittenManifests>) {
        let (told, written) = watch::channel(WrittenManifests::default());
        let reconciler = Self {
            client,
            recipient,
            label: controller_label(controller_name),
            propagation: Propagation::new(propagation),
            desired: wanted,
            leads,
            sender: told,
            complaints,
            backoff: Backoff::of_the_api(),
            settling: VecDeque::new(),
            normalized: NormalizedObjects::new(),
            order: RoundOrder::default(),
            waiting: DeferredRetries::default(),
            lacking: BTreeMap::new(),
            logs: LogRate::default(),
        };
        (reconciler, written)
    }

    /// Lets time pass.
    #[cfg(test)]
    pub(super) fn pass(&mut self, time: Duration) {
        self.propagation.pass(time);
        for (_, due) in &mut self.settling {
            *due -= time;
        }
    }

    fn publish(&mut self, wanted: &DesiredManifests, found: &ManifestResults) {
        self.complaints.report(&found.undeleted);
        let former = self.sender.borrow().conditions.clone();
        let condition = |gateway: &ObjectName| match &self.recipient {
            ManifestRecipient::Plane(plane) => {
                let condition = found.condition(gateway, plane.name());
                condition.or_else(|| former.get(gateway).cloned())
            }
            ManifestRecipient::Envoys(_) => found.of_envoys(gateway),
        };
        let conditions = wanted.gateways.iter();
        let conditions = conditions.filter_map(|gateway| Some((gateway.clone(), condition(gateway)?)));
        let conditions: BTreeMap<_, _> = conditions.collect();
        let now = Instant::now();
        let mut complete = self.propagation.settled(&wanted.gateways, now);
        complete.retain(|gateway| !found.problems.contains_key(gateway) && !found.held.contains(gateway));
        let settling = &mut self.settling;
        let settled_at = now + self.propagation.time();
        self.sender.send_if_modified(|written| {
            let before = written.clone();
            written.conditions = conditions;
            written.stuck = found.stuck();
            written.outdated.clone_from(&found.outdated);
            (written.seen, written.complete) = (wanted.generation, complete);
            // Proxies lack what could not be written.
            let last = settling.back().map_or(written.generation, |(last, _)| *last);
            if found.outdated.is_empty() && last != wanted.generation {
                settling.push_back((wanted.generation, settled_at));
            }
            let settled = settling.partition_point(|(_, due)| *due <= now);
            if let Some((generation, _)) = settling.drain(..settled).next_back() {
                written.generation = generation;
            }
            *written != before
        });
    }

    async fn round(&mut self, wanted: &DesiredManifests) -> Result<ManifestRound, Error> {
        let mut found = ManifestResults::default();
        let there = self.list_live(wanted).await?;
        self.normalized.retain(|key, _| there.live.contains_key(key));
        let manifests = &wanted.manifests.objects;
        let keys: BTreeSet<ManifestKey> = manifests.iter().map(|manifest| key(manifest)).collect();
        self.waiting
            .retain(|key| keys.contains(key) || there.live.contains_key(key));
        let mut is_through = self
            .write_stage(WriteStage::Filter, manifests, &there, &mut found)
            .await?;
        let excess: Vec<_> = excess(&there.live, &wanted.manifests).collect();
        let keys = excess
            .iter()
            .map(|(definition, name, _)| (*definition, (*name).clone()));
        self.propagation.admit(manifests, keys.collect(), Instant::now());
        // Filters of one tenant may change all the time, and others' routes do not wait for these.
        is_through &= self
            .write_stage(WriteStage::Routes, manifests, &there, &mut found)
            .await?;
        if !is_through {
            return Ok(ManifestRound::Outdated);
        }
        for (definition, name, object) in self.order.begin(excess, |(_, name, _)| &name.namespace) {
            if self.is_outdated() {
                return Ok(ManifestRound::Outdated);
            }
            let due = self.propagation.due(&(definition, name.clone()), None);
            if found.is_due(due) {
                self.delete(definition, name, object, &mut found).await?;
            }
        }
        self.check_proxies(wanted, &mut found).await;
        Ok(ManifestRound::Done(Box::new(found)))
    }

    /// Whether the Lease was lost, or there is newer input after enough writes.
    fn is_outdated(&self) -> bool {
        !*self.leads.borrow() || self.order.may_end() && self.desired.has_changed().unwrap_or(true)
    }

    /// Returns whether all objects of the stage had their turns.
    async fn write_stage(
        &mut self,
        stage: WriteStage,
        manifests: &[Arc<Manifest>],
        there: &ListedObjects,
        found: &mut ManifestResults,
    ) -> Result<bool, Error> {
        let of_stage = manifests.iter().filter(|manifest| manifest.stage == stage);
        for manifest in self.order.begin(of_stage, |manifest| &manifest.tenant) {
            if self.is_outdated() {
                return Ok(false);
            }
            match self.keep(manifest, there, found).await? {
                ApplyOutcome::Held => found.held.extend(manifest.gateways.iter().cloned()),
                ApplyOutcome::Unchanged => {
                    self.propagation.record_unchanged(manifest, Instant::now());
                    let object = there.live.get(&(manifest.definition, manifest.name.clone()));
                    let object = object.and_then(|object| serde_json::to_value(object).ok());
                    for objection in object.iter().flat_map(|object| self.recipient.objections(object)) {
                        found.object_to(manifest, &objection);
                    }
                    let trouble = object.and_then(|object| self.recipient.trouble(manifest.definition, &object));
                    if let Some(trouble) = trouble {
                        found.trouble(manifest, &trouble);
                    }
                }
                ApplyOutcome::Written => {
                    self.propagation.record(key(manifest), Some(manifest), Instant::now());
                    found.wrote = true;
                }
                ApplyOutcome::Refused(ManifestRefusal { problem, is_invalid }) => {
                    found.outdated.extend(self.stays(manifest, there, &problem));
                    if is_invalid {
                        found.invalidate(manifest, &problem);
                    } else {
                        found.refuse(manifest, &problem);
                    }
                }
            }
        }
        Ok(true)
    }

    /// Why proxies stay with a former keyring without this write: the object exists and has one.
    fn stays(&self, manifest: &Manifest, there: &ListedObjects, problem: &str) -> Option<String> {
        let exists = || there.live.contains_key(&(manifest.definition, manifest.name.clone()));
        (self.recipient.has_keyring(manifest.definition) && exists()).then(|| problem.to_owned())
    }

    /// Finds proxies that lack variables. Runs after all writes, so that neither a rotation of keys nor another Gateway
    /// waits for it. If newer input ends it, earlier findings count for the others.
    async fn check_proxies(&mut self, wanted: &DesiredManifests, found: &mut ManifestResults) {
        let manifests = wanted.manifests.objects.iter();
        let with_objects: BTreeSet<&ObjectName> = manifests.flat_map(|manifest| &manifest.gateways).collect();
        let gateways = wanted.gateways.iter().filter(|gateway| with_objects.contains(gateway));
        self.lacking.retain(|gateway, _| with_objects.contains(gateway));
        for gateway in self.order.begin(gateways, |gateway| &gateway.namespace) {
            let Some(proxies) = self.recipient.proxies(gateway) else {
                continue;
            };
            if self.is_outdated() {
                break;
            }
            self.order.record_turn(&gateway.namespace);
            match proxies::missing(&self.client, &proxies, &wanted.variables).await {
                Ok(Some(missing)) => drop(self.lacking.insert(gateway.clone(), missing)),
                Ok(None) => drop(self.lacking.remove(gateway)),
                // A missing right to read pods affects nothing else.
                Err(error) => {
                    self.lacking.remove(gateway);
                    if let Some(left_out) = self.logs.permit() {
                        tracing::warn!(%gateway, %error, left_out, "cannot check the environment of the proxies");
                    }
                }
            }
        }
        for (gateway, missing) in &self.lacking {
            found
                .refusals
                .entry(gateway.clone())
                .or_default()
                .insert(missing.clone());
        }
    }

    async fn list_live(&self, wanted: &DesiredManifests) -> Result<ListedObjects, Error> {
        let mut there = ListedObjects::default();
        for namespace in self.recipient.namespaces(&wanted.gateways) {
            for definition in self.recipient.definitions() {
                self.list(definition, namespace.as_deref(), &mut there).await?;
            }
        }
        Ok(there)
    }

    /// Lists our objects of a kind, but all autoscalers.
    async fn list(
        &self,
        definition: &'static ManifestKind,
        namespace: Option<&str>,
        there: &mut ListedObjects,
    ) -> Result<(), Error> {
        let resource = resource(definition);
        let api: Api<TruncatedObject> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let label = format!("{MANAGED_BY}={MANAGER},{CONTROLLER_LABEL}={}", self.label);
        let params = ListParams::default();
        let are_autoscalers = *definition == envoys::AUTOSCALER;
        let params = if are_autoscalers { params } else { params.labels(&label) };
        match (api.list(&params).await, namespace) {
            (Ok(list), _) => {
                for TruncatedObject(object) in list {
                    if are_autoscalers && !self.is_ours(&object) {
                        there.autoscaled.extend(scale::scaled(&object));
                        continue;
                    }
                    let meta = &object.metadata;
                    let namespace = meta.namespace.as_deref().unwrap_or_default();
                    let name = ObjectName::new(namespace, meta.name.as_deref().unwrap_or_default());
                    there.live.insert((definition, name), object);
                }
            }
            (Err(Error::Api(status)), _) if status.code == 404 => {
                there.not_served.insert(definition);
            }
            // Other namespaces do not wait for a right in this one.
            (Err(Error::Api(status)), Some(namespace)) if status.code == 403 => {
                there.unreadable.insert(namespace.to_owned(), status.message);
            }
            (Err(error), _) => return Err(error),
        }
        Ok(())
    }

    fn is_ours(&self, object: &DynamicObject) -> bool {
        let label = |name: &str| object.metadata.labels.as_ref().and_then(|labels| labels.get(name));
        label(MANAGED_BY).is_some_and(|by| by == MANAGER) && label(CONTROLLER_LABEL) == Some(&self.label)
    }

    /// The object with the annotation for `difference`.
    fn object(&self, manifest: &Manifest) -> Value {
        let mut object = manifest.object(&self.label);
        let digest = limpet_model::short_hash(object.to_string().as_bytes());
        if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
            let annotations = metadata.entry("annotations").or_insert_with(|| serde_json::json!({}));
            if let Value::Object(annotations) = annotations {
                annotations.insert(DIGEST.to_owned(), digest.into());
            }
        }
        object
    }

    /// Writes an object that differs, once proxies can have its filters.
    async fn keep(
        &mut self,
        manifest: &Arc<Manifest>,
        there: &ListedObjects,
        found: &mut ManifestResults,
    ) -> Result<ApplyOutcome, Error> {
        let ListedObjects { live, not_served, .. } = there;
        if let Some(why) = there.unreadable.get(manifest.name.namespace.as_str()) {
            return Ok(ApplyOutcome::refused(why.clone()));
        }
        if not_served.contains(manifest.definition) {
            let ManifestKind {
                plural, group, version, ..
            } = manifest.definition;
            return Ok(ApplyOutcome::refused(format!(
                "expected the CustomResourceDefinition {plural}.{group} with version {version}, which is not there"
            )));
        }
        let mut object = self.object(manifest);
        let key = key(manifest);
        let known = live.get(&key);
        if let Some(known) = known.filter(|_| *manifest.definition == envoys::DEPLOYMENT) {
            scale::leave(&mut object, known, there.autoscaled.contains(&manifest.name));
        }
        if self.is_there(manifest, &object, live) {
            self.waiting.done(&key);
            return Ok(ApplyOutcome::Unchanged);
        }
        if manifest.stage > WriteStage::Filter && !found.is_due(self.propagation.due(&key, Some(manifest))) {
            return Ok(ApplyOutcome::Held);
        }
        let input = StatusDigest::of(object.to_string().as_bytes());
        if let Some(refused) = self.waiting.outcome(&key, input, SteadyTime::now()) {
            return Ok(ApplyOutcome::Refused(refused.clone()));
        }
        self.order.record_turn(&manifest.tenant);
        let outcome = self.write(manifest, object, known).await?;
        match &outcome {
            ApplyOutcome::Refused(refused) => {
                let now = SteadyTime::now();
                if self.waiting.defer(key, input, refused.clone(), now)
                    && let Some(left_out) = self.logs.permit()
                {
                    // The message goes to a status.
                    let (kind, error) = (manifest.definition.kind, &refused.problem);
                    tracing::error!(kind, object = %manifest.name, error, left_out, "refused");
                }
            }
            _ => self.waiting.done(&key),
        }
        Ok(outcome)
    }

    /// `known`: the object if it is ours.
    async fn write(
        &mut self,
        manifest: &Manifest,
        mut object: Value,
        known: Option<&DynamicObject>,
    ) -> Result<ApplyOutcome, Error> {
        let api = self.api(manifest.definition, &manifest.name);
        // Without strict validation, the API server would silently drop unknown fields.
        let mut params = PatchParams::apply(FIELD_MANAGER).validation_strict();
        let (kind, name) = (manifest.definition.kind, &manifest.name);
        let taken = || {
            ApplyOutcome::refused(format!(
                "expected no other {kind} {name}; the existing one belongs to another owner"
            ))
        };
        match known {
            Some(known) => {
                // Overwrites others' changes, but not another object of the name.
                params = params.force();
                if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                    metadata.insert("uid".to_owned(), known.metadata.uid.clone().into());
                }
            }
            None => match api.get_opt(&name.name).await {
                Ok(None) => {}
                Ok(Some(_)) => return Ok(taken()),
                Err(Error::Api(status)) if is_about_the_object(status.code) => {
                    return Ok(ApplyOutcome::refused(status.message));
                }
                Err(error) => return Err(error),
            },
        }
        match api.patch(&name.name, &params, &Patch::Apply(&object)).await {
            Ok(written) => {
                tracing::info!(kind, object = %name, "written");
                keep(&mut self.normalized, key(manifest), &object, &written);
                Ok(ApplyOutcome::Written)
            }
            // Another client created it first.
            Err(Error::Api(status)) if status.code == 409 => Ok(taken()),
            Err(Error::Api(status)) if is_about_the_object(status.code) => Ok(ApplyOutcome::Refused(ManifestRefusal {
                problem: format!("{kind} {name} was refused: {}", status.message),
                is_invalid: status.code == 422,
            })),
            Err(error) => Err(error),
        }
    }

    async fn delete(
        &mut self,
        definition: &'static ManifestKind,
        name: &ObjectName,
        object: &DynamicObject,
        found: &mut ManifestResults,
    ) -> Result<(), Error> {
        let (kind, key) = (definition.kind, (definition, name.clone()));
        let input = StatusDigest::of(object.metadata.uid.as_deref().unwrap_or_default().as_bytes());
        if let Some(refused) = self.waiting.outcome(&key, input, SteadyTime::now()) {
            found
                .undeleted
                .insert(format!("{kind} {name}"), refused.problem.clone());
            return Ok(());
        }
        self.order.record_turn(&name.namespace);
        match delete(&self.api(definition, name), &object.metadata).await {
            Ok(deleted) => {
                self.propagation.record(key, None, Instant::now());
                if deleted {
                    tracing::info!(kind, object = %name, "deleted");
                }
            }
            Err(Error::Api(status)) if is_about_the_object(status.code) => {
                found.undeleted.insert(format!("{kind} {name}"), status.message.clone());
                let problem = status.message;
                let refused = ManifestRefusal {
                    problem,
                    is_invalid: false,
                };
                self.waiting.defer(key, input, refused, SteadyTime::now());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn is_there(&self, manifest: &Manifest, object: &Value, live: &LiveObjects) -> bool {
        let key = (manifest.definition, manifest.name.clone());
        live.get(&key)
            .is_some_and(|known| is_as_wanted(object, known, self.normalized.get(&key)))
    }

    fn api(&self, definition: &ManifestKind, name: &ObjectName) -> Api<TruncatedObject> {
        Api::namespaced_with(self.client.clone(), &name.namespace, &resource(definition))
    }
}

enum ApplyOutcome {
    Unchanged,
    /// It waits for filters.
    Held,
    Written,
    Refused(ManifestRefusal),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ManifestRefusal {
    problem: String,
    /// Whether it is for the object's content.
    is_invalid: bool,
}

impl ApplyOutcome {
    fn refused(problem: String) -> Self {
        let is_invalid = false;
        Self::Refused(ManifestRefusal { problem, is_invalid })
    }
}

fn resource(definition: &ManifestKind) -> ApiResource {
    ApiResource {
        group: definition.group.to_owned(),
        version: definition.version.to_owned(),
        api_version: definition.api_version(),
        kind: definition.kind.to_owned(),
        plural: definition.plural.to_owned(),
    }
}
