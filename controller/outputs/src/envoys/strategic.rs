//! Strategic merge patches, as Kubernetes defines them: a list whose items have a key is merged item by item.

use serde_json::{Map, Value};

/// What a patch says about itself, in an object or in an item of a list.
const DIRECTIVE: &str = "$patch";
/// Before the name of a list of plain values: those to remove.
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
/// What `kubectl` adds about orders; it means nothing here.
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

/// Applies a patch.
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
        target.retain(|name, _| kept.iter().any(|kept| kept == name));
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
        let mut all = known;
        let new: Vec<Value> = items.iter().filter(|item| !all.contains(item)).cloned().collect();
        all.extend(new);
        return all;
    }
    let key = merge_key(name, if items.is_empty() { &known } else { items });
    let (Some(key), false) = (key, replaces) else {
        let real = items
            .iter()
            .filter(|item| directive(item) != Some("replace") || has_content(item));
        return real.map(without_directive).collect();
    };
    let mut all = known;
    for item in items {
        let id = item.get(key);
        let place = all.iter().position(|known| id.is_some() && known.get(key) == id);
        match (place, directive(item), item) {
            (Some(place), Some("delete"), _) => {
                all.remove(place);
            }
            (None, Some("delete"), _) => {}
            (Some(place), _, Value::Object(item)) => {
                if let Some(Value::Object(known)) = all.get_mut(place) {
                    patch(known, item);
                }
            }
            (_, _, Value::Object(item)) => {
                let mut made = Map::new();
                patch(&mut made, item);
                all.push(Value::Object(made));
            }
            (_, _, plain) => all.push(plain.clone()),
        }
    }
    all
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
        known.retain(|known| !gone.contains(known));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn is(target: Value, by: &Value, expected: &Value) {
        let (Value::Object(mut target), Value::Object(by)) = (target, by) else {
            panic!("objects");
        };
        patch(&mut target, by);
        assert_eq!(&Value::Object(target), expected);
    }

    #[test]
    fn objects_are_merged_and_null_removes_a_field() {
        let target = json!({"a": {"b": 1, "c": 2}, "d": 3});
        let by = json!({"a": {"b": null, "e": 4}, "d": 5, "f": {"g": {"h": 6}}});
        is(
            target,
            &by,
            &json!({"a": {"c": 2, "e": 4}, "d": 5, "f": {"g": {"h": 6}}}),
        );
    }

    #[test]
    fn lists_with_a_key_are_merged_item_by_item() {
        let lists = [
            ("containers", "name", json!("envoy"), json!("other")),
            ("initContainers", "name", json!("limpet"), json!("other")),
            ("volumes", "name", json!("limpet"), json!("other")),
            ("env", "name", json!("A"), json!("B")),
            ("imagePullSecrets", "name", json!("a"), json!("b")),
            ("volumeMounts", "mountPath", json!("/a"), json!("/b")),
            ("volumeDevices", "devicePath", json!("/a"), json!("/b")),
            ("ports", "containerPort", json!(80), json!(81)),
            ("ports", "port", json!(80), json!(81)),
            ("hostAliases", "ip", json!("1.1.1.1"), json!("1.1.1.2")),
            ("topologySpreadConstraints", "topologyKey", json!("zone"), json!("node")),
        ];
        for (list, key, known, new) in lists {
            is(
                json!({list: [{key: known, "x": 1, "y": 1}]}),
                &json!({list: [{key: new, "x": 3}, {key: known, "x": 2}]}),
                &json!({list: [{key: known, "x": 2, "y": 1}, {key: new, "x": 3}]}),
            );
            is(
                json!({list: [{key: known}, {key: new}]}),
                &json!({list: [{key: known, "$patch": "delete"}]}),
                &json!({list: [{key: new}]}),
            );
        }
    }

    #[test]
    fn other_lists_are_replaced() {
        for list in ["args", "command", "tolerations", "envFrom", "drop"] {
            is(json!({list: ["a", "b"]}), &json!({list: ["c"]}), &json!({list: ["c"]}));
        }
    }

    #[test]
    fn directives_replace_and_delete() {
        is(
            json!({"a": {"b": 1}}),
            &json!({"a": {"$patch": "replace", "c": 2}}),
            &json!({"a": {"c": 2}}),
        );
        is(
            json!({"a": {"b": 1}}),
            &json!({"a": {"$patch": "delete"}}),
            &json!({"a": {}}),
        );
        is(
            json!({"containers": [{"name": "a"}]}),
            &json!({"containers": [{"$patch": "replace"}, {"name": "b"}]}),
            &json!({"containers": [{"name": "b"}]}),
        );
        is(
            json!({"finalizers": ["a", "b"]}),
            &json!({"finalizers": ["c", "a"], "$deleteFromPrimitiveList/finalizers": ["b"]}),
            &json!({"finalizers": ["a", "c"]}),
        );
        is(
            json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}),
            &json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
            &json!({"strategy": {"type": "Recreate"}}),
        );
        is(
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
            &json!({"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "b", "x": 1}]}),
            &json!({"containers": [{"name": "a"}, {"name": "b", "x": 1}]}),
        );
    }
}
