//! Strategic merge patches, as Kubernetes defines them: a list whose items have a key is merged item by item. Items are
//! looked up in maps, so the time grows with the size of both lists, and not with their product.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

/// What a patch says about itself, in an object or in an item of a list.
const DIRECTIVE: &str = "$patch";
/// Before the name of a list of plain values: those to remove.
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
/// `kubectl` adds it about orders; it means nothing here.
const ORDER: &str = "$setElementOrder/";
const RETAIN: &str = "$retainKeys";

/// Lists of plain values that are merged.
const SETS: [&str; 1] = ["finalizers"];

/// The field that tells the items of this list apart; `None`: the list is replaced as a whole.
#[must_use]
pub fn merge_key(list: &str, items: &[Value]) -> Option<&'static str> {
    Some(match list {
        "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "env" | "imagePullSecrets" => "name",
        "volumeMounts" => "mountPath",
        "volumeDevices" => "devicePath",
        "hostAliases" => "ip",
        "topologySpreadConstraints" => "topologyKey",
        // Of a container, or of a Service.
        "ports" if items.iter().any(|item| item.get("containerPort").is_some()) => "containerPort",
        "ports" => "port",
        _ => return None,
    })
}

pub(super) fn patch(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            *target = without_directives(patch);
            return;
        }
        Some("delete") => {
            target.clear();
            return;
        }
        _ => {}
    }
    if let Some(Value::Array(kept)) = patch.get(RETAIN) {
        let kept: HashSet<&str> = kept.iter().filter_map(Value::as_str).collect();
        target.retain(|name, _| kept.contains(name.as_str()));
    }
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix(DELETE_FROM_LIST) {
            delete_from(target, list, value);
        } else if !is_directive(name) {
            field(target, name, value);
        }
    }
}

fn is_directive(name: &str) -> bool {
    name == DIRECTIVE || name == RETAIN || name.starts_with(ORDER) || name.starts_with(DELETE_FROM_LIST)
}

fn field(target: &mut Map<String, Value>, name: &str, value: &Value) {
    match value {
        Value::Null => {
            target.remove(name);
        }
        Value::Object(value) => {
            if let Some(Value::Object(known)) = target.get_mut(name) {
                patch(known, value);
            } else if value.get(DIRECTIVE).and_then(Value::as_str) != Some("delete") {
                let mut made = Map::new();
                patch(&mut made, value);
                target.insert(name.to_owned(), Value::Object(made));
            }
        }
        Value::Array(items) => {
            let known = match target.remove(name) {
                Some(Value::Array(known)) => known,
                _ => Vec::new(),
            };
            target.insert(name.to_owned(), Value::Array(list(name, known, items)));
        }
        plain => {
            target.insert(name.to_owned(), plain.clone());
        }
    }
}

fn list(name: &str, known: Vec<Value>, items: &[Value]) -> Vec<Value> {
    let replaces = items.iter().any(|item| directive(item) == Some("replace"));
    if SETS.contains(&name) {
        let there: HashSet<&Value> = known.iter().collect();
        let new: Vec<Value> = items.iter().filter(|item| !there.contains(item)).cloned().collect();
        return known.into_iter().chain(new).collect();
    }
    let key = merge_key(name, if items.is_empty() { &known } else { items });
    let (Some(key), false) = (key, replaces) else {
        let real = items
            .iter()
            .filter(|item| directive(item) != Some("replace") || has_content(item));
        return real.map(without_directive).collect();
    };
    let mut all = KeyedList::new(key, known);
    for item in items {
        match (all.place(item), directive(item), item) {
            (Some(place), Some("delete"), _) => all.remove(place),
            (None, Some("delete"), _) => {}
            (Some(place), _, Value::Object(item)) => all.patch(place, item),
            (_, _, Value::Object(item)) => {
                let mut made = Map::new();
                patch(&mut made, item);
                all.push(Value::Object(made));
            }
            (_, _, plain) => all.push(plain.clone()),
        }
    }
    all.items.into_iter().flatten().collect()
}

struct KeyedList {
    key: &'static str,
    /// Removed items leave their places empty, so the others keep theirs.
    items: Vec<Option<Value>>,
    /// The first of several items with the same key counts.
    places: HashMap<Value, BTreeSet<usize>>,
}

impl KeyedList {
    fn new(key: &'static str, known: Vec<Value>) -> Self {
        let mut all = Self {
            key,
            items: Vec::with_capacity(known.len()),
            places: HashMap::with_capacity(known.len()),
        };
        for item in known {
            all.push(item);
        }
        all
    }

    fn place(&self, item: &Value) -> Option<usize> {
        self.places.get(item.get(self.key)?)?.first().copied()
    }

    fn push(&mut self, item: Value) {
        self.put(self.items.len(), item.get(self.key).cloned());
        self.items.push(Some(item));
    }

    fn put(&mut self, place: usize, id: Option<Value>) {
        if let Some(id) = id {
            self.places.entry(id).or_default().insert(place);
        }
    }

    fn take(&mut self, place: usize, id: Option<&Value>) {
        if let Some(places) = id.and_then(|id| self.places.get_mut(id)) {
            places.remove(&place);
        }
    }

    fn remove(&mut self, place: usize) {
        let item = self.items.get_mut(place).and_then(Option::take);
        self.take(place, item.as_ref().and_then(|item| item.get(self.key)));
    }

    fn patch(&mut self, place: usize, by: &Map<String, Value>) {
        let Some(Some(Value::Object(known))) = self.items.get_mut(place) else {
            return;
        };
        patch(known, by);
        // A key that is no plain value may also have been patched.
        let id = known.get(self.key).cloned();
        if id.as_ref() != by.get(self.key) {
            self.take(place, by.get(self.key));
            self.put(place, id);
        }
    }
}

fn directive(item: &Value) -> Option<&str> {
    item.get(DIRECTIVE).and_then(Value::as_str)
}

/// Whether an item says more than how the list is merged.
fn has_content(item: &Value) -> bool {
    item.as_object()
        .is_some_and(|item| item.keys().any(|name| !is_directive(name)))
}

fn without_directive(item: &Value) -> Value {
    match item {
        Value::Object(item) => Value::Object(without_directives(item)),
        plain => plain.clone(),
    }
}

fn without_directives(fields: &Map<String, Value>) -> Map<String, Value> {
    let fields = fields.iter().filter(|(name, _)| !is_directive(name));
    fields.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn delete_from(target: &mut Map<String, Value>, list: &str, gone: &Value) {
    let gone = gone.as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(Value::Array(known)) = target.get_mut(list) {
        let gone: HashSet<&Value> = gone.iter().collect();
        known.retain(|known| !gone.contains(known));
    }
}

#[cfg(test)]
mod tests;
