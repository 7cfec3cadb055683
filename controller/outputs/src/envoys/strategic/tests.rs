use std::time::{Duration, Instant};

use proptest::prelude::*;
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

/// Keys of items: whatever JSON has, and what a patch changes in itself.
fn id() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!("a"),
        json!("b"),
        json!(1),
        json!(1.0),
        json!(-1),
        json!(true),
        json!(null),
        json!({"a": 1}),
        json!({"a": null}),
        json!({"a": 1, "$patch": "replace"}),
        json!({"$retainKeys": [], "a": 1}),
        json!([]),
        json!(["a"]),
        json!([{"$patch": "replace"}, {"$patch": "merge", "a": 1}]),
    ])
}

const LISTS: [&str; 7] = ["containers", "ports", "volumeMounts", "finalizers", "args", "env", "a"];

/// An object with some fields of the names that lists, keys and directives have.
fn object(inner: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
    let ids = ["name", "name", "name", "containerPort", "port", "mountPath"];
    let fields = prop::collection::vec((prop::sample::select(ids.to_vec()), id()), 0..3);
    let lists = prop::collection::vec(
        (
            prop::sample::select(LISTS.to_vec()),
            prop::collection::vec(inner.clone(), 0..6),
        ),
        0..3,
    );
    let directives = prop::sample::select(vec![
        None,
        None,
        None,
        None,
        None,
        Some("delete"),
        Some("merge"),
        Some("replace"),
    ]);
    let retained = prop::option::weighted(0.1, prop::collection::vec(prop::sample::select(LISTS.to_vec()), 0..3));
    let deleted = prop::option::weighted(
        0.2,
        (prop::sample::select(LISTS.to_vec()), prop::collection::vec(inner, 0..3)),
    );
    (fields, lists, directives, retained, deleted).prop_map(|(fields, lists, directive, retained, deleted)| {
        let mut all: Map<String, Value> = fields.into_iter().map(|(name, id)| (name.to_owned(), id)).collect();
        all.extend(
            lists
                .into_iter()
                .map(|(name, items)| (name.to_owned(), Value::Array(items))),
        );
        all.extend(directive.map(|directive| (DIRECTIVE.to_owned(), json!(directive))));
        all.extend(retained.map(|names| (RETAIN.to_owned(), json!(names))));
        all.extend(deleted.map(|(list, items)| (format!("{DELETE_FROM_LIST}{list}"), json!(items))));
        Value::Object(all)
    })
}

fn value() -> BoxedStrategy<Value> {
    id().prop_recursive(3, 100, 6, |inner| prop_oneof![3 => object(inner), 1 => id()])
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5000, ..ProptestConfig::default() })]

    /// Takes seconds: 5,000 random patches, each also by a search.
    #[test]
    fn what_is_looked_up_is_what_a_search_would_find(
        target in object(value()),
        patches in prop::collection::vec(object(value()), 1..4),
    ) {
        let Value::Object(mut target) = target else { return Ok(()) };
        let mut searched = target.clone();
        for by in &patches {
            let Value::Object(by) = by else { continue };
            patch(&mut target, by);
            naive::patch(&mut searched, by);
            prop_assert_eq!(&target, &searched);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a test may measure time")]
fn time(count: usize) -> Duration {
    let items = |from: usize, more: &Value| -> Vec<Value> {
        let item = |index: usize| {
            let mut item = json!({"name": format!("c{index}")});
            if let (Value::Object(item), Value::Object(more)) = (&mut item, more) {
                item.extend(more.clone());
            }
            item
        };
        (from..from + count).map(item).collect()
    };
    let texts = |from: usize| -> Vec<Value> { (from..from + count).map(|index| json!(format!("c{index}"))).collect() };
    let fields = || -> Map<String, Value> { (0..count).map(|index| (format!("c{index}"), json!(1))).collect() };
    let none = json!({});
    let cases = [
        (json!({}), json!({"containers": items(0, &none)})),
        (
            json!({"containers": items(0, &none)}),
            json!({"containers": items(count / 2, &json!({"x": 1}))}),
        ),
        (
            json!({"containers": items(0, &none)}),
            json!({"containers": items(0, &json!({"$patch": "delete"}))}),
        ),
        (json!({"finalizers": texts(0)}), json!({"finalizers": texts(count)})),
        (
            json!({"args": texts(0)}),
            json!({"$deleteFromPrimitiveList/args": texts(count)}),
        ),
        (json!(fields()), json!({"$retainKeys": texts(count)})),
    ];
    let start = Instant::now();
    for (target, by) in cases {
        let (Value::Object(mut target), Value::Object(by)) = (target, by) else {
            continue;
        };
        patch(&mut target, &by);
    }
    start.elapsed()
}

/// Twenty times as many items may take 150 times as long on a busy machine; quadratic would be four hundred times.
#[test]
fn each_item_of_a_patch_was_looked_for_in_the_whole_list() {
    let (small, large) = (time(1_000), time(20_000));
    assert!(large < small * 150, "1000 items in {small:?}, 20000 in {large:?}");
}

/// The same in its shortest form: each item is looked for in the whole list.
mod naive {
    use serde_json::{Map, Value};

    use super::super::{
        DELETE_FROM_LIST, DIRECTIVE, RETAIN, SETS, directive, has_content, is_directive, merge_key, without_directive,
        without_directives,
    };

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

    fn delete_from(target: &mut Map<String, Value>, list: &str, gone: &Value) {
        let gone = gone.as_array().map(Vec::as_slice).unwrap_or_default();
        if let Some(Value::Array(known)) = target.get_mut(list) {
            known.retain(|known| !gone.contains(known));
        }
    }
}
