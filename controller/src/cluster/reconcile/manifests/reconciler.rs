use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::api::{ListParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, Error};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::complaints::Complaints;
use super::difference::{Kept, Live, excess, is_as_wanted, keep};
use super::found::Found;
use super::proxies;
use super::recipient::Recipient;
use super::scale;
use super::written::{Wanted, Written};
use crate::cluster::kube::{Backoff, FIELD_MANAGER, Shallow, delete};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use crate::cluster::timer::at;
use limpet_api::ObjectName;
use limpet_outputs::envoys;
use limpet_outputs::manifests::{CONTROLLER_LABEL, Definition, MANAGED_BY, MANAGER, Manifest, Stage, controller_label};

/// How often objects are checked for changes by others, which are undone.
const LOOK: Duration = Duration::from_secs(10);
/// The annotation with a digest of what was last applied, see `difference`.
const DIGEST: &str = "limpet.dev/digest";

pub(crate) struct Reconciler {
    client: Client,
    recipient: Recipient,
    label: String,
    /// How long proxies need to get what was written.
    propagation: Duration,
    wanted: watch::Receiver<Option<Arc<Wanted>>>,
    leads: watch::Receiver<bool>,
    told: watch::Sender<Written>,
    complaints: Complaints,
    backoff: Backoff,
    /// When all proxies should have the generation that was written last.
    settles: Option<Instant>,
    kept: Kept,
}

/// What exists in the cluster.
#[derive(Debug, Default)]
struct There {
    live: Live,
    /// The kinds that the API server does not serve.
    not_served: BTreeSet<&'static Definition>,
    /// The namespaces that could not be read, and why.
    unreadable: BTreeMap<String, String>,
    /// The Deployments that somebody's autoscaler scales.
    autoscaled: BTreeSet<ObjectName>,
}

/// How a round ended.
enum Round {
    /// Everything is written, or refused.
    Done(Found),
    /// Something else is wanted meanwhile, or this replica does not lead any more.
    Outdated,
}

impl Reconcile for Reconciler {
    const GATHER: Duration = Duration::from_millis(50);

    async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            tokio::select! {
                changed = self.wanted.changed() => return Ok(changed?),
                changed = self.leads.changed() => return Ok(changed?),
                () = at(self.settles) => {
                    self.settles = None;
                    self.told.send_modify(|written| written.settled = true);
                }
            }
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        let leads = *self.leads.borrow_and_update();
        let wanted = self.wanted.borrow_and_update().clone();
        let (true, Some(wanted)) = (leads, wanted) else {
            self.complaints.tell(&BTreeMap::new());
            return None;
        };
        match self.round(&wanted).await {
            Ok(Round::Outdated) => Some(Self::GATHER),
            Ok(Round::Done(found)) => {
                self.backoff.reset();
                self.tell(&wanted, &found);
                Some(if found.is_settled() { LOOK } else { LOOK / 5 })
            }
            Err(error) => {
                tracing::warn!(%error, "the objects for {} cannot be written", self.recipient.name());
                Some(self.backoff.next())
            }
        }
    }
}

impl Reconciler {
    pub(crate) fn new(
        client: Client,
        recipient: Recipient,
        controller_name: &str,
        propagation: Duration,
        wanted: watch::Receiver<Option<Arc<Wanted>>>,
        leads: watch::Receiver<bool>,
        complaints: Complaints,
    ) -> (Self, watch::Receiver<Written>) {
        let (told, written) = watch::channel(Written::default());
        let reconciler = Self {
            client,
            recipient,
            label: controller_label(controller_name),
            propagation,
            wanted,
            leads,
            told,
            complaints,
            backoff: Backoff::of_the_api(),
            settles: None,
            kept: Kept::new(),
        };
        (reconciler, written)
    }

    fn tell(&mut self, wanted: &Wanted, found: &Found) {
        self.complaints.tell(&found.undeleted);
        let condition = |gateway: &ObjectName| match &self.recipient {
            Recipient::Plane(plane) => Some(found.condition(gateway, plane.name())),
            Recipient::Envoys(_) => found.of_envoys(gateway),
        };
        let conditions = wanted.gateways.iter();
        let conditions = conditions.filter_map(|gateway| Some((gateway.clone(), condition(gateway)?)));
        let conditions: BTreeMap<_, _> = conditions.collect();
        let is_complete = found.problems.is_empty();
        let settles = &mut self.settles;
        self.told.send_if_modified(|written| {
            let before = written.clone();
            written.conditions = conditions;
            written.stuck = found.stuck();
            written.behind.clone_from(&found.behind);
            // Proxies do not have what could not be written.
            let is_new = written.generation != wanted.generation;
            if found.behind.is_empty() && (is_new || is_complete && !written.complete) {
                *settles = Some(Instant::now() + self.propagation);
                written.generation = wanted.generation;
                written.settled = false;
                written.complete = is_complete;
            }
            *written != before
        });
    }

