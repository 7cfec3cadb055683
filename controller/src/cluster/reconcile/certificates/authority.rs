//! Reads the Secret with the authority, signs this replica's certificate, and does the leader's writes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use futures::StreamExt as _;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::Secret as SecretObject;
use kube::Api;
use tokio::sync::watch;

use super::config::AuthorityConfig;
use super::content::{Authority, AuthorityStep};
use super::schedule::{self, AuthorityStepDue};
use super::sign;
use crate::cluster::kube::ZeroizingSecret;
use crate::cluster::kube::named_object::{self, ObservedObject};
use crate::cluster::reconcile::diagnostics::{Diagnostic, DiagnosticReason, Diagnostics};
use crate::cluster::reconcile::own_secret::{self, ROTATE, ROTATED, SecretWriteOutcome, SecretWriter};
use crate::cluster::reconcile::reconcile_loop::{Closed, Reconcile, changed_or_never};
use limpet_api::ObjectName;
use limpet_xds::{TlsInMemory, TlsPem};

/// Timers stand still while the machine is suspended.
const LONGEST: Duration = Duration::from_secs(60);
const ABOUT: &str = "xds.tls.authority";

#[derive(Debug, Clone, Default)]
pub(crate) struct KnownAuthority {
    /// The last valid one.
    pub(crate) authority: Option<Arc<Authority>>,
    pub(crate) missing: Option<String>,
}

/// Since when every Gateway's Secret agrees with this authority.
#[derive(Debug, Clone)]
pub(crate) struct AuthorityRollout {
    pub(super) authority: Arc<Authority>,
    pub(super) since: Instant,
}

#[derive(Debug)]
enum AuthoritySecret {
    Unknown,
    Missing,
    There(ZeroizingSecret, Result<Arc<Authority>, String>),
}

pub(crate) struct AuthorityReconciler {
    writer: SecretWriter,
    config: AuthorityConfig,
    names: Vec<String>,
    states: BoxStream<'static, ObservedObject<SecretObject>>,
    found: AuthoritySecret,
    sender: watch::Sender<KnownAuthority>,
    tls: TlsInMemory,
    /// When this replica's certificate is renewed, and its signer.
    renewal: Option<(SystemTime, Arc<Authority>)>,
    everywhere: watch::Receiver<Option<AuthorityRollout>>,
    leads: watch::Receiver<bool>,
    diagnostics: Diagnostics,
    refused: BTreeMap<DiagnosticReason, String>,
}

impl Reconcile for AuthorityReconciler {
    const GATHER: Duration = Duration::ZERO;

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            seen = self.states.next() => self.saw(seen.ok_or(Closed)?),
            changed = self.leads.changed() => changed?,
            () = changed_or_never(&mut self.everywhere) => {}
            () = self.sender.closed() => return Err(Closed),
        }
        Ok(())
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        self.certify();
        let rest = if *self.leads.borrow_and_update() {
            self.write_next().await
        } else {
            None
        };
        Some(rest.unwrap_or(LONGEST).min(self.until_renewal()).min(LONGEST))
    }
}

impl AuthorityReconciler {
    /// `tls` gets this replica's certificate, with the names of `service`.
    pub(crate) fn new(
        (secrets, service): (Api<SecretObject>, &ObjectName),
        config: &AuthorityConfig,
        tls: TlsInMemory,
        everywhere: watch::Receiver<Option<AuthorityRollout>>,
        leads: watch::Receiver<bool>,
        diagnostics: Diagnostics,
    ) -> (Self, watch::Receiver<KnownAuthority>) {
        let missing = Some(format!("the Secret {} was not read yet", config.secret));
        let authority = None;
        let (told, known) = watch::channel(KnownAuthority { authority, missing });
        let reconciler = Self {
            states: named_object::follow(secrets.clone(), "Secret", &config.secret).boxed(),
            writer: SecretWriter::new(secrets),
            names: config.server_names(service),
            config: config.clone(),
            found: AuthoritySecret::Unknown,
            sender: told,
            tls,
            renewal: None,
            everywhere,
            leads,
            diagnostics,
            refused: BTreeMap::new(),
        };
        (reconciler, known)
    }

