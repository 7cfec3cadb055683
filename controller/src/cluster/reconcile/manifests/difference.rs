use std::collections::{BTreeMap, BTreeSet, HashMap};

use kube::core::DynamicObject;
use serde_json::Value;

use limpet_api::ObjectName;
use limpet_model::envoys_name;
use limpet_outputs::envoys::merge_key;
use limpet_outputs::manifests::{Manifest, ManifestKind, Manifests};

pub(super) type LiveObjects = BTreeMap<ManifestKey, DynamicObject>;

pub(super) type ManifestKey = (&'static ManifestKind, ObjectName);

pub(super) fn key(manifest: &Manifest) -> ManifestKey {
    (manifest.definition, manifest.name.clone())
}

/// As applied, and as the API server keeps them: it rewrites quantities and drops empty fields.
pub(super) type NormalizedObjects = BTreeMap<ManifestKey, (Value, Value)>;

pub(super) fn keep(kept: &mut NormalizedObjects, key: ManifestKey, applied: &Value, written: &DynamicObject) {
    kept.remove(&key);
    if !is_as_wanted(applied, written, None)
        && let (Some(applied), Some(written)) = (applied.get("spec"), written.data.get("spec"))
    {
        kept.insert(key, (applied.clone(), written.clone()));
    }
}

/// Whether an existing object has everything that is wanted, and nothing that was removed from `spec`.
///
/// It may have more fields, because the API server adds defaults. Removed fields change the annotation `digest` of what
/// was last applied. The managed fields show them, too, but are complex to interpret.
///
/// `kept`: the API server's form of it before.
pub(super) fn is_as_wanted(wanted: &Value, live: &DynamicObject, kept: Option<&(Value, Value)>) -> bool {
    let Ok(live) = serde_json::to_value(live) else {
        return false;
    };
    let parts = ["labels", "annotations", "ownerReferences"];
    let metadata = |object: &Value, part: &str| object.get("metadata").and_then(|all| all.get(part)).cloned();
    let has =
        |part: &str| metadata(wanted, part).is_none_or(|wanted| covers(part, metadata(&live, part).as_ref(), &wanted));
    let has_spec = |wanted: &Value| {
        let is_kept = kept.is_some_and(|(applied, there)| applied == wanted && live.get("spec") == Some(there));
        is_kept || covers("spec", live.get("spec"), wanted)
    };
    parts.into_iter().all(has) && wanted.get("spec").is_none_or(has_spec)
}

/// `name`: the field's.
fn covers(name: &str, live: Option<&Value>, wanted: &Value) -> bool {
    match (live, wanted) {
        (Some(Value::Object(live)), Value::Object(wanted)) => {
            wanted.iter().all(|(name, wanted)| covers(name, live.get(name), wanted))
        }
        (Some(Value::Array(live)), Value::Array(wanted)) => covers_list(name, live, wanted),
        (live, wanted) => live == Some(wanted),
    }
}

/// Items that others add to a list with a key stay when it is applied again.
fn covers_list(name: &str, live: &[Value], wanted: &[Value]) -> bool {
    let Some(key) = merge_key(name, wanted) else {
        let mut both = live.iter().zip(wanted);
        return live.len() == wanted.len() && both.all(|(live, wanted)| covers(name, Some(live), wanted));
    };
    // Of several with one key, the first counts.
    let by_key: HashMap<Option<&Value>, &Value> = live.iter().rev().map(|item| (item.get(key), item)).collect();
    wanted
        .iter()
        .all(|wanted| covers(name, by_key.get(&wanted.get(key)).copied(), wanted))
}

pub(super) fn excess<'a>(
    live: &'a LiveObjects,
    manifests: &Manifests,
) -> impl Iterator<Item = (&'static ManifestKind, &'a ObjectName, &'a DynamicObject)> + use<'a> {
    let wanted = manifests.objects.iter();
    let wanted: BTreeSet<_> = wanted.map(|one| (one.definition, one.name.clone())).collect();
    let unchanged: BTreeSet<String> = manifests.unchanged.iter().map(envoys_name).collect();
    live.iter()
        .filter(move |(key, _)| !wanted.contains(key) && !unchanged.contains(key.1.name.as_str()))
        .map(|((definition, name), object)| (*definition, name, object))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use limpet_outputs::envoys;

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
        assert!(is_as_wanted(&wanted(&spec), &live(&there, "1"), None));
    }

    #[test]
    fn what_others_add_to_a_list_with_keys_is_no_difference() {
        let spec = json!({"ports": [{"port": 80, "name": "a"}]});
        let more = json!({"ports": [{"port": 99}, {"port": 80, "name": "a"}]});
        assert!(is_as_wanted(&wanted(&spec), &live(&more, "1"), None));
        for there in [
            json!({"ports": [{"port": 80, "name": "b"}]}),
            json!({"ports": [{"port": 99}]}),
        ] {
            assert!(!is_as_wanted(&wanted(&spec), &live(&there, "1"), None), "{there}");
        }
    }

    #[test]
    fn the_first_of_several_items_with_one_key_counts() {
        let spec = json!({"ports": [{"port": 80, "name": "a"}]});
        let [own, other] = [json!({"port": 80, "name": "a"}), json!({"port": 80, "name": "b"})];
        let there = |ports: [&Value; 2]| live(&json!({"ports": ports}), "1");
        assert!(is_as_wanted(&wanted(&spec), &there([&own, &other]), None));
        assert!(!is_as_wanted(&wanted(&spec), &there([&other, &own]), None));
        // Any value is a key, and so is none.
        let spec = json!({"containers": [{"name": {"a": [1]}}, {"x": 1}, {"name": 1.5}]});
        assert!(is_as_wanted(&wanted(&spec), &live(&spec, "1"), None));
        let more = json!({"containers": [{"x": 2}, {"name": {"a": [1]}}, {"x": 1}, {"name": 1.5}]});
        assert!(!is_as_wanted(&wanted(&spec), &live(&more, "1"), None));
    }

    /// Twenty times as many items may take 150 times as long on a busy machine; quadratic time would be 400 times.
    #[test]
    fn each_item_was_looked_for_in_the_whole_list() {
        let time = |count: usize| {
            let item = |index: usize| json!({"name": format!("c{index}")});
            let spec = json!({"containers": (0..count).map(item).collect::<Vec<_>>()});
            let there = json!({"containers": (0..count).rev().map(item).collect::<Vec<_>>()});
            let start = std::time::Instant::now();
            assert!(is_as_wanted(&wanted(&spec), &live(&there, "1"), None));
            start.elapsed()
        };
        let (small, large) = (time(1_000), time(20_000));
        assert!(large < small * 150, "1000 items in {small:?}, 20000 in {large:?}");
    }

    #[test]
    fn what_the_api_server_made_of_it_is_no_difference() {
        let (spec, there) = (json!({"cpu": "1000m"}), json!({"cpu": "1"}));
        let key = (envoys::DEFINITIONS[0], ObjectName::new("a", "b"));
        let mut kept = NormalizedObjects::new();
        keep(&mut kept, key.clone(), &wanted(&spec), &live(&there, "1"));
        let is = |spec: &Value, there: &Value| is_as_wanted(&wanted(spec), &live(there, "1"), kept.get(&key));
        assert!(is(&spec, &there));
        assert!(!is(&spec, &json!({"cpu": "2"})), "somebody changed it");
        assert!(!is(&json!({"cpu": "2000m"}), &there), "something else is wanted");
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
            assert!(!is_as_wanted(&wanted(&spec), &live(&there, "1"), None), "{there}");
        }
        assert!(!is_as_wanted(&wanted(&spec), &live(&spec, "2"), None));
    }
}
