//! A memory that has no room for everything.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::sessions::BuildLimits;
use crate::{SessionPolicyKind, SessionPolicyName};
use limpet_api::{Object, ObjectName, Spec};

const NAMESPACES: [&str; 2] = ["a", "b"];
const ROOM: usize = 500;

fn little_room() -> BuildContext<'static> {
    BuildContext {
        limits: BuildLimits {
            most_bytes: ROOM,
            ..BuildLimits::default()
        },
        ..BuildContext::default()
    }
}

fn read<S: Spec>(mut object: Value, namespace: &str, name: &str) -> (ObjectName, Object<S>) {
    object["metadata"]["namespace"] = namespace.into();
    object["metadata"]["name"] = name.into();
    (ObjectName::new(namespace, name), limpet_api::object(&object).unwrap())
}

fn cluster() -> Objects {
    let mut objects = Objects::default();
    let class = json!({"spec": {"controllerName": "limpet.dev/controller"}});
    let (_, class) = read(class, "", "limpet");
    objects.gateway_classes.insert("limpet".into(), class.into());
    for namespace in NAMESPACES {
        let gateway = json!({"spec": {
            "gatewayClassName": "limpet",
            "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}],
        }});
        objects.gateways.extend([read(gateway, namespace, "web")]);
        let service = json!({"spec": {"ports": [{"port": 80}]}});
        objects.services.extend([read(service, namespace, "web")]);
    }
    objects
}

fn add_route(objects: &mut Objects, namespace: &str, name: &str, paths: &[char]) {
    let rule = |path: &char| {
        json!({
            "matches": [{"path": {"value": format!("/{path}")}}],
            "backendRefs": [{"name": "web", "port": 80}],
            "sessionPersistence": {"sessionName": "s"},
        })
    };
    let rules: Vec<Value> = paths.iter().map(rule).collect();
    let route = json!({"spec": {"parentRefs": [{"name": "web"}], "rules": rules}});
    objects.http_routes.extend([read(route, namespace, name)]);
}

fn add_policy(objects: &mut Objects, namespace: &str, name: &str, pruned: bool) {
    let mut policy = json!({
        "metadata": {"uid": name},
        "spec": {
            "targetRefs": [{"group": "", "kind": "Service", "name": "web"}],
            "sessionPersistence": {"sessionName": "p"},
        },
    });
    if pruned {
        policy["spec"]["sessionPersistence"] = json!({"type": "Cookie"});
        policy["metadata"]["pruned"] = json!({"sessionName": null});
    }
    let (name, object) = read(policy, namespace, name);
    let kind = SessionPolicyKind::XBackendTrafficPolicy;
    objects
        .session_policies
        .insert(SessionPolicyName { kind, name }, object.into());
}

type State = Vec<(usize, usize, Vec<char>, Option<bool>)>;

fn state() -> impl Strategy<Value = State> {
    let paths = prop::sample::subsequence(vec!['a', 'b', 'c', 'd', 'e'], 1..3);
    let route = (
        0..NAMESPACES.len(),
        0..6_usize,
        paths.prop_shuffle(),
        prop::option::of(any::<bool>()),
    );
    prop::collection::vec(route, 3..12)
}

fn objects(state: &State) -> Objects {
    let mut objects = cluster();
    for (namespace, number, paths, pruned) in state {
        add_route(&mut objects, NAMESPACES[*namespace], &format!("route-{number}"), paths);
        if let Some(pruned) = pruned {
            add_policy(
                &mut objects,
                NAMESPACES[*namespace],
                &format!("policy-{number}"),
                *pruned,
            );
        }
    }
    objects
}

proptest! {
    /// Takes seconds: each of 256 cases builds up to six times, in two replicas.
    #[test]
    fn a_memory_without_room_leads_to_itself(states in prop::collection::vec(state(), 1..6)) {
        let mut memory = Memory::default();
        for state in &states {
            let mut objects = objects(state);
            objects.memory = memory;
            let graph = build_within(&objects, &Settings::default(), little_room()).graph;
            let texts: Vec<String> = Memory::parts().filter_map(|part| graph.memory.text(part)).collect();
            let frames = 66 * texts.len();
            // What only the cluster's administrators write needs no share.
            let classes = r#"{"name":"limpet","controllerName":"limpet.dev/controller"}"#;
            prop_assert!(texts.concat().len() <= ROOM + frames + classes.len(), "{texts:?}");
            objects.memory = graph.memory.clone();
            let again = build_within(&objects, &Settings::default(), little_room()).graph;
            prop_assert_eq!(&again, &graph);
            memory = graph.memory;
        }
    }

    /// Takes seconds: each of 256 cases builds up to six times.
    #[test]
    fn other_namespaces_make_nothing_forgotten(states in prop::collection::vec(state(), 1..6)) {
        let mut memory = Memory::default();
        for (number, state) in states.iter().enumerate() {
            let others: State = state.iter().filter(|route| route.0 > 0).cloned().collect();
            let mut objects = objects(&others);
            add_route(&mut objects, "a", "own", &[char::from(b'a' + u8::try_from(number).unwrap())]);
            objects.memory = memory;
            let graph = build_within(&objects, &Settings::default(), little_room()).graph;
            let own = graph.rules.keys().filter_map(|rule| rule.0.strip_prefix("httproute/a/own/"));
            let own: Vec<&str> = own.collect();
            let first = first_name();
            prop_assert_eq!(own, [first.as_str()]);
            memory = graph.memory;
        }
    }
}

fn first_name() -> String {
    let mut objects = cluster();
    add_route(&mut objects, "a", "own", &['a']);
    let (graph, _) = build(&objects, &Settings::default());
    let name = graph
        .rules
        .keys()
        .find_map(|rule| rule.0.strip_prefix("httproute/a/own/"));
    name.unwrap().to_owned()
}