    fn saw(&mut self, seen: ObservedObject<SecretObject>) {
        match seen {
            Ok(secret) => {
                self.writer.saw();
                self.refused.remove(&DiagnosticReason::ReadRefused);
                self.found = secret.map_or(AuthoritySecret::Missing, |secret| {
                    let read = Authority::read(&secret).map(Arc::new);
                    AuthoritySecret::There(ZeroizingSecret::new(secret), read.map_err(|broken| broken.to_string()))
                });
            }
            Err(error) => {
                let refusal = format!("grant list and watch on the Secret: {error}");
                self.refused.insert(DiagnosticReason::ReadRefused, refusal);
            }
        }
        self.publish();
    }

    fn publish(&self) {
        self.report_diagnostics();
        let why = match &self.found {
            AuthoritySecret::Unknown => "was not read yet",
            AuthoritySecret::Missing => "is not there yet",
            AuthoritySecret::There(_, Err(_)) => "is broken",
            AuthoritySecret::There(_, Ok(_)) => "",
        };
        let found = match &self.found {
            AuthoritySecret::There(_, Ok(authority)) => Some(Arc::clone(authority)),
            _ => None,
        };
        self.sender.send_if_modified(|known| {
            let authority = found.or_else(|| known.authority.clone());
            let missing = authority.is_none().then(|| {
                let missing = format!("the Secret {} {why}", self.config.secret);
                let refused = self.refused.get(&DiagnosticReason::ReadRefused);
                refused.map_or(missing.clone(), |refusal| format!("{missing}: {refusal}"))
            });
            let changed = known.authority != authority || known.missing != missing;
            *known = KnownAuthority { authority, missing };
            changed
        });
    }

    fn report_diagnostics(&self) {
        let uid = match &self.found {
            AuthoritySecret::There(secret, _) => secret.object().metadata.uid.clone().unwrap_or_default(),
            _ => String::new(),
        };
        let diagnostic = |reason, message| Diagnostic {
            kind: "Secret",
            namespace: None,
            name: self.config.secret.clone(),
            uid: uid.clone(),
            reason,
            message,
        };
        let invalid = match &self.found {
            AuthoritySecret::There(_, Err(broken)) => Some(format!(
                "{broken}; the previous authority stays in use, if there was any; if the Secret is deleted, it is made \
                 again"
            )),
            _ => None,
        };
        let unknown = match &self.found {
            AuthoritySecret::There(secret, _) => own_secret::unknown_annotations(secret.object(), &[ROTATE, ROTATED]),
            _ => None,
        };
        let invalid = invalid.into_iter().chain(unknown);
        let invalid = invalid.map(|message| diagnostic(DiagnosticReason::Invalid, message));
        let refused = self.refused.iter();
        let refused = refused.map(|(reason, message)| diagnostic(*reason, message.clone()));
        self.diagnostics.set_and_log(ABOUT, invalid.chain(refused).collect());
    }

    fn authority(&self) -> Option<Arc<Authority>> {
        self.sender.borrow().authority.clone()
    }

    fn until_renewal(&self) -> Duration {
        let renewal = self.renewal.as_ref().map(|(at, _)| *at);
        let rest = renewal.map(|at| at.duration_since(SystemTime::now()).unwrap_or_default());
        rest.map_or(LONGEST, |rest| rest.max(Duration::from_millis(100)))
    }

