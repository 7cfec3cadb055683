//! Keeps a Secret with a certificate for the Envoys of each Gateway. In the namespaces of Gateways, it also keeps a
//! copy of the key-encryption keys, because a pod can use no Secret of another namespace.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Error};
use limpet_xds::{CertificateRole, CertificateUse, Validity};
use tokio::sync::watch;

use super::authority::{AuthorityRollout, KnownAuthority};
use super::content::Authority;
use super::gateways::{GatewaySecrets, SecretPlacement};
use super::results::{CertificateObstacle, CertificateResults};
use crate::cluster::kube::{Backoff, FIELD_MANAGER, StatusDigest, ZeroizingSecret, delete};
use crate::cluster::reconcile::diagnostics::{DiagnosticReason, Diagnostics};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use crate::cluster::reconcile::reported::PublishedReports;
use crate::cluster::reconcile::turns::{DeferredRetries, RoundOrder};
use limpet_api::ObjectName;
use limpet_model::{GATEWAY_NAME, MANAGED_BY, MANAGER};
use limpet_outputs::manifests::CONTROLLER_LABEL;

/// The time between checks for changes by others.
const LOOK: Duration = Duration::from_secs(60);
/// The wait after a refusal: a right may be granted, which no watch shows.
const REFUSED: Duration = Duration::from_secs(10);
const ABOUT: &str = "xds.tls.authority of Gateways";

pub(crate) struct CertificateReconciler {
    client: Client,
    place: SecretPlacement,
    life: Duration,
    reported: watch::Receiver<Option<PublishedReports>>,
    authority: watch::Receiver<KnownAuthority>,
    leads: watch::Receiver<bool>,
    everywhere: watch::Sender<Option<AuthorityRollout>>,
    figures: watch::Sender<CertificateFigures>,
    diagnostics: Diagnostics,
    /// The last comparison, and when the next is due.
    compared: Option<ComparedSecrets>,
    /// Those that may have Secrets of ours.
    namespaces: BTreeSet<String>,
    order: RoundOrder,
    /// Secrets that cannot be written, with the API server's words if these are for a person.
    waiting: DeferredRetries<ObjectName, Option<String>>,
    backoff: Backoff,
}

struct ExistingSecrets {
    desired: GatewaySecrets,
    certificate: Option<ZeroizingSecret>,
    keys: Option<ZeroizingSecret>,
}

struct ComparedSecrets {
    gateways: ServedGateways,
    authority: Arc<Authority>,
    compared_until: Instant,
}

/// The Gateways with Envoys of ours, with their uids if they are objects.
type ServedGateways = BTreeMap<ObjectName, Option<String>>;

#[derive(Debug, Clone, Default)]
pub(crate) struct CertificateFigures {
    pub(crate) first: Option<CertificateUse>,
    pub(crate) outdated: usize,
}

impl Reconcile for CertificateReconciler {
    const GATHER: Duration = Duration::from_millis(50);

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            changed = self.reported.changed() => Ok(changed?),
            changed = self.authority.changed() => Ok(changed?),
            changed = self.leads.changed() => Ok(changed?),
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        let leads = *self.leads.borrow_and_update();
        let authority = self.authority.borrow_and_update().authority.clone();
        let gateways = self.gateways();
        let (true, Some(authority), Some(gateways)) = (leads, authority, gateways) else {
            self.rest();
            return None;
        };
        let is_same = |compared: &ComparedSecrets| compared.gateways == gateways && compared.authority == authority;
        if let Some(compared) = self.compared.as_ref().filter(|compared| is_same(compared)) {
            let rest = compared.compared_until.saturating_duration_since(Instant::now());
            if !rest.is_zero() {
                return Some(rest);
            }
        }
        let Some(found) = self.round(&gateways, &authority).await else {
            self.compared = None;
            return Some(Self::GATHER);
        };
        let rest = self.conclude(found, &gateways, &authority);
        self.compared = Some(ComparedSecrets {
            gateways,
            authority,
            compared_until: Instant::now() + rest,
        });
        Some(rest)
    }
}

impl CertificateReconciler {
    /// `everywhere` receives since when Secrets agree with an authority.
    pub(crate) fn new(
        client: Client,
        (place, life): (SecretPlacement, Duration),
        reported: watch::Receiver<Option<PublishedReports>>,
        known: watch::Receiver<KnownAuthority>,
        everywhere: watch::Sender<Option<AuthorityRollout>>,
        leads: watch::Receiver<bool>,
        diagnostics: Diagnostics,
    ) -> (Self, watch::Receiver<CertificateFigures>) {
        let (figures, followed) = watch::channel(CertificateFigures::default());
        let reconciler = Self {
            client,
            namespaces: BTreeSet::from_iter((!place.with_gateways).then(|| place.namespace.clone())),
            place,
            life,
            reported,
            authority: known,
            leads,
            everywhere,
            figures,
            diagnostics,
            compared: None,
            order: RoundOrder::default(),
            waiting: DeferredRetries::default(),
            backoff: Backoff::of_the_api(),
        };
        (reconciler, followed)
    }

