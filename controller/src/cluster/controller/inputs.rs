//! Inputs from Secrets and `ConfigMap`s: the keyring and the fences of the filter's configuration, and the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use limpet_xds::TlsInMemory;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;
use tokio::task::JoinSet;

use super::context::ControllerContext;
use super::guard::EndpointGuard;
use super::memory::KeptMemory;
use crate::cluster::config::Config;
use crate::cluster::reconcile::certificates::{
    AuthorityConfig, AuthorityReconciler, CertificateFigures, CertificateReconciler, KnownAuthority, SecretPlacement,
};
use crate::cluster::reconcile::config_map::{self, ConfigMapContent};
use crate::cluster::reconcile::delivery::{Delivery, PublishedFilter};
use crate::cluster::reconcile::diagnostics::{Diagnostic, Diagnostics};
use crate::cluster::reconcile::fences::FenceList;
use crate::cluster::reconcile::keyring::{self, PublishedKeys};
use crate::cluster::reconcile::reconcile_loop::{self, Closed, Reconcile};
use crate::cluster::reconcile::replicas::{ReplicaExchange, ReplicaLease, ReplicaReports};
use crate::cluster::reconcile::reported::PublishedReports;
use crate::cluster::reconcile::status::DiagnosticEvents;
use crate::exit::CommandFailure;
use limpet_api::ObjectName;
use limpet_core::time::GatewayDuration;
use limpet_model::Memory;
use limpet_outputs::envoy::EnvoysNamespace;
use limpet_outputs::manifests::controller_label;
use limpet_outputs::{FilterInputs, FilterKeys};

pub(crate) struct FilterSources {
    pub(crate) keys: watch::Receiver<PublishedKeys>,
    pub(crate) inputs: watch::Receiver<InputsOrReason>,
    pub(crate) guard: EndpointGuard,
    pub(crate) memory: KeptMemory,
    pub(crate) replicas: ReplicaReports,
    /// The task of `replicas`. `None`: this replica has nothing to report.
    pub(crate) exchange: Option<ReplicaExchange>,
    pub(crate) in_secrets: Option<watch::Receiver<CertificateFigures>>,
    /// Aborted on drop.
    pub(crate) tasks: JoinSet<()>,
}

/// Starts the tasks of the keyring, the fences, the memory and the certificates of xDS. `published_filter` has the
/// published keyring and fences, `delivery` knows whether proxies have them. `tls` gets the certificates of our own
/// authority, if any. `ended`: no Envoy is served any more.
///
/// # Errors
/// If a keyring file is configured and cannot be read.
pub(crate) fn start(
    context: &ControllerContext,
    delivery: &Delivery,
    tls: &TlsInMemory,
    published_filter: watch::Receiver<Option<PublishedFilter>>,
    reported: watch::Receiver<Option<PublishedReports>>,
    ended: watch::Receiver<bool>,
) -> Result<FilterSources, CommandFailure> {
    let ControllerContext {
        client,
        config,
        leads,
        diagnostics,
        ..
    } = context;
    let namespace = context.namespace();
    let mut tasks = JoinSet::new();
    let (exchange, replicas) = replica_exchange(context, ended);
    let keys = if let Some(file) = &config.keyring.file {
        keys_of_file(file, config, &mut tasks)?
    } else {
        let (reconciler, keys) = keyring::KeyringReconciler::new(
            Api::namespaced(client.clone(), namespace),
            &config.keyring,
            published_filter,
            delivery.clone(),
            leads.clone(),
            replicas.clone(),
            diagnostics.clone(),
        );
        tasks.spawn(reconcile_loop::run(reconciler));
        keys
    };
    // A replica that serves no Envoy and rotates no keyring has nothing to report.
    let tells = matches!(delivery, Delivery::Xds(_)) || config.keyring.file.is_none();
    let (wanting, fences) = keep_config_map::<FenceList>(context, &config.fences, &mut tasks);
    let memory = format!("{}-memory", config.leader_election.name);
    let (remembering, memory) = keep_config_map::<Memory>(context, &memory, &mut tasks);
    let kept = DiagnosticEvents::new(context.recorder(), namespace.to_owned(), diagnostics, leads.clone());
    tasks.spawn(reconcile_loop::run(kept));
    let authority = config.authority().filter(|_| matches!(delivery, Delivery::Xds(_)));
    let (authority, in_secrets) = authority
        .map(|authority| start_authority(context, authority, tls, reported, &mut tasks))
        .unzip();
    let (of_fences, of_memory) = (fences.clone(), memory.clone());
    let (combined, inputs) = CombinedInputs::new(
        config,
        keys.clone(),
        of_fences,
        of_memory,
        authority,
        diagnostics.clone(),
    );
    tasks.spawn(reconcile_loop::run(combined));
    Ok(FilterSources {
        keys,
        inputs,
        guard: EndpointGuard::new(fences, wanting, delivery.clone()),
        memory: KeptMemory::new(memory, remembering),
        replicas,
        exchange: tells.then_some(exchange),
        in_secrets,
        tasks,
    })
}

