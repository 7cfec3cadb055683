//! Reads both Secrets, publishes the keyring, and does the leader's writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::Api;
use tokio::sync::watch;

use super::config::KeyringConfig;
use super::revocation::{self, RevocationProgress};
use super::schedule::KeyringRollout;
use super::state::{KeyringAction, KeyringSecret, KeyringState, KeyringWrite};
use crate::cluster::kube::named_object::{self, ObservedObject};
use crate::cluster::reconcile::delivery::{Delivery, PublishedFilter};
use crate::cluster::reconcile::diagnostics::{Diagnostic, DiagnosticReason, Diagnostics};
use crate::cluster::reconcile::own_secret::{SecretWriteOutcome, SecretWriter};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use crate::cluster::reconcile::replicas::{KeyringDelivery, ReplicaReports, behind, digest};
use crate::time_format;
use crate::tools::keys::keyring_file::state_name;
use crate::tools::keys::rotation::{self, RotationStep};
use crate::tools::keys::{generate, ids};
use limpet_core::config::KeyringDocument;
use limpet_core::config::schema::{KeyStateConfig, WrappedKeysConfig};
use limpet_core::keyring::{KeyState, Seals};
use limpet_core::time::Timestamp;
use limpet_outputs::FilterKeys;

const SECRET: &str = "Secret";
/// The label of keys for seals between replicas.
const SEALS: &[u8] = b"limpet replicas v1";
/// A wait for so many minimum phases is reported.
const LATE: u32 = 10;

#[derive(Debug, Clone, Default)]
pub(crate) struct PublishedKeys {
    /// The last valid keyring.
    pub(crate) config: Option<WrappedKeysConfig>,
    pub(crate) missing: Option<String>,
    pub(crate) figures: KeyringFigures,
    /// For seals between replicas, which all read the keyring.
    pub(crate) seals: Option<Arc<Seals>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct KeyringFigures {
    /// When the signing key was made, in Unix seconds; `None`: unknown.
    pub(crate) created: Option<u64>,
    /// The rotation's phase, 1 to 3; 0: none.
    pub(crate) phase: u8,
    /// The number of keys by state.
    pub(crate) keys: BTreeMap<&'static str, usize>,
    /// Whether a rotation or a revocation waits for too long.
    pub(crate) is_late: bool,
    /// By Gateway, the number of this replica's Envoys that it waits for.
    pub(crate) behind: BTreeMap<String, usize>,
}

pub(crate) struct KeyringReconciler {
    writer: SecretWriter,
    config: KeyringConfig,
    states: BoxStream<'static, (KeyringSecret, ObservedObject<SecretObject>)>,
    state: KeyringState,
    sender: watch::Sender<PublishedKeys>,
    diagnostics: Diagnostics,
    refused: BTreeMap<(KeyringSecret, DiagnosticReason), String>,
    published_filter: watch::Receiver<Option<PublishedFilter>>,
    delivery: Delivery,
    leads: watch::Receiver<bool>,
    replicas: ReplicaReports,
    /// A proxy of this replica with another keyring.
    behind: Option<String>,
    /// What a rotation or a revocation waits for, and since when.
    waits: Option<(String, Instant)>,
    /// The awaited replica, as last logged.
    logged: Option<String>,
    /// The revocation that not all Envoys know of.
    revoking: Option<RevocationProgress>,
    /// Since when this text is published.
    published: Option<(String, Instant)>,
}

impl Reconcile for KeyringReconciler {
    const GATHER: Duration = Duration::ZERO;