    /// The Gateways with Envoys of ours. `None`: nothing was built yet.
    fn gateways(&mut self) -> Option<ServedGateways> {
        let reported = self.reported.borrow_and_update();
        let PublishedReports { gateways, objects, .. } = reported.as_ref()?;
        let uid = |name: &ObjectName| objects.gateways.get(name).map(|gateway| gateway.meta.uid.clone());
        Some(gateways.iter().map(|name| (name.clone(), uid(name))).collect())
    }

    /// Another replica leads.
    fn rest(&mut self) {
        self.compared = None;
        self.waiting = DeferredRetries::default();
        self.everywhere.send_replace(None);
        self.figures.send_replace(CertificateFigures::default());
        self.diagnostics.set(ABOUT, BTreeSet::new());
    }

    fn conclude(
        &mut self,
        found: CertificateResults,
        gateways: &ServedGateways,
        authority: &Arc<Authority>,
    ) -> Duration {
        let is_done = found.is_everywhere(gateways.keys());
        self.everywhere.send_if_modified(|known| {
            let is_known = known.as_ref().is_some_and(|known| known.authority.signs_as(authority));
            if is_done && !is_known {
                let (authority, since) = (Arc::clone(authority), Instant::now());
                *known = Some(AuthorityRollout { authority, since });
            } else if !is_done {
                *known = None;
            }
            is_known != is_done
        });
        let refused = !found.refused.is_empty();
        self.diagnostics.set_and_log(ABOUT, found.diagnostics());
        self.figures.send_replace(CertificateFigures {
            first: found.first,
            outdated: found.outdated.len(),
        });
        if found.failed {
            return self.backoff.next();
        }
        self.backoff.reset();
        let renewal = found.renewal.and_then(|at| at.duration_since(SystemTime::now()).ok());
        let rest = renewal.map_or(LOOK, |rest| rest.clamp(Duration::from_millis(500), LOOK));
        if refused { rest.min(REFUSED) } else { rest }
    }

    /// Compares all Secrets. `None`: there is newer input.
    async fn round(&mut self, gateways: &ServedGateways, authority: &Arc<Authority>) -> Option<CertificateResults> {
        let mut found = CertificateResults::default();
        let own_keys = match self.own_keys().await {
            Ok(own_keys) => own_keys,
            Err(error) => {
                let name = ObjectName::new(&self.place.namespace, self.place.keys.as_deref().unwrap_or_default());
                found.failed(&name, DiagnosticReason::ReadRefused, &error.into());
                found.is_partial = true;
                return Some(found);
            }
        };
        let (all, excess) = self.list_secrets(gateways, &mut found).await;
        let names = |kept: &ExistingSecrets| [kept.desired.name.clone(), kept.desired.keys_name()];
        let known: BTreeSet<ObjectName> = all.iter().flat_map(names).chain(excess.iter().map(name_of)).collect();
        self.waiting.retain(|secret| known.contains(secret));
        for kept in self.order.begin(all, |kept| &kept.desired.gateway.namespace) {
            if found.is_partial {
                return Some(found);
            }
            if self.is_outdated(gateways, authority) {
                return None;
            }
            self.keep(&kept, (authority, own_keys.as_ref()), &mut found).await;
        }
        for secret in self.order.begin(excess, namespace_of) {
            if found.is_partial {
                return Some(found);
            }
            if self.is_outdated(gateways, authority) {
                return None;
            }
            self.delete(&secret, &mut found).await;
        }
        Some(found)
    }

    /// Whether a round has written enough, and its input has changed.
    fn is_outdated(&mut self, gateways: &ServedGateways, authority: &Arc<Authority>) -> bool {
        let has_changed = || Ok(self.reported.has_changed()? || self.authority.has_changed()?);
        let has_changed: Result<bool, watch::error::RecvError> = has_changed();
        if !self.order.may_end() || !has_changed.unwrap_or(true) {
            return false;
        }
        let known = self.authority.borrow_and_update().authority.clone();
        self.gateways().as_ref() != Some(gateways) || known.as_ref() != Some(authority)
    }