fn replica_exchange(context: &ControllerContext, ended: watch::Receiver<bool>) -> (ReplicaExchange, ReplicaReports) {
    let config = &context.config;
    let lease = ReplicaLease {
        namespace: context.namespace().to_owned(),
        name: format!("{}-replicas", config.leader_election.name),
        replica: context.replica(),
    };
    let phase_time = config.keyring.phase_time.get();
    let first = config.keyring.file.is_none().then(keyring::unpublished);
    ReplicaExchange::new(&context.client, &lease, phase_time, first, context.leads.clone(), ended)
}

/// Starts the reconciler of a ConfigMap. Returns a sender of what to write, and a receiver of the present content.
fn keep_config_map<K: ConfigMapContent>(
    context: &ControllerContext,
    name: &str,
    tasks: &mut JoinSet<()>,
) -> (watch::Sender<Option<K>>, watch::Receiver<Option<K>>) {
    let (client, namespace) = (&context.client, context.namespace());
    let (leads, diagnostics) = (context.leads.clone(), context.diagnostics.clone());
    let (sender, wanted) = watch::channel(None);
    let (reconciler, kept) =
        config_map::ConfigMapReconciler::<K>::new(client, namespace, name, wanted, leads, diagnostics);
    tasks.spawn(reconcile_loop::run(reconciler));
    (sender, kept)
}

fn start_authority(
    context: &ControllerContext,
    config: &AuthorityConfig,
    tls: &TlsInMemory,
    reported: watch::Receiver<Option<PublishedReports>>,
    tasks: &mut JoinSet<()>,
) -> (watch::Receiver<KnownAuthority>, watch::Receiver<CertificateFigures>) {
    let (client, namespace) = (&context.client, context.namespace());
    let (telling, everywhere) = watch::channel(None);
    let (reconciler, known) = AuthorityReconciler::new(
        (
            Api::namespaced(client.clone(), namespace),
            &ObjectName::new(namespace, &context.config.leader_election.name),
        ),
        config,
        tls.clone(),
        everywhere,
        context.leads.clone(),
        context.diagnostics.clone(),
    );
    tasks.spawn(reconcile_loop::run(reconciler));
    let (managed, keyring) = (context.config.envoy.managed.as_ref(), &context.config.keyring);
    let place = SecretPlacement {
        namespace: namespace.to_owned(),
        with_gateways: managed.is_some_and(|managed| managed.namespace == EnvoysNamespace::Gateway),
        label: controller_label(&context.settings.controller_name),
        keys: keyring
            .file
            .is_none()
            .then(|| keyring.key_encryption_key_secret.clone()),
    };
    let (reconciler, in_secrets) = CertificateReconciler::new(
        client.clone(),
        (place, config.certificate_life.get()),
        reported,
        known.clone(),
        telling,
        context.leads.clone(),
        context.diagnostics.clone(),
    );
    tasks.spawn(reconcile_loop::run(reconciler));
    (known, in_secrets)
}

fn keys_of_file(
    file: &str,
    config: &Config,
    tasks: &mut JoinSet<()>,
) -> Result<watch::Receiver<PublishedKeys>, CommandFailure> {
    let (key, env) = (&config.keyring.key_encryption_key, &config.envoy.key_encryption_key_env);
    let read = keyring::file::read(file, key, env);
    let (sender, keys) = watch::channel(read.map_err(|error| CommandFailure(format!("keyring: {error}")))?);
    tasks.spawn(keyring::file::follow(file.to_owned(), key.clone(), env.clone(), sender));
    Ok(keys)
}

