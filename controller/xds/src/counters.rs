//! Counters of responses and their answers.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use limpet_resources::{PerType, ResourceType};

#[derive(Debug, Default)]
pub(super) struct XdsCounters {
    types: PerType<TypeCounters>,
    refused_units: AtomicU64,
    preflights: AtomicU64,
    preflight_micros: AtomicU64,
    turned_away: [AtomicU64; RejectionReason::ALL.len()],
}

/// Why a client was turned away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionReason {
    /// Its handshake failed, took too long, or gave way to newer ones.
    Handshake,
    /// Too many connections were open.
    Connections,
    /// Too many streams of the node were open.
    Streams,
    /// It asked for too much, or in a form that no node has.
    Request,
    /// It may not have what it asked for.
    Permission,
}

impl RejectionReason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::Handshake,
        Self::Connections,
        Self::Streams,
        Self::Request,
        Self::Permission,
    ];

    /// The reason in one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Handshake => "handshake",
            Self::Connections => "connections",
            Self::Streams => "streams",
            Self::Request => "request",
            Self::Permission => "permission",
        }
    }
}

#[derive(Debug, Default)]
struct TypeCounters {
    sent: AtomicU64,
    acknowledged: AtomicU64,
    refused: AtomicU64,
}

impl XdsCounters {
    pub(super) fn sent(&self, resource_type: ResourceType, resources: usize) {
        let resources = u64::try_from(resources).unwrap_or(u64::MAX);
        self.types[resource_type].sent.fetch_add(resources, Ordering::Relaxed);
    }

    pub(super) fn acknowledged(&self, resource_type: ResourceType) {
        self.types[resource_type].acknowledged.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self, resource_type: ResourceType) {
        self.types[resource_type].refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn turned_away(&self, why: RejectionReason) {
        if let Some(counter) = self.turned_away.get(why as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn times_turned_away(&self) -> [(RejectionReason, u64); RejectionReason::ALL.len()] {
        RejectionReason::ALL.map(|why| {
            let counter = self.turned_away.get(why as usize);
            (why, counter.map_or(0, |counter| counter.load(Ordering::Relaxed)))
        })
    }

    pub(super) fn counts(&self) -> XdsCounts {
        let of_type = |each| {
            let counters: &TypeCounters = &self.types[each];
            TypeCounts {
                resource_type: each,
                sent: counters.sent.load(Ordering::Relaxed),
                acknowledged: counters.acknowledged.load(Ordering::Relaxed),
                refused: counters.refused.load(Ordering::Relaxed),
            }
        };
        XdsCounts(ResourceType::ALL.map(of_type))
    }

    pub(super) fn unit_refused(&self) {
        self.refused_units.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn preflight_ended(&self, took: Duration) {
        let micros = took.as_micros().try_into().unwrap_or(u64::MAX);
        self.preflights.fetch_add(1, Ordering::Relaxed);
        self.preflight_micros.fetch_add(micros, Ordering::Relaxed);
    }

    pub(super) fn preflights(&self) -> PreflightCounts {
        PreflightCounts {
            ended: self.preflights.load(Ordering::Relaxed),
            took: Duration::from_micros(self.preflight_micros.load(Ordering::Relaxed)),
            refused_units: self.refused_units.load(Ordering::Relaxed),
        }
    }
}

/// Counters since the start, by resource type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdsCounts(pub [TypeCounts; ResourceType::ALL.len()]);

/// Counters of the preflight since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PreflightCounts {
    /// How often a node has answered to all units that were new to it.
    pub ended: u64,
    /// How long that took in all.
    pub took: Duration,
    /// Units that a node refused.
    pub refused_units: u64,
}

/// Counters of one resource type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeCounts {
    /// The resource type.
    pub resource_type: ResourceType,
    /// Resources sent, each time that they were sent.
    pub sent: u64,
    /// Responses that nodes acknowledged.
    pub acknowledged: u64,
    /// Responses that nodes refused.
    pub refused: u64,
}

impl XdsCounts {
    /// The counters of one type.
    #[must_use]
    pub fn of_type(&self, resource_type: ResourceType) -> Option<TypeCounts> {
        self.0.into_iter().find(|counts| counts.resource_type == resource_type)
    }
}
