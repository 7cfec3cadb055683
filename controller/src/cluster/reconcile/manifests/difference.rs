//! What is to be done.

use std::collections::{BTreeMap, BTreeSet};

use kube::core::DynamicObject;
use serde_json::Value;

use limpet_api::ObjectName;
use limpet_outputs::manifests::{Definition, Manifest};

/// An object of ours that is there.
pub(super) type Live = BTreeMap<(&'static Definition, ObjectName), DynamicObject>;

/// Whether an object that is there has everything that it is to have, and nothing that was taken out of `spec`.
///
/// A server adds defaults to what it is given. So what is there may have more, and whether something was taken out is seen by its absence in what was
/// given last: the managed fields would tell it, at the price of understanding them, so the object is given anew when `digest`, which it has as an
/// annotation, is another one.
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

/// Our objects that nobody wants.
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
            "metadata": {"name": "a", "namespace": "b", "labels": {"x": "y", "more": "z"}, "annotations": {"digest": digest}},
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
