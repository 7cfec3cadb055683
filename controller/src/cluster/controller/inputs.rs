//! What comes into the filter's configuration from elsewhere: the keyring and the fences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Api, Client};
use limpet_core::time::GatewayDuration;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Failure;
use crate::cluster::reconcile::delivery::{Carried, Delivery};
use crate::cluster::reconcile::diagnostics::{Trouble, Troubles};
use crate::cluster::reconcile::fences::{self, List};
use crate::cluster::reconcile::keyring::{self, Keys};
use crate::cluster::reconcile::replicas::{Exchange, Place, Replicas};
use crate::cluster::reconcile::status::{KeptTeller, Teller};
use limpet_outputs::{FilterInputs, FilterKeys};

use super::guard::Guard;
use crate::cluster::config::Config;

/// Where all of it comes from.
#[derive(Debug)]
pub(crate) struct Filter {
    pub(crate) keys: watch::Receiver<Keys>,
    pub(crate) inputs: watch::Receiver<Known>,
    pub(crate) guard: Guard,
    /// What other replicas are told of this one's Envoys, and what they tell of theirs.
    pub(crate) replicas: Replicas,
    /// What is done as long as it is there.
    pub(crate) tasks: JoinSet<()>,
}

/// Begins to read and keep the keyring and the fences. `carried` tells what is published of them, `delivery` whether proxies have it; `replica` is
/// this one's name, `teller` tells what a person must see to.
///
/// # Errors
/// The keyring is to come from a file, and that can not be read.
pub(crate) fn start(
    client: &Client,
    config: &Config,
    delivery: &Delivery,
    leads: &watch::Receiver<bool>,
    carried: watch::Receiver<Option<Carried>>,
    replica: String,
    teller: Teller,
) -> Result<Filter, Failure> {
    let mut tasks = JoinSet::new();
    let troubles = Troubles::new();
    let namespace = config.leader_election.namespace(client);
    let place = Place {
        namespace: namespace.to_owned(),
        lease: format!("{}-replicas", config.leader_election.name),
        replica,
    };
    let (exchange, replicas) = Exchange::new(client, &place, config.keyring.phase_time.get(), leads.clone());
    let keys = if let Some(file) = &config.keyring.file {
        let (key, env) = (&config.keyring.key_encryption_key, &config.envoy.key_encryption_key_env);
        let read = keyring::file::read(file, key, env);
        let read = read.map_err(|error| Failure(format!("keyring: {error}")))?;
        let (sender, keys) = watch::channel(read);
        tasks.spawn(keyring::file::follow(file.clone(), key.clone(), env.clone(), sender));
        keys
    } else {
        let (keeper, keys) = keyring::Keeper::new(
            Api::namespaced(client.clone(), namespace),
            &config.keyring,
            carried,
            delivery.clone(),
            leads.clone(),
            replicas.clone(),
            troubles.clone(),
        );
        tasks.spawn(keeper.run());
        keys
    };
    // Who serves no Envoy and keeps no keyring has nothing to say.
    if matches!(delivery, Delivery::Xds(_)) || config.keyring.file.is_none() {
        tasks.spawn(exchange.run());
    }
    let (wanting, wanted) = watch::channel(None);
    let (keeper, fences) = fences::Keeper::new(
        client,
        namespace,
        &config.fences,
        wanted,
        leads.clone(),
        troubles.clone(),
    );
    tasks.spawn(keeper.run());
    let kept = KeptTeller::new(teller, namespace.to_owned(), &troubles, leads.clone());
    tasks.spawn(kept.run());
    let mut together = Together {
        keys: keys.clone(),
        fences: fences.clone(),
        troubles: troubles.clone(),
        followed: troubles.follow(),
        max_idle: config.max_idle,
        clock_skew: config.clock_skew,
    };
    let (sender, inputs) = watch::channel(together.now());
    tasks.spawn(together.run(sender));
    Ok(Filter {
        keys,
        inputs,
        guard: Guard::new(fences, wanting, delivery.clone()),
        replicas,
        tasks,
    })
}

/// Puts them together.
#[derive(Debug)]
struct Together {
    keys: watch::Receiver<Keys>,
    fences: watch::Receiver<Option<List>>,
    troubles: Troubles,
    followed: watch::Receiver<BTreeMap<&'static str, BTreeSet<Trouble>>>,
    max_idle: Option<GatewayDuration>,
    clock_skew: Option<GatewayDuration>,
}

/// The inputs, or what is missing.
pub(crate) type Known = Result<Arc<FilterInputs>, String>;

impl Together {
    /// As they are now.
    fn now(&mut self) -> Known {
        let keys = self.keys.borrow_and_update();
        let Some(wrapped) = &keys.config else {
            return Err(keys.missing.clone().unwrap_or_default());
        };
        let fences = self.fences.borrow_and_update();
        let Some(list) = fences.as_ref() else {
            let why = self.troubles.of(fences::CONFIG_MAP).into_iter().next();
            return Err(match why {
                Some(trouble) => format!("the ConfigMap {}: {}", trouble.name, trouble.message),
                None => "the ConfigMap with fences was not read yet".to_owned(),
            });
        };
        Ok(Arc::new(FilterInputs {
            fences: list.config(),
            max_idle: self.max_idle,
            clock_skew: self.clock_skew,
            ..FilterInputs::with_keys(FilterKeys::Wrapped(wrapped.clone()))
        }))
    }

    /// Tells each change, until nobody listens.
    async fn run(mut self, inputs: watch::Sender<Known>) {
        loop {
            let now = self.now();
            inputs.send_if_modified(|known| {
                let changed = *known != now;
                *known = now;
                changed
            });
            let changed = tokio::select! {
                changed = self.keys.changed() => changed,
                changed = self.fences.changed() => changed,
                changed = self.followed.changed() => changed,
                () = inputs.closed() => return,
            };
            if changed.is_err() {
                return;
            }
        }
    }
}
