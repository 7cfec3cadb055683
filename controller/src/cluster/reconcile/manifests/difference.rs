//! Compares our objects with the wanted ones.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use serde_json::Value;

use limpet_api::ObjectName;
use limpet_outputs::manifests::{Definition, Manifest};

/// Our existing objects.
pub(super) type Live = BTreeMap<(&'static Definition, ObjectName), DynamicObject>;

/// Whether an existing object has everything that is wanted, and nothing that was removed from `spec`.
///
/// The API server adds defaults, so the existing object may have more fields. Whether a field was removed shows in the
/// annotation `digest` of what was last applied: if it differs, the object is applied again. The managed fields would
/// tell it, too, but are complex to interpret.
pub(super) fn is_as_wanted(wanted: &Value, live: &DynamicObject) -> bool {
    let Ok(live) = serde_json::to_value(live) else {
        return false;
    };
    let parts = ["labels", "annotations", "ownerReferences"];
    let metadata = |object: &Value, part: &str| object.get("metadata").and_then(|all| all.get(part)).cloned();
    let has = |part: &str| metadata(wanted, part).is_none_or(|wanted| covers(metadata(&live, part).as_ref(), &wanted));
    parts.into_iter().all(has) && wanted.get("spec").is_none_or(|wanted| covers(live.get("spec"), wanted))
}

/// Whether `live` has all of `wanted`.
fn covers(live: Option<&Value>, wanted: &Value) -> bool {
    match (live, wanted) {
        (Some(Value::Object(live)), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| covers(live.get(key), wanted))
        }
        (Some(Value::Array(live)), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| covers(Some(live), wanted))
        }
        (live, wanted) => live == Some(wanted),
    }
}

/// Our existing objects that are not wanted.
pub(super) fn excess<'a>(
    live: &'a Live,
    wanted: &[Manifest],
) -> impl Iterator<Item = (&'static Definition, &'a ObjectName, &'a DynamicObject)> + use<'a> {
    let wanted: BTreeSet<_> = wanted.iter().map(|one| (one.definition, one.name.clone())).collect();
    live.iter()
        .filter(move |(key, _)| !wanted.contains(key))
        .map(|((definition, name), object)| (*definition, name, object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn live(spec: &Value, digest: &str) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": {
                "name": "a", "namespace": "b", "labels": {"x": "y", "more": "z"}, "annotations": {"digest": digest},
            },
            "spec": spec,
        }))
        .unwrap()
    }

    fn wanted(spec: &Value) -> Value {
        json!({"metadata": {"labels": {"x": "y"}, "annotations": {"digest": "1"}}, "spec": spec})
    }

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        let spec = json!({"list": [{"a": 1}], "text": "t"});
        let there = json!({"list": [{"a": 1, "added": true}], "text": "t", "also": "added"});
        assert!(is_as_wanted(&wanted(&spec), &live(&there, "1")));
    }

    #[test]
    fn whatever_somebody_changed_is_a_difference() {
        let spec = json!({"list": [{"a": 1}], "text": "t"});
        for there in [
            json!({"list": [{"a": 2}], "text": "t"}),
            json!({"list": [{"a": 1}, {"a": 1}], "text": "t"}),
            json!({"list": [{"a": 1}]}),
            json!({}),
        ] {
            assert!(!is_as_wanted(&wanted(&spec), &live(&there, "1")), "{there}");
        }
        assert!(!is_as_wanted(&wanted(&spec), &live(&spec, "2")));
    }
}
