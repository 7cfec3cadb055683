//! Edits of JSON values.

use serde_json::{Map, Value, json};

/// JSON Merge Patch (RFC 7396).
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().and_then(|object| object.remove(name));
        } else {
            merge(&mut target[name], value);
        }
    }
}

pub(crate) fn each_wasm(value: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    each_object(value, &mut |object| {
        let kind = object.get("@type").and_then(Value::as_str);
        if kind == Some("type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm") {
            visit(object);
        }
    });
}

pub(crate) fn each_object(value: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Object(object) => {
            visit(object);
            object.values_mut().for_each(|value| each_object(value, visit));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| each_object(value, visit)),
        _ => {}
    }
}

pub(super) fn each_item(array: &mut Value, visit: impl FnMut(&mut Value)) {
    array.as_array_mut().into_iter().flatten().for_each(visit);
}

pub(super) fn push(array: &mut Value, value: Value) {
    if let Some(array) = array.as_array_mut() {
        array.push(value);
    }
}

pub(super) fn address(ip: &str, port: u16) -> Value {
    json!({"socket_address": {"address": ip, "port_value": port}})
}
