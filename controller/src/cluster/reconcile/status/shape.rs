#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use limpet_api::{Kind, ParentRef};
use limpet_model::reports::{Condition, ConditionStatus, ListenerReport};

/// A message's longest text (`metav1.Condition`), with room for what it takes in another encoding.
const MAX_MESSAGE: usize = 30_000;
/// The conditions of classes and Gateways that are ours; others may be somebody else's.
const OWN_CONDITIONS: [&str; 3] = ["Accepted", "Programmed", "SupportedVersion"];

/// What a part of a status is known by: equal but for times and order, equal digests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest([u8; 16]);

impl Digest {
    /// Of these bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let mut digest = [0; 16];
        digest
            .iter_mut()
            .zip(Sha256::digest(bytes))
            .for_each(|(to, from)| *to = from);
        Self(digest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A status as it is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Of a class or a Gateway, which have one controller.
    Whole {
        /// The generation that was read.
        generation: i64,
        /// Our conditions.
        conditions: Vec<Condition>,
        /// Of a Gateway.
        gateway: Option<GatewayStatus>,
    },
    /// Of objects that several controllers report on, each in entries of its own.
    Entries(Vec<Entry>),
}

/// What the status of a Gateway has besides conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GatewayStatus {
    /// Where it can be reached, by type and value.
    pub(crate) addresses: Vec<(&'static str, String)>,
    /// Of its listeners, in their order.
    pub(crate) listeners: Vec<ListenerReport>,
}

/// Of a route for a parent, or of a policy for an ancestor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The parent, or the ancestor.
    pub(crate) reference: ParentRef,
    /// The generation that was read.
    pub(crate) generation: i64,
    /// Our conditions.
    pub(crate) conditions: Vec<Condition>,
}

/// How entries are called, and how many there may be.
struct Names {
    list: &'static str,
    reference: &'static str,
    most: usize,
}

/// `None`: objects of the kind have no entries.
fn names(kind: Kind) -> Option<Names> {
    let names = |list, reference, most| Names { list, reference, most };
    match kind {
        Kind::HttpRoute | Kind::GrpcRoute => Some(names("parents", "parentRef", 32)),
        Kind::BackendLbPolicy | Kind::XBackendTrafficPolicy => Some(names("ancestors", "ancestorRef", 16)),
        Kind::XBackend => Some(names("ancestors", "ancestorRef", 32)),
        Kind::GatewayClass
        | Kind::Gateway
        | Kind::EndpointSlice
        | Kind::Namespace
        | Kind::ReferenceGrant
        | Kind::Service => None,
    }
}

/// What of a status is ours; `None` where objects of the kind get none from us.
pub(crate) fn digest(kind: Kind, status: &Value, controller: &str) -> Option<Digest> {
    let ours: Vec<&Value> = match (kind, names(kind)) {
        (_, Some(names)) => items(status, names.list)
            .filter(|entry| is_ours(entry, controller))
            .collect(),
        (Kind::GatewayClass | Kind::Gateway, None) => {
            let own = |condition: &&Value| OWN_CONDITIONS.iter().any(|own| condition["type"] == *own);
            let conditions = items(status, "conditions").filter(own);
            let rest = ["addresses", "listeners"]
                .into_iter()
                .filter_map(|name| status.get(name));
            conditions.chain(rest).collect()
        }
        _ => return None,
    };
    Some(of_parts(ours.into_iter()))
}

/// That nothing of a status is ours.
pub(super) fn nothing() -> Digest {
    of_parts(std::iter::empty())
}

fn of_parts<'a>(parts: impl Iterator<Item = &'a Value>) -> Digest {
    // What has no order of its own counts in any: other controllers' entries stand between ours.
    let mut parts: Vec<[u8; 16]> = parts.map(|part| Digest::of(&canonical(part)).0).collect();
    parts.sort_unstable();
    Digest::of(&parts.concat())
}

/// The value without times, its names sorted.
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
                // As pairs, for the order in a map is that of serde_json's features.
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