    /// Writes everything that differs, and deletes what is not wanted.
    async fn round(&mut self, wanted: &Wanted) -> Result<Round, Error> {
        let mut found = Found::default();
        let there = self.live(wanted).await?;
        self.kept.retain(|key, _| there.live.contains_key(key));
        let manifests = &wanted.manifests.objects;
        for stage in [Stage::Filter, Stage::Routes] {
            let Some(wrote) = self.write_stage(stage, manifests, &there, &mut found).await? else {
                return Ok(Round::Outdated);
            };
            found.wrote |= wrote;
            let later = || {
                let mut later = manifests.iter().filter(|manifest| manifest.stage > stage);
                later.any(|manifest| !self.is_there(manifest, &self.object(manifest), &there.live))
            };
            if wrote && later() && self.outdated_within(self.propagation).await {
                return Ok(Round::Outdated);
            }
        }
        for (definition, name, object) in excess(&there.live, &wanted.manifests) {
            if !*self.leads.borrow() {
                return Ok(Round::Outdated);
            }
            self.delete(definition, name, object, &mut found).await?;
        }
        self.look_at_proxies(wanted, &mut found).await;
        Ok(Round::Done(found))
    }

    /// Returns whether an object was written; `None`: this replica does not lead any more.
    async fn write_stage(
        &mut self,
        stage: Stage,
        manifests: &[Arc<Manifest>],
        there: &There,
        found: &mut Found,
    ) -> Result<Option<bool>, Error> {
        let mut wrote = false;
        for manifest in manifests.iter().filter(|manifest| manifest.stage == stage) {
            // The Lease may have been lost meanwhile.
            if !*self.leads.borrow() {
                return Ok(None);
            }
            match self.keep(manifest, there).await? {
                Outcome::Unchanged => {
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
                Outcome::Written => wrote = true,
                Outcome::Refused(problem) => {
                    found.behind.extend(self.stays(manifest, there, &problem));
                    found.refuse(manifest, &problem);
                }
                Outcome::Invalid(problem) => {
                    found.behind.extend(self.stays(manifest, there, &problem));
                    found.invalidate(manifest, &problem);
                }
            }
        }
        Ok(Some(wrote))
    }

    /// Why proxies stay with a former keyring, if this object could not be written: it exists and has one. Without an
    /// object, no proxy has any.
    fn stays(&self, manifest: &Manifest, there: &There, problem: &str) -> Option<String> {
        let exists = || there.live.contains_key(&(manifest.definition, manifest.name.clone()));
        (self.recipient.has_keyring(manifest.definition) && exists()).then(|| problem.to_owned())
    }

    /// Finds proxies that lack environment variables. It runs after all writes, so that neither a rotation of keys nor
    /// another Gateway waits for it.
    async fn look_at_proxies(&self, wanted: &Wanted, found: &mut Found) {
        let manifests = wanted.manifests.objects.iter();
        let with_objects: BTreeSet<&ObjectName> = manifests.flat_map(|manifest| &manifest.gateways).collect();
        for gateway in wanted.gateways.iter().filter(|gateway| with_objects.contains(gateway)) {
            let Some(proxies) = self.recipient.proxies(gateway) else {
                continue;
            };
            match proxies::missing(&self.client, &proxies, &wanted.variables).await {
                Ok(Some(missing)) => {
                    found.refusals.entry(gateway.clone()).or_default().insert(missing);
                }
                Ok(None) => {}
                // A missing right to read pods affects nothing else.
                Err(error) => tracing::warn!(%gateway, %error, "cannot check the environment of the proxies"),
            }
        }
    }

    /// Waits for this time. Returns whether something else is wanted before it is over.
    async fn outdated_within(&mut self, time: Duration) -> bool {
        let wait = tokio::time::timeout(time, async {
            tokio::select! {
                _ = self.wanted.changed() => {}
                _ = self.leads.changed() => {}
            }
        });
        if wait.await.is_err() {
            return false;
        }
        // The next turn must see the change again.
        self.wanted.mark_changed();
        true
    }

    async fn live(&self, wanted: &Wanted) -> Result<There, Error> {
        let mut there = There::default();
        for namespace in self.recipient.namespaces(&wanted.gateways) {
            for definition in self.recipient.definitions() {
                self.list(definition, namespace.as_deref(), &mut there).await?;
            }
        }
        Ok(there)
    }

    /// Lists our objects of a kind; of autoscalers all, for somebody else's.
    async fn list(
        &self,
        definition: &'static Definition,
        namespace: Option<&str>,
        there: &mut There,
    ) -> Result<(), Error> {
        let resource = resource(definition);
        let api: Api<Shallow> = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let label = format!("{MANAGED_BY}={MANAGER},{CONTROLLER_LABEL}={}", self.label);
        let params = ListParams::default();
        let are_autoscalers = *definition == envoys::AUTOSCALER;
        let params = if are_autoscalers { params } else { params.labels(&label) };
        match (api.list(&params).await, namespace) {
            (Ok(list), _) => {
                for Shallow(object) in list {
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

    /// The object with the annotation that `difference` needs.
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

    /// Writes an object if it differs.
    async fn keep(&mut self, manifest: &Manifest, there: &There) -> Result<Outcome, Error> {
        let There { live, not_served, .. } = there;
        if let Some(why) = there.unreadable.get(manifest.name.namespace.as_str()) {
            return Ok(Outcome::Refused(why.clone()));
        }
        if not_served.contains(manifest.definition) {
            let Definition {
                plural, group, version, ..
            } = manifest.definition;
            return Ok(Outcome::Refused(format!(
                "expected the CustomResourceDefinition {plural}.{group} with version {version}, which is not there"
            )));
        }
        let mut object = self.object(manifest);
        let key = (manifest.definition, manifest.name.clone());
        if let Some(known) = live.get(&key).filter(|_| *manifest.definition == envoys::DEPLOYMENT) {
            scale::leave(&mut object, known, there.autoscaled.contains(&manifest.name));
        }
        if self.is_there(manifest, &object, live) {
            return Ok(Outcome::Unchanged);
        }
        let api = self.api(manifest.definition, &manifest.name);
        // Without strict validation, the API server would silently drop unknown fields.
        let mut params = PatchParams::apply(FIELD_MANAGER).validation_strict();
        let (kind, name) = (manifest.definition.kind, &manifest.name);
        let taken = || {
            Outcome::Refused(format!(
                "expected no other {kind} {name}; the existing one belongs to somebody else"
            ))
        };
        match live.get(&key) {
            Some(known) => {
                // Overwrites what others changed, but not another object that has the same name now.
                params = params.force();
                if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                    metadata.insert("uid".to_owned(), known.metadata.uid.clone().into());
                }
            }
            None => match api.get_opt(&name.name).await {
                Ok(None) => {}
                Ok(Some(_)) => return Ok(taken()),
                Err(Error::Api(status)) if is_about_the_object(status.code) => {
                    return Ok(Outcome::Refused(status.message));
                }
                Err(error) => return Err(error),
            },
        }
        match api.patch(&name.name, &params, &Patch::Apply(&object)).await {
            Ok(written) => {
                tracing::info!(kind, object = %name, "written");
                keep(&mut self.kept, key, &object, &written);
                Ok(Outcome::Written)
            }
            // Somebody else created it first.
            Err(Error::Api(status)) if status.code == 409 => Ok(taken()),
            // The message goes to a status.
            Err(Error::Api(status)) if is_about_the_object(status.code) => {
                tracing::error!(kind, object = %name, error = status.message, "refused");
                let message = format!("{kind} {name} was refused: {}", status.message);
                Ok(if status.code == 422 {
                    Outcome::Invalid(message)
                } else {
                    Outcome::Refused(message)
                })
            }
            Err(error) => Err(error),
        }
    }

    async fn delete(
        &self,
        definition: &'static Definition,
        name: &ObjectName,
        object: &DynamicObject,
        found: &mut Found,
    ) -> Result<(), Error> {
        let kind = definition.kind;
        match delete(&self.api(definition, name), &object.metadata).await {
            Ok(true) => tracing::info!(kind, object = %name, "deleted"),
            Ok(false) => {}
            // The others are deleted nevertheless.
            Err(Error::Api(status)) if is_about_the_object(status.code) => {
                found.undeleted.insert(format!("{kind} {name}"), status.message);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn is_there(&self, manifest: &Manifest, object: &Value, live: &Live) -> bool {
        let key = (manifest.definition, manifest.name.clone());
        live.get(&key)
            .is_some_and(|known| is_as_wanted(object, known, self.kept.get(&key)))
    }

    fn api(&self, definition: &Definition, name: &ObjectName) -> Api<Shallow> {
        Api::namespaced_with(self.client.clone(), &name.namespace, &resource(definition))
    }
}

/// The outcome of writing an object.
enum Outcome {
    Unchanged,
    Written,
    Refused(String),
    /// Refused for its content.
    Invalid(String),
}

/// Whether the API server refuses this object: for its content, for lack of a right, or by an admission webhook. Other
/// objects do not wait for it then. What does not fit the schema of a kind of its own, it answers with 500.
fn is_about_the_object(code: u16) -> bool {
    (400..=500).contains(&code) && code != 429
}

fn resource(definition: &Definition) -> ApiResource {
    ApiResource {
        group: definition.group.to_owned(),
        version: definition.version.to_owned(),
        api_version: definition.api_version(),
        kind: definition.kind.to_owned(),
        plural: definition.plural.to_owned(),
    }
}
