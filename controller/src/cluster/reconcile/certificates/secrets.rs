//! Keeps a Secret with a certificate for the Envoys of each Gateway. In the namespaces of Gateways, it keeps a copy of
//! the key-encryption keys beside it, because a pod can use no Secret of another namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, Error};
use limpet_xds::{CertificateRole, CertificateUse};
use tokio::sync::watch;

use super::authority::{Everywhere, KnownAuthority};
use super::content::Authority;
use super::found::{Found, Obstacle};
use super::gateways::{Place, Wanted};
use crate::cluster::kube::{Backoff, FIELD_MANAGER, Wiped, delete};
use crate::cluster::reconcile::diagnostics::{Diagnostics, Reason};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use crate::cluster::reconcile::reported::Reported;
use limpet_api::ObjectName;
use limpet_model::{GATEWAY_NAME, MANAGED_BY, MANAGER};
use limpet_outputs::manifests::CONTROLLER_LABEL;

/// How often the Secrets are looked at, for changes by others.
const LOOK: Duration = Duration::from_secs(60);
/// When to try again what was refused: somebody may have granted the right, which no watch tells.
const REFUSED: Duration = Duration::from_secs(10);
/// What the diagnostics are about.
const ABOUT: &str = "xds.tls.authority of Gateways";

pub(crate) struct Reconciler {
    client: Client,
    place: Place,
    life: Duration,
    reported: watch::Receiver<Option<Reported>>,
    known: watch::Receiver<KnownAuthority>,
    leads: watch::Receiver<bool>,
    everywhere: watch::Sender<Option<Everywhere>>,
    figures: watch::Sender<Figures>,
    diagnostics: Diagnostics,
    /// What the Secrets were last compared with, and when that is due again.
    compared: Option<Compared>,
    /// Where Secrets of ours may be.
    namespaces: BTreeSet<String>,
    backoff: Backoff,
}

struct Compared {
    gateways: Gateways,
    authority: Arc<Authority>,
    next: Instant,
}

/// The Gateways whose Envoys are served, with their uids, if they are objects.
type Gateways = BTreeMap<ObjectName, Option<String>>;

/// What is known of the Secrets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    /// The certificate in one of them that ends first.
    pub(crate) first: Option<CertificateUse>,
    /// How many Gateways have none that is as it should be.
    pub(crate) behind: usize,
}

impl Reconcile for Reconciler {
    const GATHER: Duration = Duration::from_millis(50);

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            changed = self.reported.changed() => Ok(changed?),
            changed = self.known.changed() => Ok(changed?),
            changed = self.leads.changed() => Ok(changed?),
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        let leads = *self.leads.borrow_and_update();
        let authority = self.known.borrow_and_update().authority.clone();
        let gateways = self.gateways();
        let (true, Some(authority), Some(gateways)) = (leads, authority, gateways) else {
            self.rest();
            return None;
        };
        let is_same = |compared: &Compared| compared.gateways == gateways && compared.authority == authority;
        if let Some(compared) = self.compared.as_ref().filter(|compared| is_same(compared)) {
            let rest = compared.next.saturating_duration_since(Instant::now());
            if !rest.is_zero() {
                return Some(rest);
            }
        }
        let found = self.round(&gateways, &authority).await;
        let rest = self.conclude(found, &gateways, &authority);
        self.compared = Some(Compared {
            gateways,
            authority,
            next: Instant::now() + rest,
        });
        Some(rest)
    }
}

impl Reconciler {
    /// `everywhere` tells when Secrets agree with an authority.
    pub(crate) fn new(
        client: Client,
        (place, life): (Place, Duration),
        reported: watch::Receiver<Option<Reported>>,
        known: watch::Receiver<KnownAuthority>,
        everywhere: watch::Sender<Option<Everywhere>>,
        leads: watch::Receiver<bool>,
        diagnostics: Diagnostics,
    ) -> (Self, watch::Receiver<Figures>) {
        let (figures, followed) = watch::channel(Figures::default());
        let reconciler = Self {
            client,
            namespaces: BTreeSet::from_iter((!place.with_gateways).then(|| place.namespace.clone())),
            place,
            life,
            reported,
            known,
            leads,
            everywhere,
            figures,
            diagnostics,
            compared: None,
            backoff: Backoff::of_the_api(),
        };
        (reconciler, followed)
    }