    async fn changed(&mut self) -> Result<(), Closed> {
        let waits = self.waits_for_envoys();
        tokio::select! {
            seen = self.states.next() => {
                let (which, seen) = seen.ok_or(Closed)?;
                self.saw(which, seen);
            }
            changed = self.leads.changed() => changed?,
            changed = self.published_filter.changed() => changed?,
            () = self.replicas.changed() => {}
            // Only a rotation or a revocation depends on what proxies have.
            () = self.delivery.changed(), if waits => {}
            () = self.sender.closed() => return Err(Closed),
        }
        Ok(())
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        let mut served = self.rollout();
        let rest = self.report_delivery(served.as_ref());
        self.log_revocation();
        if !*self.leads.borrow_and_update() {
            self.wait_for(None);
            return rest;
        }
        self.wait_for_others(served.as_mut());
        self.report_diagnostics();
        if let Some(rest) = self.writer.rest() {
            return Some(rest);
        }
        let fresh = match generate::secret() {
            Ok(fresh) => fresh,
            Err(error) => {
                tracing::error!(%error, "cannot generate a key");
                return Some(self.writer.failed());
            }
        };
        let next = match self.state.next(time_format::now(), served, fresh) {
            KeyringAction::Wait(None) => rest,
            // At most a minute: timers stand still while the machine is suspended.
            KeyringAction::Wait(Some(wait)) => Some(wait.min(Duration::from_secs(60)).max(Duration::from_millis(1))),
            KeyringAction::Write(write) => self.write(write).await,
        };
        [next, self.until_late()].into_iter().flatten().min()
    }
}

impl KeyringReconciler {
    pub(crate) fn new(
        secrets: Api<SecretObject>,
        config: &KeyringConfig,
        published_filter: watch::Receiver<Option<PublishedFilter>>,
        delivery: Delivery,
        leads: watch::Receiver<bool>,
        replicas: ReplicaReports,
        diagnostics: Diagnostics,
    ) -> (Self, watch::Receiver<PublishedKeys>) {
        let state = KeyringState::new(config.clone());
        let first = PublishedKeys {
            missing: state.missing(),
            ..PublishedKeys::default()
        };
        let (told, keys) = watch::channel(first);
        let follow = |which, name: &str| {
            let states = named_object::follow(secrets.clone(), SECRET, name);
            states.map(move |seen| (which, seen))
        };
        let keyring = follow(KeyringSecret::Keyring, &config.secret);
        let key_encryption_key = follow(KeyringSecret::KeyEncryptionKey, &config.key_encryption_key_secret);
        let reconciler = Self {
            states: stream::select(keyring, key_encryption_key).boxed(),
            writer: SecretWriter::new(secrets),
            config: config.clone(),
            state,
            sender: told,
            diagnostics,
            refused: BTreeMap::new(),
            published_filter,
            delivery,
            leads,
            replicas,
            behind: None,
            waits: None,
            logged: None,
            revoking: None,
            published: None,
        };
        (reconciler, keys)
    }

    fn saw(&mut self, which: KeyringSecret, seen: ObservedObject<SecretObject>) {
        match seen {
            Ok(secret) => {
                self.writer.saw();
                self.refused.remove(&(which, DiagnosticReason::ReadRefused));
                self.state.saw(which, secret);
            }
            Err(error) => {
                let refusal = format!("grant list and watch on the Secret: {error}");
                self.refused.insert((which, DiagnosticReason::ReadRefused), refusal);
            }
        }
        self.publish();
    }

    fn name(&self, which: KeyringSecret) -> &str {
        match which {
            KeyringSecret::Keyring => &self.config.secret,
            KeyringSecret::KeyEncryptionKey => &self.config.key_encryption_key_secret,
        }
    }

    fn publish(&self) {
        self.report_diagnostics();
        let refused = |which| self.refused.get(&(which, DiagnosticReason::ReadRefused));
        let refused = refused(KeyringSecret::Keyring).or_else(|| refused(KeyringSecret::KeyEncryptionKey));
        let missing = self.state.missing();
        let missing = missing.map(|missing| match refused {
            Some(refusal) => format!("{missing}: {refusal}"),
            None => missing,
        });
        let mut figures = self.state.document().map(figures).unwrap_or_default();
        figures.is_late = self.late().is_some();
        figures.behind.clone_from(&self.sender.borrow().figures.behind);
        self.sender.send_replace(PublishedKeys {
            config: self.state.served(),
            missing,
            figures,
            seals: self.state.document().map(seals),
        });
    }

    fn diagnostic(&self, which: KeyringSecret, reason: DiagnosticReason, message: String) -> Diagnostic {
        Diagnostic {
            kind: SECRET,
            namespace: None,
            name: self.name(which).to_owned(),
            uid: self.state.uid(which),
            reason,
            message,
        }
    }

    fn report_diagnostics(&self) {
        let diagnostic = |which, reason, message| self.diagnostic(which, reason, message);
        let invalid = self.state.problems(time_format::now()).into_iter();
        let invalid = invalid.map(|(which, message)| diagnostic(which, DiagnosticReason::Invalid, message));
        let refused = self.refused.iter();
        let refused = refused.map(|((which, reason), message)| diagnostic(*which, *reason, message.clone()));
        let revoking = self.state.revoking();
        let revoking = revoking.map(|ids| {
            diagnostic(
                KeyringSecret::Keyring,
                DiagnosticReason::Revoking,
                revocation::under_way(ids),
            )
        });
        let late = self
            .late()
            .map(|waits| diagnostic(KeyringSecret::Keyring, DiagnosticReason::RotationWaits, waits));
        let diagnostics = invalid.chain(refused).chain(revoking).chain(late);
        self.diagnostics.set_and_log(SECRET, diagnostics.collect());
    }

