//! What a changed route costs, with so many routes: `cargo run --release -p limpet-model --example one_change -- 2000`.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::time::{Duration, Instant};

use limpet_api::ObjectName;
use limpet_model::{Incremental, Objects, Settings, build};
use serde_json::{Value, json};

const CHANGES: u32 = 50;

fn main() {
    let count: usize = std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(2_000);
    let settings = Settings::default();
    let mut objects = world(count);
    let mut incremental = Incremental::default();
    let start = Instant::now();
    let (graph, _) = incremental.build(&objects, &settings);
    let first = start.elapsed();
    objects.memory = graph.memory;
    let start = Instant::now();
    drop(incremental.build(&objects, &settings));
    let remembered = start.elapsed();
    let mut times = Vec::new();
    for change in 0..CHANGES {
        let number = change as usize * 37 % count;
        add(&mut objects, &route(number, &format!("/changed-{change}")));
        let start = Instant::now();
        let (graph, _) = incremental.build(&objects, &settings);
        times.push(start.elapsed());
        objects.memory = graph.memory;
    }
    let start = Instant::now();
    drop(build(&objects, &settings));
    let full = start.elapsed();
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let ms = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1000.0);
    println!(
        "{count} routes: first build {}, with what it remembers {}",
        ms(first),
        ms(remembered)
    );
    println!(
        "one changed route: median {}, worst {}; a full build {}",
        ms(at(50)),
        ms(at(99)),
        ms(full)
    );
}

/// Each route has a host, a rule with a session, and a Service, in one of fifty namespaces.
fn world(count: usize) -> Objects {
    let mut objects = Objects::default();
    let class = json!({"metadata": {"name": "limpet"}, "spec": {"controllerName": "limpet.dev/controller"}});
    objects
        .gateway_classes
        .insert("limpet".into(), limpet_api::readable(&class).into());
    let listener =
        json!({"name": "http", "port": 80, "protocol": "HTTP", "allowedRoutes": {"namespaces": {"from": "All"}}});
    let gateway = json!({
        "metadata": {"namespace": "infra", "name": "edge"},
        "spec": {"gatewayClassName": "limpet", "listeners": [listener]},
    });
    objects
        .gateways
        .insert(ObjectName::new("infra", "edge"), limpet_api::readable(&gateway).into());
    for number in 0..count {
        let service = json!({
            "metadata": {"namespace": namespace(number), "name": format!("s{number}")},
            "spec": {"ports": [{"name": "http", "port": 80}]},
        });
        let name = ObjectName::new(&namespace(number), &format!("s{number}"));
        objects.services.insert(name, limpet_api::readable(&service).into());
        add(&mut objects, &route(number, "/"));
    }
    objects
}

fn add(objects: &mut Objects, route: &Value) {
    let route: limpet_api::Object<_> = limpet_api::readable(route);
    objects.http_routes.insert(route.meta.object_name(), route.into());
}

fn namespace(number: usize) -> String {
    format!("shop-{}", number % 50)
}

fn route(number: usize, path: &str) -> Value {
    json!({
        "metadata": {"namespace": namespace(number), "name": format!("r{number}"), "uid": format!("{number:036}")},
        "spec": {
            "parentRefs": [{"namespace": "infra", "name": "edge"}],
            "hostnames": [format!("shop-{number}.example.com")],
            "rules": [{
                "matches": [{"path": {"value": path}}],
                "backendRefs": [{"name": format!("s{number}"), "port": 80}],
                "sessionPersistence": {"sessionName": "session"},
            }],
        },
    })
}
