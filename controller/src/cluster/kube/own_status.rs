//! Our part of an object's status, and the digest by which it is compared.

use std::fmt;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use limpet_api::Kind;

/// Our conditions of GatewayClasses and Gateways. Others may belong to other controllers.
const OWN_CONDITIONS: [&str; 3] = ["Accepted", "Programmed", "SupportedVersion"];

/// Our fields in the status of an `IngressRoute`.
pub(crate) const CONTOUR_FIELDS: [&str; 2] = ["currentStatus", "description"];

/// Equal for parts of statuses that differ only in times and order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct StatusDigest([u8; 16]);

impl StatusDigest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut digest = [0; 16];
        digest
            .iter_mut()
            .zip(Sha256::digest(bytes))
            .for_each(|(to, from)| *to = from);
        Self(digest)
    }

    /// The digest if nothing is ours.
    pub(crate) fn of_nothing() -> Self {
        of_parts(std::iter::empty())
    }
}

impl fmt::Display for StatusDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for StatusDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The list in a status in which each controller has its own entries.
pub(crate) struct EntryList {
    pub(crate) name: &'static str,
    /// The field that names the parent or ancestor.
    pub(crate) reference: &'static str,
    /// As many as the definition allows.
    pub(crate) max_entries: usize,
}

impl EntryList {
    /// `None`: no such list.
    pub(crate) fn of(kind: Kind) -> Option<Self> {
        let list = |name, reference, max_entries| EntryList {
            name,
            reference,
            max_entries,
        };
        match kind {
            Kind::HttpRoute | Kind::GrpcRoute => Some(list("parents", "parentRef", 32)),
            Kind::BackendLbPolicy | Kind::BackendTlsPolicy | Kind::XBackendTrafficPolicy => {
                Some(list("ancestors", "ancestorRef", 16))
            }
            Kind::XBackend => Some(list("ancestors", "ancestorRef", 32)),
            Kind::GatewayClass
            | Kind::Gateway
            | Kind::EndpointSlice
            | Kind::EnvoyDeployment
            | Kind::IngressRoute
            | Kind::Namespace
            | Kind::ReferenceGrant
            | Kind::Service
            | Kind::TlsCertificateDelegation => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ObservedStatus {
    /// Whether none was written yet.
    pub(crate) is_absent: bool,
    pub(crate) ours: StatusDigest,
    /// Without the addresses of a Gateway, which may be another writer's.
    pub(crate) without_addresses: StatusDigest,
}

impl ObservedStatus {
    /// `None` for kinds whose status we never write.
    pub(crate) fn new(kind: Kind, status: &Value, controller: &str) -> Option<Self> {
        let ours = status_digest(kind, status, controller)?;
        let without_addresses = match status {
            Value::Object(fields) if fields.contains_key("addresses") => {
                let mut without = fields.clone();
                without.remove("addresses");
                status_digest(kind, &Value::Object(without), controller)?
            }
            _ => ours,
        };
        Some(Self {
            is_absent: status.is_null(),
            ours,
            without_addresses,
        })
    }
}

/// The digest of our part; `None` for kinds whose status we never write.
pub(crate) fn status_digest(kind: Kind, status: &Value, controller: &str) -> Option<StatusDigest> {
    let ours: Vec<&Value> = match (kind, EntryList::of(kind)) {
        (_, Some(list)) => items(status, list.name)
            .filter(|entry| is_own_entry(entry, controller))
            .collect(),
        (Kind::GatewayClass | Kind::Gateway, None) => {
            let own = |condition: &&Value| is_own_condition(condition);
            let conditions = items(status, "conditions").filter(own);
            let rest = ["addresses", "listeners", "supportedFeatures"]
                .into_iter()
                .filter_map(|name| status.get(name));
            conditions.chain(rest).collect()
        }
        (Kind::IngressRoute, None) => {
            let ours = CONTOUR_FIELDS.map(|name| status.get(name).cloned());
            return Some(of_parts([&json!(ours)].into_iter()));
        }
        _ => return None,
    };
    Some(of_parts(ours.into_iter()))
}

pub(crate) fn is_own_entry(entry: &Value, controller: &str) -> bool {
    entry["controllerName"] == controller
}

pub(crate) fn is_own_condition(condition: &Value) -> bool {
    OWN_CONDITIONS.iter().any(|own| condition["type"] == *own)
}

/// The items of a list; none without a list.
pub(crate) fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

fn of_parts<'a>(parts: impl Iterator<Item = &'a Value>) -> StatusDigest {
    // In any order: other controllers' entries stand between ours.
    let mut parts: Vec<[u8; 16]> = parts.map(|part| StatusDigest::of(&canonical(part)).0).collect();
    parts.sort_unstable();
    StatusDigest::of(&parts.concat())
}

/// The value without times, with sorted names.
fn canonical(value: &Value) -> Vec<u8> {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Array(items) => items.iter().map(sorted).collect(),
            Value::Object(fields) => {
                let mut names: Vec<_> = fields
                    .iter()
                    .filter(|(name, _)| *name != "lastTransitionTime")
                    .collect();
                names.sort_unstable_by_key(|(name, _)| *name);
                // Pairs, because the order in a map depends on serde_json's features.
                names
                    .into_iter()
                    .map(|(name, value)| json!([name, sorted(value)]))
                    .collect()
            }
            other => other.clone(),
        }
    }
    sorted(value).to_string().into_bytes()
}
