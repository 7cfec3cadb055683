//! The fences in the event loop: which endpoints Envoys are told of.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::reconcile::delivery::{Delivery, PublishedFilter};
use crate::cluster::reconcile::fences::{self, Fences, List};
use crate::time_format;
use limpet_api::ObjectName;
use limpet_model::endpoints::Endpoint;

/// How often is looked whether Envoys have the fence of an address that is held back.
const LOOK: Duration = Duration::from_millis(100);
/// How often is looked what is over.
const CLEAN: Duration = Duration::from_secs(60);

/// Stands between `EndpointSlices` and Envoys.
#[derive(Debug)]
pub(crate) struct Guard {
    fences: Fences,
    kept: watch::Receiver<Option<List>>,
    wanted: watch::Sender<Option<List>>,
    delivery: Delivery,
    look: Instant,
    /// Whether an address was held back since that was asked.
    held: bool,
}

/// Figures for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Fences that are kept.
    pub(crate) fences: usize,
    /// Addresses that are held back.
    pub(crate) held_back: usize,
    /// Addresses that were given before every Envoy had their fence.
    pub(crate) unacknowledged: u64,
}

impl Guard {
    /// `kept` are the fences as they are kept, `wanted` takes them as they are to be kept.
    pub(crate) fn new(
        kept: watch::Receiver<Option<List>>,
        wanted: watch::Sender<Option<List>>,
        delivery: Delivery,
    ) -> Self {
        Self {
            fences: Fences::default(),
            kept,
            wanted,
            delivery,
            look: Instant::now(),
            held: false,
        }
    }

    /// Takes in the fences as they are kept. To be called before endpoints are asked for the first time.
    pub(crate) fn refresh(&mut self) {
        if self.kept.has_changed().unwrap_or_default() {
            let kept = self.kept.borrow_and_update().clone();
            self.fences.set_list(kept.unwrap_or_default(), time_format::now());
        }
    }

    /// What Envoys are told of the endpoints of a Service's port.
    pub(crate) fn endpoints(&mut self, service: &ObjectName, port: &str, mut all: Vec<Endpoint>) -> Vec<Endpoint> {
        if self.fences.observe(service, port, &all, time_format::now()) {
            self.held = true;
            self.look = Instant::now();
        }
        all.retain(|endpoint| !self.fences.holds(endpoint.address));
        all
    }

    /// The Services and ports that Envoys are told of from now on.
    pub(crate) fn watch(&mut self, watched: impl Fn(&ObjectName, &str) -> bool) {
        self.fences.watch(watched, time_format::now());
    }

    /// The Services with addresses that are held back, if there are new ones since that was asked last: another Service may show them, too.
    pub(crate) fn newly_held(&mut self) -> BTreeSet<ObjectName> {
        if !std::mem::take(&mut self.held) {
            return BTreeSet::new();
        }
        let addresses = self.fences.held_back();
        addresses
            .flat_map(|address| self.fences.services(address).cloned())
            .collect()
    }

    /// When to look again.
    pub(crate) fn due(&self) -> Instant {
        self.look
    }

    /// Looks what Envoys have, and what is to be kept. The answer is the Services whose endpoints are to be published.
    pub(crate) fn look(&mut self, published_filter: Option<&PublishedFilter>) -> BTreeSet<ObjectName> {
        self.refresh();
        let now = time_format::now();
        let of = published_filter.map(|published_filter| fences::PublishedFences {
            fences: &published_filter.inputs.fences,
            everywhere: self.delivery.has(published_filter),
        });
        let services = self.fences.release(of, now);
        if let Some(published_filter) = published_filter {
            self.fences.forget(published_filter.life, now);
            let wanted = self.fences.wanted(published_filter.life, now);
            let excess = wanted.as_ref().map_or(0, |(_, excess)| *excess);
            let wanted = wanted.map(|(list, _)| list);
            self.wanted.send_if_modified(|known| {
                let changed = *known != wanted;
                if changed && excess > 0 {
                    tracing::warn!(
                        excess,
                        "there are too many fences: the oldest go, and sessions of their addresses may reach new owners"
                    );
                }
                *known = wanted;
                changed
            });
        }
        let idle = self.fences.held_back().next().is_none() && self.wanted.borrow().is_none();
        self.look = Instant::now() + if idle { CLEAN } else { LOOK };
        services
    }

    pub(crate) fn figures(&self) -> Figures {
        Figures {
            fences: self.fences.list().len(),
            held_back: self.fences.held_back().count(),
            unacknowledged: self.fences.unacknowledged(),
        }
    }
}