    fn waits_for_envoys(&self) -> bool {
        matches!(self.sender.borrow().figures.phase, 1 | 2) || self.state.revoking().is_some()
    }

    fn log_revocation(&mut self) {
        let Some(ids) = self.state.revoking() else {
            self.revoking = None;
            return;
        };
        let known = self.revoking.take().filter(|known| known.is_of(ids));
        let progress = self
            .revoking
            .insert(known.unwrap_or_else(|| RevocationProgress::new(ids)));
        // While something else is published, no proxy can have it.
        if self.published.is_some()
            && let Some(published) = &*self.published_filter.borrow()
        {
            progress.log_delivered(&self.delivery, published);
        }
    }

    /// Returns how long until the report changes by itself.
    fn report_delivery(&self, served: Option<&KeyringRollout>) -> Option<Duration> {
        let rest = served.map(|served| self.config.phase_time.get().saturating_sub(served.since));
        let text = self.published.as_ref().map(|(text, _)| text);
        let delivery = match (served, text) {
            (Some(served), Some(_)) if !served.everywhere => {
                // Before, another Envoy on its way is the first each time.
                let behind = self.behind.as_ref().filter(|_| rest.is_some_and(|rest| rest.is_zero()));
                let envoy = behind.map(|envoy| format!(": {envoy}")).unwrap_or_default();
                KeyringDelivery::WaitsFor(format!("not all its Envoys have acknowledged the keyring{envoy}"))
            }
            (Some(_), Some(_)) if rest.is_some_and(|rest| !rest.is_zero()) => {
                KeyringDelivery::WaitsFor("it has published the keyring for less than phaseTime".to_owned())
            }
            (Some(_), Some(text)) => KeyringDelivery::Has(digest(text)),
            _ => unpublished(),
        };
        self.replicas.report_keyring(delivery);
        rest.filter(|rest| !rest.is_zero())
    }

    fn wait_for_others(&mut self, served: Option<&mut KeyringRollout>) {
        let others = self.replicas.others();
        let text = self.published.as_ref().map(|(text, _)| text);
        let (Some(served), Some(text)) = (served, text) else {
            return self.wait_for(None);
        };
        let waits = match others.as_ref() {
            None => Some("the state of other replicas is unknown".to_owned()),
            Some(view) => behind(view, &digest(text)).map(|(replica, reason)| format!("replica {replica}: {reason}")),
        };
        let own = self.behind.clone().filter(|_| !served.everywhere);
        served.everywhere &= waits.is_none();
        let waits = waits.filter(|_| self.waits_for_envoys());
        if let Some(waits) = waits.as_ref().filter(|waits| self.logged.as_ref() != Some(*waits)) {
            tracing::info!(waits, "the keyring waits for another replica");
        }
        self.logged.clone_from(&waits);
        self.wait_for(own.filter(|_| self.waits_for_envoys()).or(waits));
    }

    fn wait_for(&mut self, waits: Option<String>) {
        let since = self.waits.take().map_or_else(Instant::now, |(_, since)| since);
        self.waits = waits.map(|waits| (waits, since));
        let is_late = self.late().is_some();
        let published = self.published_filter.borrow().clone().filter(|_| is_late);
        let behind = published.map(|published| self.delivery.behind_by_gateway(&published));
        let behind = behind.unwrap_or_default();
        self.sender.send_if_modified(|PublishedKeys { figures, .. }| {
            let changes = figures.is_late != is_late || figures.behind != behind;
            (figures.is_late, figures.behind) = (is_late, behind);
            changes
        });
    }

    fn late(&self) -> Option<String> {
        let (waits, _) = self.waits.as_ref()?;
        let is_late = self.until_late().is_none();
        is_late.then(|| format!("a rotation or a revocation waits until every Envoy has the keyring: {waits}"))
    }

    /// `None`: it is late, or nothing is awaited.
    fn until_late(&self) -> Option<Duration> {
        let (_, since) = self.waits.as_ref()?;
        let rest = self
            .config
            .phase_time
            .get()
            .saturating_mul(LATE)
            .saturating_sub(since.elapsed());
        Some(rest).filter(|rest| !rest.is_zero())
    }