    /// Returns the Secrets of Gateways that could be read, and excess ones.
    async fn list_secrets(
        &mut self,
        gateways: &ServedGateways,
        found: &mut CertificateResults,
    ) -> (Vec<ExistingSecrets>, Vec<ZeroizingSecret>) {
        let mut by_namespace: BTreeMap<String, Vec<GatewaySecrets>> = BTreeMap::new();
        for (gateway, uid) in gateways {
            let wanted = GatewaySecrets::new(gateway, uid.as_deref(), &self.place);
            let namespace = wanted.name.namespace.to_string();
            by_namespace.entry(namespace).or_default().push(wanted);
        }
        self.namespaces.extend(by_namespace.keys().cloned());
        let (mut all, mut excess, mut empty) = (Vec::new(), Vec::new(), BTreeSet::new());
        for namespace in &self.namespaces {
            let wanted = by_namespace.remove(namespace).unwrap_or_default();
            match self.list(namespace).await {
                Ok(mut there) => {
                    if there.is_empty() && wanted.is_empty() {
                        empty.insert(namespace.clone());
                    }
                    all.extend(wanted.into_iter().map(|wanted| ExistingSecrets {
                        certificate: there.remove(wanted.name.name.as_str()),
                        keys: there.remove(wanted.keys_name().name.as_str()),
                        desired: wanted,
                    }));
                    excess.extend(there.into_values());
                }
                // The rest there goes with its owner.
                Err(error) if wanted.is_empty() => {
                    tracing::warn!(namespace, %error, "cannot look for Secrets of Gateways that are gone");
                }
                Err(error) => {
                    let obstacle = error.into();
                    for wanted in wanted {
                        found.failed(&wanted.name, DiagnosticReason::ReadRefused, &obstacle);
                        found.outdated.insert(wanted.gateway);
                    }
                }
            }
            if found.is_partial {
                break;
            }
        }
        // In empty namespaces, the Secrets of former Gateways are gone, too.
        self.namespaces
            .retain(|namespace| !empty.contains(namespace) || *namespace == self.place.namespace);
        (all, excess)
    }

    async fn own_keys(&self) -> Result<Option<ZeroizingSecret>, Error> {
        let Some(name) = self.place.keys.as_ref().filter(|_| self.place.with_gateways) else {
            return Ok(None);
        };
        Ok(self.named(&self.place.namespace, name).await?.pop())
    }

    /// Lists the Secret of this name: following it takes that right anyway.
    async fn named(&self, namespace: &str, name: &str) -> Result<Vec<ZeroizingSecret>, Error> {
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        let list = self.api(namespace).list(&named).await?;
        Ok(list.items.into_iter().map(ZeroizingSecret::new).collect())
    }

    async fn list(&self, namespace: &str) -> Result<BTreeMap<String, ZeroizingSecret>, Error> {
        let label = &self.place.label;
        let ours = format!("{MANAGED_BY}={MANAGER},{CONTROLLER_LABEL}={label},{GATEWAY_NAME}");
        let list = self.api(namespace).list(&ListParams::default().labels(&ours)).await?;
        let named = list.items.into_iter().map(|secret| {
            let name = secret.metadata.name.clone().unwrap_or_default();
            (name, ZeroizingSecret::new(secret))
        });
        Ok(named.collect())
    }

    async fn keep(
        &mut self,
        kept: &ExistingSecrets,
        (authority, own_keys): (&Authority, Option<&ZeroizingSecret>),
        found: &mut CertificateResults,
    ) {
        let ExistingSecrets {
            desired: wanted, keys, ..
        } = kept;
        match self.keep_certificate(kept, authority, found).await {
            Some(validity) => found.keeps(CertificateUse {
                role: CertificateRole::Client,
                whose: format!("the Secret {}", wanted.name),
                validity,
            }),
            None => drop(found.outdated.insert(wanted.gateway.clone())),
        }
        let Some(own) = own_keys.map(ZeroizingSecret::object) else {
            return;
        };
        let name = wanted.keys_name();
        if keys.as_ref().is_some_and(|is| wanted.has_keys(is.object(), own)) {
            self.waiting.done(&name);
            return;
        }
        let input = wanted.digest(&[own.metadata.resource_version.as_deref().unwrap_or_default()]);
        if self.waits(&name, input, found) {
            return;
        }
        self.order.record_turn(&wanted.gateway.namespace);
        match self.apply(&wanted.keys(own), keys.is_some()).await {
            Ok(()) => self.waiting.done(&name),
            Err(obstacle) => self.fail(name, input, &obstacle, found),
        }
    }