    /// The Gateways whose Envoys are served. `None`: nothing was built yet.
    fn gateways(&mut self) -> Option<Gateways> {
        let reported = self.reported.borrow_and_update();
        let Reported { gateways, objects, .. } = reported.as_ref()?;
        let uid = |name: &ObjectName| objects.gateways.get(name).map(|gateway| gateway.meta.uid.clone());
        Some(gateways.iter().map(|name| (name.clone(), uid(name))).collect())
    }

    /// What somebody else does now.
    fn rest(&mut self) {
        self.compared = None;
        self.everywhere.send_replace(None);
        self.figures.send_replace(Figures::default());
        self.diagnostics.set(ABOUT, BTreeSet::new());
    }

    /// Returns how long until the next round.
    fn conclude(&mut self, found: Found, gateways: &Gateways, authority: &Arc<Authority>) -> Duration {
        let is_done = found.is_everywhere(gateways.keys());
        self.everywhere.send_if_modified(|known| {
            let is_known = known.as_ref().is_some_and(|known| known.authority.signs_as(authority));
            if is_done && !is_known {
                let (authority, since) = (Arc::clone(authority), Instant::now());
                *known = Some(Everywhere { authority, since });
            } else if !is_done {
                *known = None;
            }
            is_known != is_done
        });
        let refused = !found.refused.is_empty();
        self.diagnostics.complain(ABOUT, found.diagnostics());
        self.figures.send_replace(Figures {
            first: found.first,
            behind: found.behind.len(),
        });
        if found.failed {
            return self.backoff.next();
        }
        self.backoff.reset();
        let renewal = found.renewal.and_then(|at| at.duration_since(SystemTime::now()).ok());
        let rest = renewal.map_or(LOOK, |rest| rest.clamp(Duration::from_millis(500), LOOK));
        if refused { rest.min(REFUSED) } else { rest }
    }

    async fn round(&mut self, gateways: &Gateways, authority: &Authority) -> Found {
        let mut found = Found::default();
        let own_keys = match self.own_keys().await {
            Ok(own_keys) => own_keys,
            Err(error) => {
                let name = ObjectName::new(&self.place.namespace, self.place.keys.as_deref().unwrap_or_default());
                found.failed(&name, Reason::ReadRefused, &error.into());
                found.is_partial = true;
                return found;
            }
        };
        let mut by_namespace: BTreeMap<String, Vec<Wanted>> = BTreeMap::new();
        for (gateway, uid) in gateways {
            let wanted = Wanted::new(gateway, uid.as_deref(), &self.place);
            by_namespace
                .entry(wanted.name.namespace.to_string())
                .or_default()
                .push(wanted);
        }
        self.namespaces.extend(by_namespace.keys().cloned());
        for namespace in &self.namespaces {
            let wanted = by_namespace.remove(namespace).unwrap_or_default();
            match self.list(namespace).await {
                Ok(there) => {
                    self.keep_all(there, &wanted, (authority, own_keys.as_ref()), &mut found)
                        .await;
                }
                // Nobody waits for it. What is left there goes with its owner.
                Err(error) if wanted.is_empty() => {
                    tracing::warn!(namespace, %error, "cannot look for Secrets of Gateways that are gone");
                }
                Err(error) => {
                    let obstacle = error.into();
                    for wanted in wanted {
                        found.failed(&wanted.name, Reason::ReadRefused, &obstacle);
                        found.behind.insert(wanted.gateway);
                    }
                }
            }
            if found.is_partial {
                break;
            }
        }
        found
    }

    /// Compares the Secrets of a namespace with what is wanted there.
    async fn keep_all(
        &self,
        mut there: BTreeMap<String, Wiped>,
        all: &[Wanted],
        (authority, own_keys): (&Authority, Option<&Wiped>),
        found: &mut Found,
    ) {
        for wanted in all {
            let is = there.remove(wanted.name.name.as_str());
            if let Err(obstacle) = self.keep(wanted, is.as_ref(), authority, found).await {
                found.failed(&wanted.name, Reason::WriteRefused, &obstacle);
                found.behind.insert(wanted.gateway.clone());
            }
            let Some(own) = own_keys.map(Wiped::object) else {
                continue;
            };
            let is = there.remove(&wanted.keys_name());
            let is_good = is.as_ref().is_some_and(|is| wanted.has_keys(is.object(), own));
            if !is_good && let Err(obstacle) = self.apply(&wanted.keys(own), is.is_some()).await {
                let name = ObjectName::new(&wanted.name.namespace, &wanted.keys_name());
                found.failed(&name, Reason::WriteRefused, &obstacle);
            }
        }
        for secret in there.into_values() {
            if let Err(error) = self.delete(&secret).await {
                let metadata = &secret.object().metadata;
                let name = [&metadata.namespace, &metadata.name].map(|name| name.as_deref().unwrap_or_default());
                let [namespace, name] = name;
                found.failed(&ObjectName::new(namespace, name), Reason::WriteRefused, &error.into());
            }
        }
    }