    fn rollout(&mut self) -> Option<KeyringRollout> {
        let published_filter = self.published_filter.borrow_and_update();
        let text = match published_filter
            .as_ref()
            .map(|published_filter| &published_filter.inputs.keys)
        {
            Some(FilterKeys::Wrapped(keys)) => Some(&keys.text),
            _ => None,
        };
        let is_current = text.is_some() && text == self.sender.borrow().config.as_ref().map(|keys| &keys.text);
        let Some((published_filter, text)) = published_filter.as_ref().zip(text).filter(|_| is_current) else {
            self.published = None;
            return None;
        };
        let since = match &self.published {
            Some((known, since)) if known == text => *since,
            _ => {
                let now = Instant::now();
                self.published = Some((text.clone(), now));
                now
            }
        };
        let everywhere = self.delivery.has(published_filter);
        self.behind = (!everywhere).then(|| self.delivery.behind(published_filter)).flatten();
        Some(KeyringRollout {
            since: since.elapsed(),
            everywhere,
            life: published_filter.life,
        })
    }

    async fn write(&mut self, write: KeyringWrite) -> Option<Duration> {
        let (which, what) = match &write {
            KeyringWrite::Create(KeyringSecret::Keyring, _) => {
                (KeyringSecret::Keyring, "the keyring is created".to_owned())
            }
            KeyringWrite::Create(which, _) => (*which, "the key-encryption key is created".to_owned()),
            KeyringWrite::Step(step, _) => (KeyringSecret::Keyring, after_step(step)),
            KeyringWrite::Revoke(ids, _) => (KeyringSecret::Keyring, revocation::are_revoked(ids)),
            KeyringWrite::RevocationDone(ids, _) => (KeyringSecret::Keyring, revocation::everywhere(ids)),
        };
        let (KeyringWrite::Create(_, secret)
        | KeyringWrite::Step(_, secret)
        | KeyringWrite::Revoke(_, secret)
        | KeyringWrite::RevocationDone(_, secret)) = &write;
        let name = self.name(which).to_owned();
        let is_new = matches!(write, KeyringWrite::Create(..));
        let (written, rest) = self.writer.write(&name, secret, is_new).await;
        match written {
            SecretWriteOutcome::Done => {
                tracing::info!(secret = name, "{what}");
                self.refused.remove(&(which, DiagnosticReason::WriteRefused));
                if let KeyringWrite::RevocationDone(..) = write {
                    self.diagnostics
                        .announce(self.diagnostic(which, DiagnosticReason::Revoked, what));
                } else if let (
                    KeyringWrite::Step(RotationStep::Sign(_) | RotationStep::Retire(_), _),
                    Some((waits, _)),
                ) = (&write, &self.waits)
                {
                    let without =
                        format!("{what}, though not every Envoy has the keyring of the phase before: {waits}");
                    tracing::warn!(secret = name, "{without}");
                    self.diagnostics
                        .announce(self.diagnostic(which, DiagnosticReason::RotationGoesOn, without));
                }
                self.report_diagnostics();
            }
            SecretWriteOutcome::Refused(words) => {
                self.refused.insert((which, DiagnosticReason::WriteRefused), words);
                self.report_diagnostics();
            }
            SecretWriteOutcome::Not => {}
        }
        Some(rest)
    }
}

/// For a replica without a published keyring: the others wait for it.
pub(crate) fn unpublished() -> KeyringDelivery {
    KeyringDelivery::WaitsFor("it has not published the keyring yet".to_owned())
}

fn after_step(step: &RotationStep) -> String {
    match step {
        RotationStep::Introduce => "rotation, phase 1 of 3: a new key verifies".to_owned(),
        RotationStep::Sign(_) => "rotation, phase 2 of 3: the new key signs".to_owned(),
        RotationStep::Retire(_) => "rotation, phase 3 of 3: the old key retires".to_owned(),
        RotationStep::Remove(ids) => format!(
            "{} removed: no token of {} can be alive",
            revocation::keys_are(ids),
            ids::keys(ids)
        ),
    }
}

pub(super) fn seals(document: &KeyringDocument) -> Arc<Seals> {
    Arc::new(Seals::new(&document.entries(), SEALS))
}

pub(super) fn figures(document: &KeyringDocument) -> KeyringFigures {
    let mut keys = document.keys.iter();
    let signing = keys.find(|key| key.state == KeyStateConfig::Signing);
    let phase = rotation::phase(document).ok();
    let mut states: BTreeMap<&'static str, usize> = KeyState::ALL.map(|state| (state_name(state.into()), 0)).into();
    for key in &document.keys {
        *states.entry(state_name(key.state)).or_default() += 1;
    }
    KeyringFigures {
        created: signing.and_then(rotation::created).map(Timestamp::unix_seconds),
        phase: phase.and_then(rotation::RotationPhase::number).unwrap_or(0),
        keys: states,
        ..KeyringFigures::default()
    }
}
