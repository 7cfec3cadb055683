//! Counters of responses and their answers.

use std::sync::atomic::{AtomicU64, Ordering};

use limpet_resources::{PerType, ResourceType};

#[derive(Debug, Default)]
pub(super) struct Counters(PerType<TypeCounters>);

#[derive(Debug, Default)]
struct TypeCounters {
    sent: AtomicU64,
    acknowledged: AtomicU64,
    refused: AtomicU64,
}

impl Counters {
    pub(super) fn sent(&self, resource_type: ResourceType, resources: usize) {
        let resources = u64::try_from(resources).unwrap_or(u64::MAX);
        self.0[resource_type].sent.fetch_add(resources, Ordering::Relaxed);
    }

    pub(super) fn acknowledged(&self, resource_type: ResourceType) {
        self.0[resource_type].acknowledged.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self, resource_type: ResourceType) {
        self.0[resource_type].refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> Counts {
        let of_type = |each| {
            let counters: &TypeCounters = &self.0[each];
            TypeCounts {
                resource_type: each,
                sent: counters.sent.load(Ordering::Relaxed),
                acknowledged: counters.acknowledged.load(Ordering::Relaxed),
                refused: counters.refused.load(Ordering::Relaxed),
            }
        };
        Counts(ResourceType::ALL.map(of_type))
    }
}

/// Counters since the start, by resource type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts(pub [TypeCounts; 6]);

/// Counters of one resource type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeCounts {
    /// The resource type.
    pub resource_type: ResourceType,
    /// Resources sent. A resource that was sent twice counts twice.
    pub sent: u64,
    /// Responses that nodes acknowledged.
    pub acknowledged: u64,
    /// Responses that nodes refused.
    pub refused: u64,
}

impl Counts {
    /// The counters of one type.
    #[must_use]
    pub fn of_type(&self, resource_type: ResourceType) -> Option<TypeCounts> {
        self.0.into_iter().find(|counts| counts.resource_type == resource_type)
    }
}