/// Puts what is wanted into a status. Other controllers' entries and conditions stay as they are, ours that are not wanted go, and a condition keeps
/// its time while its status is the same.
pub(crate) fn merge(kind: Kind, status: &Value, wanted: &Wanted, controller: &str, now: &str) -> Value {
    let mut merged = status.as_object().cloned().unwrap_or_default();
    match (wanted, names(kind)) {
        (Wanted::Entries(entries), Some(names)) => {
            let list = merge_entries(&names, status, entries, controller, now);
            merged.insert(names.list.to_owned(), list.into());
        }
        (
            Wanted::Whole {
                generation,
                conditions,
                gateway,
            },
            _,
        ) => {
            let known: Vec<&Value> = items(status, "conditions").collect();
            let own = |condition: &Value| OWN_CONDITIONS.iter().any(|own| condition["type"] == *own);
            let mut list: Vec<Value> = known
                .iter()
                .filter(|known| !own(known))
                .map(|known| (*known).clone())
                .collect();
            list.extend(
                conditions
                    .iter()
                    .map(|wanted| condition(wanted, *generation, &known, now)),
            );
            merged.insert("conditions".to_owned(), list.into());
            if let Some(gateway) = gateway {
                merge_gateway(&mut merged, status, gateway, *generation, now);
            }
        }
        (Wanted::Entries(_), None) => {}
    }
    Value::Object(merged)
}

fn merge_entries(names: &Names, status: &Value, entries: &[Entry], controller: &str, now: &str) -> Vec<Value> {
    let same = |entry: &Entry, known: &Value| known[names.reference] == json!(entry.reference);
    let write = |entry: &Entry, known: Option<&Value>| {
        let known: Vec<&Value> = known.into_iter().flat_map(|known| items(known, "conditions")).collect();
        let conditions = entry.conditions.iter();
        json!({
            names.reference: entry.reference,
            "controllerName": controller,
            "conditions": conditions.map(|wanted| condition(wanted, entry.generation, &known, now)).collect::<Vec<_>>(),
        })
    };
    let mut written = vec![false; entries.len()];
    let mut list = Vec::new();
    for known in items(status, names.list) {
        if !is_ours(known, controller) {
            list.push(known.clone());
            continue;
        }
        for (entry, written) in entries.iter().zip(&mut written) {
            if !*written && same(entry, known) {
                *written = true;
                list.push(write(entry, Some(known)));
                break;
            }
        }
    }
    let missing = entries.iter().zip(written).filter(|(_, written)| !written);
    let room = names.most.saturating_sub(list.len());
    list.extend(missing.take(room).map(|(entry, _)| write(entry, None)));
    list
}

fn merge_gateway(merged: &mut Map<String, Value>, status: &Value, gateway: &GatewayStatus, generation: i64, now: &str) {
    if gateway.addresses.is_empty() {
        merged.remove("addresses");
    } else {
        let address = |(kind, value): &(&str, String)| json!({"type": kind, "value": value});
        merged.insert("addresses".to_owned(), gateway.addresses.iter().map(address).collect());
    }
    let listener = |report: &ListenerReport| {
        let known = items(status, "listeners").find(|known| known["name"] == *report.name);
        let known: Vec<&Value> = known.into_iter().flat_map(|known| items(known, "conditions")).collect();
        let conditions = report.conditions.iter();
        json!({
            "name": report.name,
            "supportedKinds": report.supported_kinds,
            "attachedRoutes": report.attached_routes,
            "conditions": conditions.map(|wanted| condition(wanted, generation, &known, now)).collect::<Vec<_>>(),
        })
    };
    merged.insert("listeners".to_owned(), gateway.listeners.iter().map(listener).collect());
}

fn condition(wanted: &Condition, generation: i64, known: &[&Value], now: &str) -> Value {
    let status = match wanted.status {
        ConditionStatus::True => "True",
        ConditionStatus::False => "False",
        ConditionStatus::Unknown => "Unknown",
    };
    let before = known
        .iter()
        .find(|known| known["type"] == wanted.kind && known["status"] == status);
    let time = before
        .and_then(|before| before["lastTransitionTime"].as_str())
        .unwrap_or(now);
    json!({
        "type": wanted.kind,
        "status": status,
        "reason": wanted.reason,
        "message": shortened(&wanted.message, MAX_MESSAGE),
        "observedGeneration": generation,
        "lastTransitionTime": time,
    })
}

/// The text, or the beginning of it that has at most so many bytes.
pub(super) fn shortened(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}

fn is_ours(entry: &Value, controller: &str) -> bool {
    entry["controllerName"] == controller
}

fn items<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}
