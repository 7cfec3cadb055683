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
use super::gateways::{Place, Wanted};
use super::schedule::renewal;
use crate::cluster::kube::{Backoff, FIELD_MANAGER, Wiped, delete};
use crate::cluster::reconcile::diagnostics::{Diagnostic, Diagnostics, Reason, refusal};
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
    /// The certificate in a Secret that ends first.
    first: watch::Sender<Option<CertificateUse>>,
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

/// The Gateways of our classes with their uids.
type Gateways = BTreeMap<ObjectName, String>;

/// The result of a round.
#[derive(Default)]
struct Found {
    /// The certificate that ends first.
    first: Option<CertificateUse>,
    /// When the first one is renewed.
    renewal: Option<SystemTime>,
    /// The Secrets that the API server refuses to write, or their namespace if they cannot be listed; with its words.
    refused: BTreeMap<(ObjectName, Reason), String>,
    failed: bool,
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
        let rest = self.conclude(found, &authority);
        self.compared = Some(Compared {
            gateways,
            authority,
            next: Instant::now() + rest,
        });
        Some(rest)
    }
}

impl Reconciler {
    /// The receivers tell when all Secrets agree with an authority, and which certificate ends first.
    pub(crate) fn new(
        client: Client,
        (place, life): (Place, Duration),
        reported: watch::Receiver<Option<Reported>>,
        known: watch::Receiver<KnownAuthority>,
        everywhere: watch::Sender<Option<Everywhere>>,
        leads: watch::Receiver<bool>,
        diagnostics: Diagnostics,
    ) -> (Self, watch::Receiver<Option<CertificateUse>>) {
        let (first, followed) = watch::channel(None);
        let reconciler = Self {
            client,
            namespaces: BTreeSet::from_iter((!place.with_gateways).then(|| place.namespace.clone())),
            place,
            life,
            reported,
            known,
            leads,
            everywhere,
            first,
            diagnostics,
            compared: None,
            backoff: Backoff::of_the_api(),
        };
        (reconciler, followed)
    }

    /// The Gateways of our classes. `None`: nothing was built yet.
    fn gateways(&mut self) -> Option<Gateways> {
        let reported = self.reported.borrow_and_update();
        let Reported { reports, objects, .. } = reported.as_ref()?;
        let uid = |name: &ObjectName| objects.gateways.get(name).map(|gateway| gateway.meta.uid.clone());
        let named = |name: &ObjectName| Some((name.clone(), uid(name)?));
        Some(reports.gateways.keys().filter_map(named).collect())
    }

    /// What somebody else does now.
    fn rest(&mut self) {
        self.compared = None;
        self.everywhere.send_replace(None);
        self.first.send_replace(None);
        self.diagnostics.set(ABOUT, BTreeSet::new());
    }

    /// Returns how long until the next round.
    fn conclude(&mut self, found: Found, authority: &Arc<Authority>) -> Duration {
        self.first.send_replace(found.first);
        let is_done = !found.failed && found.refused.is_empty();
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
        self.complain(&found.refused);
        if found.failed {
            return self.backoff.next();
        }
        self.backoff.reset();
        let renewal = found.renewal.and_then(|at| at.duration_since(SystemTime::now()).ok());
        let rest = renewal.map_or(LOOK, |rest| rest.clamp(Duration::from_millis(500), LOOK));
        if refused { rest.min(REFUSED) } else { rest }
    }

    fn complain(&self, refused: &BTreeMap<(ObjectName, Reason), String>) {
        // One stands for all: they are refused for one reason.
        let diagnostic = refused.iter().next().map(|((name, reason), words)| Diagnostic {
            kind: "Secret",
            name: name.name.clone(),
            uid: String::new(),
            reason: *reason,
            message: format!("{words}; Secrets of Gateways that are refused: {}", refused.len()),
        });
        self.diagnostics.complain(ABOUT, diagnostic.into_iter().collect());
    }