    /// Signs this replica's certificate if it lacks one of the present authority, or has an old one.
    fn certify(&mut self) {
        let Some(authority) = self.authority() else {
            return;
        };
        let now = SystemTime::now();
        let is_good = |(at, by): &(SystemTime, Arc<Authority>)| now < *at && by.signs_as(&authority);
        if self.renewal.as_ref().is_some_and(is_good) {
            return;
        }
        let end = authority.end(now, self.config.certificate_life.get());
        let made = sign::server(&authority.signing, &self.names, now, end).map_err(|error| error.to_string());
        let handed = made.and_then(|pair| {
            let kept_in = format!("the Secret {}", self.config.secret);
            let pem = TlsPem {
                certificate: pair.certificate.as_bytes(),
                key: pair.key.as_bytes(),
                client_ca: authority.trusted.as_bytes(),
                kept_in: &kept_in,
            };
            self.tls.hand_over(&pem).map_err(|error| error.to_string())
        });
        match handed {
            Ok(()) => {
                let life = end.duration_since(now).unwrap_or_default();
                self.renewal = Some((now.checked_add(life / 3 * 2).unwrap_or(now), authority));
                tracing::info!(names = ?self.names, "the xDS server has a new certificate");
            }
            Err(error) => tracing::error!(error, "the xDS server's certificate cannot be signed"),
        }
    }

    async fn write_next(&mut self) -> Option<Duration> {
        if let Some(rest) = self.writer.rest() {
            return Some(rest);
        }
        let (now, life) = (SystemTime::now(), self.config.life.get());
        let written = match &self.found {
            AuthoritySecret::Unknown | AuthoritySecret::There(_, Err(_)) => return None,
            AuthoritySecret::Missing => {
                // A deleted Secret is created with the same authority: with another one, no Envoy could connect.
                let authority = self.authority();
                let made = authority.map_or_else(|| Authority::new(now, life), |known| Ok(Authority::clone(&known)));
                made.map(|authority| (authority.object(&self.config.secret), None))
            }
            AuthoritySecret::There(secret, Ok(authority)) => {
                let held = self.held(authority);
                match schedule::next_step(authority, now, held, self.config.phase_time.get()) {
                    AuthorityStepDue::In(rest) => return Some(rest.max(Duration::from_millis(1))),
                    AuthorityStepDue::WithSecrets => return None,
                    AuthorityStepDue::Now(step) => authority.after(step, now, life).map(|after| {
                        let begins = matches!(step, AuthorityStep::Introduce | AuthorityStep::Replace);
                        let heeded = authority.rotation_request.as_deref().filter(|_| begins);
                        (after.within(secret.object(), heeded), Some(step))
                    }),
                }
            }
        };
        match written {
            Ok((secret, step)) => self.write(secret, step).await,
            Err(error) => {
                tracing::error!(%error, "an authority cannot be made");
                Some(self.writer.failed())
            }
        }
    }

    fn held(&self, authority: &Arc<Authority>) -> Option<Duration> {
        let everywhere = self.everywhere.borrow();
        let everywhere = everywhere
            .as_ref()
            .filter(|known| known.authority.signs_as(authority))?;
        Some(everywhere.since.elapsed())
    }

    async fn write(&mut self, secret: ZeroizingSecret, step: Option<AuthorityStep>) -> Option<Duration> {
        let name = &self.config.secret;
        let (written, rest) = self.writer.write(name, &secret, step.is_none()).await;
        match written {
            SecretWriteOutcome::Done => {
                tracing::info!(secret = name, "{}", after_step(step));
                self.refused.remove(&DiagnosticReason::WriteRefused);
                self.report_diagnostics();
            }
            SecretWriteOutcome::Refused(words) => {
                self.refused.insert(DiagnosticReason::WriteRefused, words);
                self.report_diagnostics();
            }
            SecretWriteOutcome::Not => {}
        }
        Some(rest)
    }
}

fn after_step(step: Option<AuthorityStep>) -> &'static str {
    match step {
        None => "the authority of xDS is created",
        Some(AuthorityStep::Introduce) => "rotation of the authority, phase 1 of 3: a new one is trusted",
        Some(AuthorityStep::Sign) => "rotation of the authority, phase 2 of 3: the new one signs",
        Some(AuthorityStep::Forget) => "rotation of the authority, phase 3 of 3: the former one is forgotten",
        Some(AuthorityStep::Replace) => "the authority has ended, and a new one takes its place at once",
    }
}
