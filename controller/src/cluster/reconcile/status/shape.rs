#[cfg(test)]
mod tests;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::cluster::kube::{CONTOUR_FIELDS, EntryList, is_own_condition, is_own_entry, items};
use limpet_api::{Kind, ParentRef};
use limpet_model::SUPPORTED_FEATURES;
use limpet_model::reports::{Address, Condition, ConditionStatus, IngressRouteStatus, ListenerReport};

/// The longest message, in bytes; `metav1.Condition` allows 32,768 characters.
const MAX_MESSAGE: usize = 30_000;
/// The longest description of an `IngressRoute`, in bytes. It may name many objects.
const MAX_DESCRIPTION: usize = 4096;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DesiredStatus {
    /// Of a GatewayClass or a Gateway: one controller.
    Whole {
        generation: i64,
        conditions: Vec<Condition>,
        rest: StatusDetails,
    },
    /// Of objects with several controllers.
    Entries(Vec<StatusEntry>),
    /// Of an `IngressRoute`: one controller, no conditions.
    Contour {
        status: IngressRouteStatus,
        description: Arc<str>,
        /// Ignored parts of a valid object, for an Event.
        notes: Vec<String>,
    },
}

impl DesiredStatus {
    pub(crate) fn leaves_addresses(&self) -> bool {
        matches!(self, Self::Whole { rest: StatusDetails::Gateway(gateway), .. } if gateway.addresses.is_none())
    }
}

/// The rest of a status besides conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StatusDetails {
    /// The supported features.
    Class,
    Gateway(GatewayStatus),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GatewayStatus {
    /// `None`: the present ones stay, since another client wrote them.
    pub(crate) addresses: Option<Vec<Address>>,
    /// In the order of the listeners.
    pub(crate) listeners: Vec<ListenerReport>,
}

/// Our entry for a parent of a route, or an ancestor of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusEntry {
    pub(crate) reference: ParentRef,
    pub(crate) generation: i64,
    pub(crate) conditions: Vec<Condition>,
}

/// Entries and conditions of other controllers stay, unwanted ones of ours are removed, and a condition keeps its time
/// while its status is the same.
pub(crate) fn merge(kind: Kind, status: &Value, wanted: &DesiredStatus, controller: &str, now: &str) -> Value {
    let mut merged = status.as_object().cloned().unwrap_or_default();
    match (wanted, EntryList::of(kind)) {
        (DesiredStatus::Entries(entries), Some(list)) => {
            let merged_list = merge_entries(&list, status, entries, controller, now);
            merged.insert(list.name.to_owned(), merged_list.into());
        }
        (
            DesiredStatus::Whole {
                generation,
                conditions,
                rest,
            },
            _,
        ) => {
            let known: Vec<&Value> = items(status, "conditions").collect();
            let mut list: Vec<Value> = known
                .iter()
                .filter(|known| !is_own_condition(known))
                .map(|known| (*known).clone())
                .collect();
            list.extend(
                conditions
                    .iter()
                    .map(|wanted| condition(wanted, *generation, &known, now)),
            );
            merged.insert("conditions".to_owned(), list.into());
            match rest {
                StatusDetails::Gateway(gateway) => merge_gateway(&mut merged, status, gateway, *generation, now),
                StatusDetails::Class => {
                    let features = SUPPORTED_FEATURES.iter().map(|name| json!({"name": name}));
                    merged.insert("supportedFeatures".to_owned(), features.collect());
                }
            }
        }
        (
            DesiredStatus::Contour {
                status, description, ..
            },
            _,
        ) => {
            let values = [status.as_str(), shortened(description, MAX_DESCRIPTION)];
            merged.extend(
                CONTOUR_FIELDS
                    .map(str::to_owned)
                    .into_iter()
                    .zip(values.map(Value::from)),
            );
        }
        (DesiredStatus::Entries(_), None) => {}
    }
    Value::Object(merged)
}

fn merge_entries(
    names: &EntryList,
    status: &Value,
    entries: &[StatusEntry],
    controller: &str,
    now: &str,
) -> Vec<Value> {
    let same = |entry: &StatusEntry, known: &Value| known[names.reference] == json!(entry.reference);
    let write = |entry: &StatusEntry, known: Option<&Value>| {
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
    for known in items(status, names.name) {
        if !is_own_entry(known, controller) {
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
    let room = names.max_entries.saturating_sub(list.len());
    list.extend(missing.take(room).map(|(entry, _)| write(entry, None)));
    list
}

fn merge_gateway(merged: &mut Map<String, Value>, status: &Value, gateway: &GatewayStatus, generation: i64, now: &str) {
    if let Some(addresses) = &gateway.addresses {
        merged.insert("addresses".to_owned(), json!(addresses));
        if addresses.is_empty() {
            merged.remove("addresses");
        }
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

/// The text, cut to at most `most` bytes.
pub(crate) fn shortened(text: &str, most: usize) -> &str {
    if text.len() <= most {
        return text;
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end));
    end.and_then(|end| text.get(..end)).unwrap_or_default()
}