    async fn round(&mut self, gateways: &Gateways, authority: &Authority) -> Found {
        let mut found = Found::default();
        let own_keys = match self.own_keys().await {
            Ok(own_keys) => own_keys,
            Err(error) => {
                let name = ObjectName::new(&self.place.namespace, self.place.keys.as_deref().unwrap_or_default());
                found.failed(&name, Reason::ReadRefused, &error);
                return found;
            }
        };
        let mut by_namespace: BTreeMap<String, Vec<Wanted>> = BTreeMap::new();
        for (gateway, uid) in gateways {
            let wanted = Wanted::new(gateway, uid, &self.place);
            by_namespace
                .entry(wanted.name.namespace.clone())
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
                Err(error) => found.failed(&ObjectName::new(namespace, ""), Reason::ReadRefused, &error),
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
            let is = there.remove(&wanted.name.name);
            if let Err(error) = self.keep(wanted, is.as_ref(), authority, found).await {
                found.failed(&wanted.name, Reason::WriteRefused, &error);
            }
            let Some(own) = own_keys.map(Wiped::object) else {
                continue;
            };
            let is = there.remove(&wanted.keys_name());
            if is.is_none_or(|is| !wanted.has_keys(is.object(), own))
                && let Err(error) = self.apply(&wanted.name.namespace, &wanted.keys(own)).await
            {
                found.failed(&wanted.name, Reason::WriteRefused, &error);
            }
        }
        for secret in there.into_values() {
            if let Err(error) = self.delete(&secret).await {
                let metadata = &secret.object().metadata;
                let name = [&metadata.namespace, &metadata.name].map(|name| name.as_deref().unwrap_or_default());
                let [namespace, name] = name;
                found.failed(&ObjectName::new(namespace, name), Reason::WriteRefused, &error);
            }
        }
    }

    /// The Secret with the key-encryption keys, if it is copied and there.
    async fn own_keys(&self) -> Result<Option<Wiped>, Error> {
        let Some(name) = self.place.keys.as_ref().filter(|_| self.place.with_gateways) else {
            return Ok(None);
        };
        // The right to list it by its name is what following it needs, too.
        let named = ListParams::default().fields(&format!("metadata.name={name}"));
        let list = self.api(&self.place.namespace).list(&named).await?;
        Ok(list.items.into_iter().next().map(Wiped::new))
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
    ) -> Result<(), Error> {
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
                return Ok(());
            }
        };
        if is_new || !is_complete {
            self.apply(&wanted.name.namespace, &wanted.object(&pair, authority))
                .await?;
            tracing::info!(secret = %wanted.name, gateway = %wanted.gateway, is_new, "wrote the certificate of Envoys");
        }
        found.keeps(CertificateUse {
            role: CertificateRole::Client,
            whose: format!("the Secret {}", wanted.name),
            validity,
        });
        Ok(())
    }

    async fn apply(&self, namespace: &str, secret: &Wiped) -> Result<(), Error> {
        // The Lease may have been lost meanwhile.
        if !*self.leads.borrow() {
            return Ok(());
        }
        let name = secret.object().metadata.name.clone().unwrap_or_default();
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(secret.object());
        let written = self.api(namespace).patch(&name, &params, &patch).await?;
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

impl Found {
    fn failed(&mut self, secret: &ObjectName, reason: Reason, error: &Error) {
        if let Some(words) = refusal(error) {
            self.refused.insert((secret.clone(), reason), words);
        } else {
            tracing::warn!(%secret, %error, "the certificate of Envoys cannot be kept");
            self.failed = true;
        }
    }

    fn keeps(&mut self, one: CertificateUse) {
        let renewal = renewal(one.validity);
        self.renewal = Some(self.renewal.map_or(renewal, |first| first.min(renewal)));
        if self.first.as_ref().is_none_or(|first| one.validity < first.validity) {
            self.first = Some(one);
        }
    }
}