#[derive(Debug)]
struct CombinedInputs {
    keys: watch::Receiver<PublishedKeys>,
    fences: watch::Receiver<Option<FenceList>>,
    memory: watch::Receiver<Option<Memory>>,
    /// Without it, no Envoy can connect.
    authority: Option<watch::Receiver<KnownAuthority>>,
    diagnostics: Diagnostics,
    followed: watch::Receiver<BTreeMap<&'static str, BTreeSet<Diagnostic>>>,
    max_idle: GatewayDuration,
    clock_skew: GatewayDuration,
    report_sessions: bool,
    sender: watch::Sender<InputsOrReason>,
}

/// `Err`: why there are none yet.
pub(crate) type InputsOrReason = Result<Arc<FilterInputs>, String>;

impl CombinedInputs {
    fn new(
        config: &Config,
        keys: watch::Receiver<PublishedKeys>,
        fences: watch::Receiver<Option<FenceList>>,
        memory: watch::Receiver<Option<Memory>>,
        authority: Option<watch::Receiver<KnownAuthority>>,
        diagnostics: Diagnostics,
    ) -> (Self, watch::Receiver<InputsOrReason>) {
        let (told, mut inputs) = watch::channel(Err(String::new()));
        let mut combined = Self {
            keys,
            fences,
            memory,
            authority,
            followed: diagnostics.follow(),
            diagnostics,
            max_idle: config.max_idle(),
            clock_skew: config.clock_skew,
            report_sessions: config.sessions.enabled,
            sender: told,
        };
        let first = combined.now();
        combined.sender.send_modify(|known| *known = first);
        inputs.mark_unchanged();
        (combined, inputs)
    }

    fn now(&mut self) -> InputsOrReason {
        let keys = self.keys.borrow_and_update();
        let Some(wrapped) = &keys.config else {
            return Err(keys.missing.clone().unwrap_or_default());
        };
        let fences = self.fences.borrow_and_update();
        let Some(list) = fences.as_ref() else {
            return Err(unread::<FenceList>(&self.diagnostics, "fences"));
        };
        // Without it, sessions of rules that have changed would end.
        if self.memory.borrow_and_update().is_none() {
            return Err(unread::<Memory>(&self.diagnostics, "the memory"));
        }
        let authority = self
            .authority
            .as_mut()
            .map(|known| known.borrow_and_update().missing.clone());
        if let Some(missing) = authority.flatten() {
            return Err(missing);
        }
        Ok(Arc::new(FilterInputs {
            fences: list.config(),
            max_idle: self.max_idle,
            clock_skew: self.clock_skew,
            report_sessions: self.report_sessions,
            ..FilterInputs::with_keys(FilterKeys::Wrapped(wrapped.clone()))
        }))
    }
}

fn unread<K: ConfigMapContent>(diagnostics: &Diagnostics, what: &str) -> String {
    match diagnostics.of(K::WHAT).into_iter().next() {
        Some(diagnostic) => format!("the ConfigMap {}: {}", diagnostic.name, diagnostic.message),
        None => format!("the ConfigMap with {what} was not read yet"),
    }
}

impl Reconcile for CombinedInputs {
    const GATHER: Duration = Duration::ZERO;

    async fn changed(&mut self) -> Result<(), Closed> {
        tokio::select! {
            changed = self.keys.changed() => Ok(changed?),
            changed = self.fences.changed() => Ok(changed?),
            changed = self.memory.changed() => Ok(changed?),
            changed = changed_if_any(self.authority.as_mut()) => Ok(changed?),
            changed = self.followed.changed() => Ok(changed?),
            () = self.sender.closed() => Err(Closed),
        }
    }

    async fn reconcile(&mut self) -> Option<Duration> {
        self.followed.mark_unchanged();
        let now = self.now();
        self.sender.send_if_modified(|known| {
            let changed = *known != now;
            *known = now;
            changed
        });
        None
    }
}

/// Waits for ever without a receiver.
async fn changed_if_any<T>(receiver: Option<&mut watch::Receiver<T>>) -> Result<(), RecvError> {
    match receiver {
        Some(receiver) => receiver.changed().await,
        None => std::future::pending().await,
    }
}