    /// Returns the certificate's validity; `None`: the Secret is not correct.
    async fn keep_certificate(
        &mut self,
        kept: &ExistingSecrets,
        authority: &Authority,
        found: &mut CertificateResults,
    ) -> Option<Validity> {
        let ExistingSecrets {
            desired: wanted,
            certificate,
            ..
        } = kept;
        let now = SystemTime::now();
        let is = certificate.as_ref().map(ZeroizingSecret::object);
        let good = is.and_then(|secret| wanted.certificate(secret, authority, now));
        let is_complete = is.is_some_and(|secret| wanted.is_complete(secret, authority));
        let is_new = good.is_none();
        if let Some((_, validity)) = good.as_ref().filter(|_| is_complete) {
            self.waiting.done(&wanted.name);
            return Some(*validity);
        }
        let input = wanted.digest(&[&authority.trusted, &authority.signing.certificate]);
        // Before the expensive signature.
        if self.waits(&wanted.name, input, found) {
            return None;
        }
        let made = good.map_or_else(|| wanted.sign(authority, now, self.life), Ok);
        let (pair, validity) = match made {
            Ok(made) => made,
            Err(error) => {
                tracing::error!(secret = %wanted.name, %error, "a certificate cannot be signed");
                found.failed = true;
                found.is_partial = true;
                return None;
            }
        };
        self.order.record_turn(&wanted.gateway.namespace);
        match self.apply(&wanted.object(&pair, authority), is.is_some()).await {
            Ok(()) => {
                let (secret, gateway) = (&wanted.name, &wanted.gateway);
                tracing::info!(%secret, %gateway, is_new, "wrote the certificate of Envoys");
                self.waiting.done(&wanted.name);
                Some(validity)
            }
            Err(obstacle) => {
                self.fail(wanted.name.clone(), input, &obstacle, found);
                None
            }
        }
    }

    /// Whether the same was refused lately, which is reported again.
    fn waits(&self, secret: &ObjectName, input: StatusDigest, found: &mut CertificateResults) -> bool {
        let words = self.waiting.outcome(secret, input, Instant::now());
        if let Some(Some(words)) = words {
            found.refuse(secret, DiagnosticReason::WriteRefused, words.clone());
        }
        words.is_some()
    }

    /// Defers a Secret unless others cannot be written either.
    fn fail(
        &mut self,
        secret: ObjectName,
        input: StatusDigest,
        obstacle: &CertificateObstacle,
        found: &mut CertificateResults,
    ) {
        found.failed(&secret, DiagnosticReason::WriteRefused, obstacle);
        if obstacle.is_about_the_object() {
            let words = obstacle.words(&secret);
            self.waiting.defer(secret, input, words, Instant::now());
        }
    }

    /// Writes a Secret. `is_ours`: else it must not exist yet.
    async fn apply(&self, secret: &ZeroizingSecret, is_ours: bool) -> Result<(), CertificateObstacle> {
        // The Lease may have been lost meanwhile.
        if !*self.leads.borrow() {
            return Ok(());
        }
        let ObjectName { namespace, name } = name_of(secret);
        if !is_ours && !self.named(&namespace, &name).await?.is_empty() {
            return Err(CertificateObstacle::Taken);
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(secret.object());
        let written = self.api(&namespace).patch(&name, &params, &patch).await?;
        drop(ZeroizingSecret::new(written));
        Ok(())
    }

    async fn delete(&mut self, secret: &ZeroizingSecret, found: &mut CertificateResults) {
        let (name, metadata) = (name_of(secret), &secret.object().metadata);
        let input = StatusDigest::of(metadata.uid.as_deref().unwrap_or_default().as_bytes());
        if !*self.leads.borrow() || self.waits(&name, input, found) {
            return;
        }
        self.order.record_turn(&name.namespace);
        match delete(&self.api(&name.namespace), metadata).await {
            Ok(true) => tracing::info!(secret = %name, "deleted the Secret of Envoys whose Gateway is gone"),
            Ok(false) => {}
            Err(error) => self.fail(name, input, &error.into(), found),
        }
    }

    fn api(&self, namespace: &str) -> Api<SecretObject> {
        Api::namespaced(self.client.clone(), namespace)
    }
}

fn namespace_of(secret: &ZeroizingSecret) -> &str {
    secret.object().metadata.namespace.as_deref().unwrap_or_default()
}

fn name_of(secret: &ZeroizingSecret) -> ObjectName {
    let name = secret.object().metadata.name.as_deref().unwrap_or_default();
    ObjectName::new(namespace_of(secret), name)
}
