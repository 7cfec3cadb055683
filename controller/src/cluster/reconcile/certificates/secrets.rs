//! Keeps a Secret with a certificate for the Envoys of each Gateway.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, Error};
use limpet_xds::{CertificateRole, CertificateUse};
use tokio::sync::watch;

use super::authority::{Everywhere, KnownAuthority};
use super::content::Authority;
use super::gateways::Wanted;
use super::schedule::renewal;
use crate::cluster::kube::{Backoff, FIELD_MANAGER, Wiped};
use crate::cluster::reconcile::diagnostics::{Diagnostic, Diagnostics, Reason, refusal};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile};
use crate::cluster::reconcile::reported::Reported;
use limpet_api::ObjectName;
use limpet_model::{GATEWAY_NAME, MANAGED_BY, MANAGER};

/// How often the Secrets are looked at, for changes by others.
const LOOK: Duration = Duration::from_secs(60);
/// When to try again what was refused: somebody may have granted the right, which no watch tells.
const REFUSED: Duration = Duration::from_secs(10);
/// What the diagnostics are about.
const ABOUT: &str = "xds.tls.authority of Gateways";

pub(crate) struct Reconciler {
    client: Client,
    namespace: String,
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
    backoff: Backoff,
}

struct Compared {
    gateways: BTreeSet<ObjectName>,
    authority: Arc<Authority>,
    next: Instant,
}

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
        (client, namespace): (Client, &str),
        life: Duration,
        reported: watch::Receiver<Option<Reported>>,
        known: watch::Receiver<KnownAuthority>,
        everywhere: watch::Sender<Option<Everywhere>>,
        leads: watch::Receiver<bool>,
        diagnostics: Diagnostics,
    ) -> (Self, watch::Receiver<Option<CertificateUse>>) {
        let (first, followed) = watch::channel(None);
        let reconciler = Self {
            client,
            namespace: namespace.to_owned(),
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
    fn gateways(&mut self) -> Option<BTreeSet<ObjectName>> {
        let reported = self.reported.borrow_and_update();
        Some(reported.as_ref()?.reports.gateways.keys().cloned().collect())
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
        let diagnostics: BTreeSet<_> = diagnostic.into_iter().collect();
        for diagnostic in diagnostics.difference(&self.diagnostics.of(ABOUT)) {
            let (secret, reason) = (&diagnostic.name, diagnostic.reason.name());
            tracing::error!(secret, reason, "{}", diagnostic.message);
        }
        self.diagnostics.set(ABOUT, diagnostics);
    }

    async fn round(&self, gateways: &BTreeSet<ObjectName>, authority: &Authority) -> Found {
        let mut found = Found::default();
        let mut there = match self.list().await {
            Ok(there) => there,
            Err(error) => {
                let name = ObjectName::new(&self.namespace, "");
                found.failed(&name, Reason::ReadRefused, &error);
                return found;
            }
        };
        for gateway in gateways {
            let wanted = Wanted::new(gateway, &self.namespace);
            let is = there.remove(&wanted.name.name);
            if let Err(error) = self.keep(&wanted, is.as_ref(), authority, &mut found).await {
                found.failed(&wanted.name, Reason::WriteRefused, &error);
            }
        }
        for (name, secret) in there {
            if let Err(error) = self.delete(&name, &secret).await {
                let name = ObjectName::new(&self.namespace, &name);
                found.failed(&name, Reason::WriteRefused, &error);
            }
        }
        found
    }

    /// The Secrets of Gateways that are there.
    async fn list(&self) -> Result<BTreeMap<String, Wiped>, Error> {
        let ours = format!("{MANAGED_BY}={MANAGER},{GATEWAY_NAME}");
        let list = self.api().list(&ListParams::default().labels(&ours)).await?;
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
            self.apply(wanted, &wanted.object(&pair, authority)).await?;
            tracing::info!(secret = %wanted.name, gateway = %wanted.gateway, is_new, "wrote the certificate of Envoys");
        }
        found.keeps(CertificateUse {
            role: CertificateRole::Client,
            whose: format!("the Secret {}", wanted.name),
            validity,
        });
        Ok(())
    }

    async fn apply(&self, wanted: &Wanted, secret: &Wiped) -> Result<(), Error> {
        // The Lease may have been lost meanwhile.
        if !*self.leads.borrow() {
            return Ok(());
        }
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let (api, patch) = (self.api(), Patch::Apply(secret.object()));
        let written = api.patch(&wanted.name.name, &params, &patch).await?;
        drop(Wiped::new(written));
        Ok(())
    }

    /// Deletes the Secret of a Gateway that is not ours any more.
    async fn delete(&self, name: &str, secret: &Wiped) -> Result<(), Error> {
        if !*self.leads.borrow() {
            return Ok(());
        }
        let same = Preconditions {
            uid: secret.object().metadata.uid.clone(),
            resource_version: None,
        };
        let params = DeleteParams::default().preconditions(same);
        match self.api().delete(name, &params).await {
            Ok(_) => {
                tracing::info!(secret = name, "deleted the certificate of Envoys whose Gateway is gone");
                Ok(())
            }
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn api(&self) -> Api<SecretObject> {
        Api::namespaced(self.client.clone(), &self.namespace)
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