    /// The Secret with the key-encryption keys, if it is copied and there.
    async fn own_keys(&self) -> Result<Option<Wiped>, Error> {
        let Some(name) = self.place.keys.as_ref().filter(|_| self.place.with_gateways) else {
            return Ok(None);
        };
        Ok(self.named(&self.place.namespace, name).await?.pop())
    }

    /// The Secret of this name, if there is one. The right to list it is what following it needs, too.
    async fn named(&self, namespace: &str, name: &str) -> Result<Vec<Wiped>, Error> {
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        let list = self.api(namespace).list(&named).await?;
        Ok(list.items.into_iter().map(Wiped::new).collect())
    }

    /// The Secrets of Gateways that are there, and ours.
    async fn list(&self, namespace: &str) -> Result<BTreeMap<String, Wiped>, Error> {
        let label = &self.place.label;
        let ours = format!("{MANAGED_BY}={MANAGER},{CONTROLLER_LABEL}={label},{GATEWAY_NAME}");
        let list = self.api(namespace).list(&ListParams::default().labels(&ours)).await?;
        let named = list.items.into_iter().map(|secret| {
            let name = secret.metadata.name.clone().unwrap_or_default();
            (name, Wiped::new(secret))
        });
        Ok(named.collect())
    }

    /// Writes the Secret if it is not as it should be.
    async fn keep(
        &self,
        wanted: &Wanted,
        is: Option<&Wiped>,
        authority: &Authority,
        found: &mut Found,
    ) -> Result<(), Obstacle> {
        let now = SystemTime::now();
        let is = is.map(Wiped::object);
        let good = is.and_then(|secret| wanted.certificate(secret, authority, now));
        let is_complete = is.is_some_and(|secret| wanted.is_complete(secret, authority));
        let is_new = good.is_none();
        let made = match good {
            Some(good) => Ok(good),
            None => wanted.sign(authority, now, self.life),
        };
        let (pair, validity) = match made {
            Ok(made) => made,
            Err(error) => {
                tracing::error!(secret = %wanted.name, %error, "a certificate cannot be signed");
                found.failed = true;
                found.is_partial = true;
                return Ok(());
            }
        };
        if is_new || !is_complete {
            self.apply(&wanted.object(&pair, authority), is.is_some()).await?;
            tracing::info!(secret = %wanted.name, gateway = %wanted.gateway, is_new, "wrote the certificate of Envoys");
        }
        found.keeps(CertificateUse {
            role: CertificateRole::Client,
            whose: format!("the Secret {}", wanted.name),
            validity,
        });
        Ok(())
    }

    /// Writes a Secret, which is among ours or is not there yet.
    async fn apply(&self, secret: &Wiped, is_ours: bool) -> Result<(), Obstacle> {
        // The Lease may have been lost meanwhile.
        if !*self.leads.borrow() {
            return Ok(());
        }
        let metadata = &secret.object().metadata;
        let [namespace, name] = [&metadata.namespace, &metadata.name].map(|name| name.as_deref().unwrap_or_default());
        if !is_ours && !self.named(namespace, name).await?.is_empty() {
            return Err(Obstacle::Taken);
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(secret.object());
        let written = self.api(namespace).patch(name, &params, &patch).await?;
        drop(Wiped::new(written));
        Ok(())
    }

    /// Deletes the Secret of a Gateway that is not ours any more.
    async fn delete(&self, secret: &Wiped) -> Result<(), Error> {
        if !*self.leads.borrow() {
            return Ok(());
        }
        let metadata = &secret.object().metadata;
        let [namespace, name] = [&metadata.namespace, &metadata.name].map(|name| name.as_deref().unwrap_or_default());
        if delete(&self.api(namespace), metadata).await? {
            tracing::info!(
                namespace,
                secret = name,
                "deleted the Secret of Envoys whose Gateway is gone"
            );
        }
        Ok(())
    }

    fn api(&self, namespace: &str) -> Api<SecretObject> {
        Api::namespaced(self.client.clone(), namespace)
    }
}
