//! `IngressRoute`s, beyond the golden cases.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::objects::read_any;
use limpet_api::{Kind, Object, ObjectName, ObjectRef, Text, readable};
use limpet_model::graph::{Action, Graph, PathMatch, Session, VirtualHost};
use limpet_model::reports::{IngressRouteReport, IngressRouteStatus};
use limpet_model::{
    ContourSettings, Objects, Quarantined, Reports, RouteReplacement, Settings, build, contour_secrets,
};

fn contour() -> ContourSettings {
    serde_json::from_value(json!({"gateway": "limpet/contour"})).expect("settings")
}

fn settings() -> Settings {
    Settings {
        contour: Some(contour()),
        ..Settings::default()
    }
}

const SERVICES: &str = "
kind: Service
metadata: {namespace: shop, name: web}
spec: {ports: [{name: web, port: 80}]}
---
kind: Service
metadata: {namespace: shop, name: canary}
spec: {ports: [{name: web, port: 80}]}
---
";

fn objects(manifests: &str) -> Objects {
    read_any(&format!("{SERVICES}{manifests}"))
}

fn built(manifests: &str) -> (Graph, Reports) {
    build(&objects(manifests), &settings())
}

fn hosts(graph: &Graph) -> Vec<&VirtualHost> {
    let gateway = &graph.gateways[&ObjectName::new("limpet", "contour")];
    let listeners = gateway.ports.values().flatten();
    let hosts = listeners.flat_map(|listener| listener.virtual_hosts.values());
    hosts.map(|host| &**host).collect()
}

fn report<'r>(reports: &'r Reports, name: &str) -> &'r IngressRouteReport {
    &reports.ingress_routes[&ObjectName::new("shop", name)]
}

fn root(name: &str, routes: &str) -> String {
    format!(
        "kind: IngressRoute\nmetadata: {{namespace: shop, name: {name}}}\n\
         spec: {{virtualhost: {{fqdn: {name}.example}}, routes: [{routes}]}}\n---\n"
    )
}

const COOKIE: &str = "{match: /, services: [{name: web, port: 80, strategy: Cookie}]}";

fn sessions(graph: &Graph) -> Vec<(Text, Text, Text)> {
    let routes = hosts(graph).into_iter().flat_map(|host| &host.routes);
    let used = routes.filter_map(|route| match &route.action {
        Action::Forward(forward) => match &forward.session {
            Session::Rule(used) => Some((route.rule.0.clone(), used.policy.clone(), used.scope.clone())),
            _ => None,
        },
        _ => None,
    });
    used.collect()
}

#[test]
fn without_a_section_nothing_of_contour_is_read() {
    let (graph, reports) = build(&objects(&root("web", COOKIE)), &Settings::default());
    assert!(
        graph.gateways.is_empty() && reports.ingress_routes.is_empty(),
        "{graph:?}"
    );
}

#[test]
fn names_of_objects_and_routes_end_no_session() {
    let scope_of = |manifests: &str| {
        let (graph, reports) = built(manifests);
        assert!(
            reports
                .ingress_routes
                .values()
                .all(|report| report.status == IngressRouteStatus::Valid),
            "{reports:?}"
        );
        let [(_, _, scope)] = <[_; 1]>::try_from(sessions(&graph)).expect("one session");
        scope
    };
    let host = "virtualhost: {fqdn: web.example}";
    let services = "services: [{name: web, port: 80, strategy: Cookie}]";
    let before = scope_of(&root("web", COOKIE));
    assert_eq!(before, "contour/shop/web.example/web:80");
    let other = format!(
        "kind: IngressRoute\nmetadata: {{namespace: shop, name: other}}\n\
         spec: {{{host}, routes: [{{match: /shop, {services}}}]}}\n"
    );
    assert_eq!(scope_of(&other), before);
    let canary = root(
        "web",
        "{match: /, services: [{name: web, port: 80, strategy: Cookie, healthCheck: {path: /}}, \
         {name: canary, port: 80, strategy: Cookie, weight: 1}]}",
    );
    assert_eq!(scope_of(&canary), before);
    let delegated = format!(
        "{}kind: IngressRoute\nmetadata: {{namespace: shop, name: vertex}}\n\
         spec: {{routes: [{{match: /, {services}}}]}}\n",
        root("web", "{match: /, delegate: {name: vertex}}")
    );
    assert_eq!(scope_of(&delegated), before);
}

const GATEWAY: &str = "
kind: GatewayClass
metadata: {name: limpet}
spec: {controllerName: limpet.dev/controller}
---
kind: Gateway
metadata: {namespace: shop, name: web}
spec: {gatewayClassName: limpet, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
";

#[test]
fn routes_of_two_kinds_ended_each_others_sessions() {
    let sticky = "strategy: StickySession, stickySessionConfig: {cookie: {name: s}}";
    let routes = format!("{{match: /, services: [{{name: web, port: 80, {sticky}}}]}}");
    let ours = root("web", &routes);
    let others = "
kind: HTTPRoute
metadata: {namespace: shop, name: web, creationTimestamp: \"2026-01-02T00:00:00Z\"}
spec:
  parentRefs: [{name: web}]
  hostnames: [web.example]
  rules: [{backendRefs: [{name: canary, port: 80}], sessionPersistence: {sessionName: s}}]
";
    for (created, is_ours_renamed) in [("2026-01-01", false), ("2026-01-03", true)] {
        let created = format!("name: web, creationTimestamp: \"{created}T00:00:00Z\"}}\nspec");
        let (graph, _) = built(&format!(
            "{}{GATEWAY}{others}",
            ours.replace("name: web}\nspec", &created)
        ));
        let cookies = graph.policies.values().filter_map(|policy| policy.cookie.as_ref());
        let renamed: Vec<bool> = cookies
            .filter(|cookie| cookie.per_scope)
            .map(|cookie| cookie.forward)
            .collect();
        assert_eq!((graph.policies.len(), renamed), (2, vec![is_ours_renamed]));
    }
}

#[test]
fn the_base_of_a_cluster_outlasts_its_settings() {
    let base = |service: &str| {
        let (graph, _) = built(&root("web", &format!("{{match: /, services: [{service}]}}")));
        let [name] = <[_; 1]>::try_from(graph.clusters.keys().cloned().collect::<Vec<_>>()).expect("one cluster");
        (name.destination(), name)
    };
    let (destination, name) = base("{name: web, port: 80, strategy: Cookie}");
    let (other_destination, other) = base("{name: web, port: 80, strategy: Cookie, healthCheck: {path: /}}");
    assert_eq!(destination, other_destination);
    assert_ne!(name, other);
}

#[test]
fn only_who_is_given_a_prefix_by_another_matches_segments() {
    let (graph, _) = built(&format!(
        "{}kind: IngressRoute\nmetadata: {{namespace: shop, name: vertex}}\n\
         spec: {{routes: [{{match: /blog, services: [{{name: web, port: 80}}]}}, \
         {{match: /blog/, services: [{{name: web, port: 80}}]}}, \
         {{match: /blog/a, services: [{{name: web, port: 80}}]}}]}}\n",
        root(
            "web",
            "{match: /blog, delegate: {name: vertex}}, {match: /shop, services: [{name: web, port: 80}]}"
        )
    ));
    let hosts = hosts(&graph);
    let paths: Vec<&PathMatch> = hosts
        .iter()
        .flat_map(|host| &host.routes)
        .map(|route| &route.matches.path)
        .collect();
    let text = |text: &str| PathMatch::Text(text.to_owned());
    let segments = PathMatch::Prefix("/blog".to_owned());
    assert_eq!(paths, [&text("/shop"), &text("/blog/a"), &text("/blog/"), &segments]);
}

#[test]
fn an_object_that_envoy_refuses_costs_its_own_routes() {
    let of = |serves: RouteReplacement| {
        let mut objects = objects(&format!("{}{}", root("web", COOKIE), root("other", COOKIE)));
        let object = ObjectRef {
            kind: Kind::IngressRoute,
            name: ObjectName::new("shop", "web"),
        };
        let quarantined = Quarantined {
            generation: 1,
            words: "too long".to_owned(),
            serves,
        };
        objects.quarantined.insert(object, quarantined);
        let (graph, reports) = build(&objects, &settings());
        assert_eq!(report(&reports, "other").status, IngressRouteStatus::Valid);
        let told = report(&reports, "web");
        assert_eq!(
            (told.status, &*told.description),
            (IngressRouteStatus::Invalid, "refused by Envoy: too long")
        );
        let actions = hosts(&graph).into_iter().map(|host| {
            let action = host.routes.first().map(|route| match &route.action {
                Action::Forward(_) => "forward".to_owned(),
                Action::Respond { status, .. } => status.to_string(),
                Action::Redirect(_) => "redirect".to_owned(),
            });
            (host.hostname.to_string(), action.unwrap_or_default())
        });
        actions.collect::<Vec<_>>()
    };
    let of_both = |action: &str| {
        [("web.example", action), ("other.example", "forward")]
            .map(|(host, action)| (host.to_owned(), action.to_owned()))
    };
    for (serves, action) in [
        (RouteReplacement::Former, "forward"),
        (RouteReplacement::Status500, "500"),
        (RouteReplacement::Nothing, ""),
    ] {
        let mut found = of(serves);
        found.sort_by(|one, other| other.cmp(one));
        assert_eq!(found, of_both(action));
    }
}

#[test]
fn only_secrets_of_our_roots_are_named() {
    let manifests = "
kind: IngressRoute
metadata: {namespace: shop, name: web}
spec: {virtualhost: {fqdn: web.example, tls: {secretName: own}}}
---
kind: IngressRoute
metadata: {namespace: shop, name: other}
spec: {virtualhost: {fqdn: other.example, tls: {secretName: certificates/wildcard}}}
---
kind: IngressRoute
metadata: {namespace: shop, name: nginx, annotations: {kubernetes.io/ingress.class: nginx}}
spec: {virtualhost: {fqdn: nginx.example, tls: {secretName: nginx}}}
---
kind: IngressRoute
metadata: {namespace: elsewhere, name: web}
spec: {virtualhost: {fqdn: elsewhere.example, tls: {secretName: elsewhere}}}
---
kind: IngressRoute
metadata: {namespace: shop, name: odd}
spec: {virtualhost: {fqdn: odd.example, tls: {secretName: a/b/c}}}
---
kind: IngressRoute
metadata: {namespace: shop, name: none}
spec: {virtualhost: {fqdn: none.example, tls: {}}}
";
    let settings = ContourSettings {
        root_namespaces: ["shop".to_owned()].into(),
        ..contour()
    };
    let objects = read_any(manifests);
    let secrets = contour_secrets(&objects, &settings).into_iter();
    let names: BTreeSet<String> = secrets.map(|(_, name)| name.to_string()).collect();
    assert_eq!(names, ["certificates/wildcard", "shop/own"].map(String::from).into());
}

#[test]
fn addresses_are_watched_for_the_scopes_that_lead_to_them() {
    let (graph, _) = built(&root("web", COOKIE));
    let service = ObjectName::new("shop", "web");
    let watched: Vec<&str> = graph.referencing_namespaces[&service]
        .iter()
        .map(|namespace| &**namespace)
        .collect();
    let (_, _, scope) = &sessions(&graph)[0];
    assert_eq!(watched, [scope.split('/').nth(1).expect("a second part")]);
}

#[test]
fn the_order_of_objects_does_not_matter() {
    use IngressRouteStatus::{Invalid, Valid};

    let manifests = [
        root("web", COOKIE),
        root(
            "other",
            "{match: /a, delegate: {name: vertex}}, {match: /b, delegate: {name: loop}}",
        ),
        root("same", COOKIE).replace("same.example", "WEB.example"),
        "kind: IngressRoute\nmetadata: {namespace: shop, name: vertex}\n\
         spec: {routes: [{match: /a, services: [{name: web, port: 80, strategy: Cookie}]}]}\n---\n"
            .to_owned(),
        "kind: IngressRoute\nmetadata: {namespace: shop, name: loop}\n\
         spec: {routes: [{match: /b, delegate: {name: loop}}]}\n---\n"
            .to_owned(),
    ];
    let expected = built(&manifests.concat());
    let told = expected.1.ingress_routes.values();
    let told: Vec<IngressRouteStatus> = told.map(|report| report.status).collect();
    assert_eq!(told, [Invalid, Valid, Invalid, Valid, Invalid]);
    for turn in 0..manifests.len() {
        let mut turned = manifests.clone();
        turned.rotate_left(turn);
        assert_eq!(built(&turned.concat()), expected);
        turned.reverse();
        assert_eq!(built(&turned.concat()), expected);
    }
}

#[test]
fn descriptions_and_notes_are_bounded() {
    let names: Vec<String> = (0..2000).map(|number| format!("root-{number}")).collect();
    let mut objects = objects("");
    let mut add = |name: &str, spec: &Value| {
        let object: Object<_> = readable(&json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec}));
        objects.ingress_routes.insert(object.meta.object_name(), object.into());
    };
    for name in &names {
        add(name, &json!({"virtualhost": {"fqdn": "one.example"}}));
    }
    let unknown: serde_json::Map<String, Value> = (0..1000)
        .map(|number| (format!("{number}-{}", "x".repeat(1000)), json!(1)))
        .collect();
    let mut spec = json!({"virtualhost": {"fqdn": "unknown.example"}});
    spec.as_object_mut().expect("an object").extend(unknown);
    add("unknown", &spec);
    add("long", &json!({"virtualhost": {"fqdn": "é".repeat(1_000_000)}}));
    let (_, reports) = build(&objects, &settings());
    for (name, report) in &reports.ingress_routes {
        let notes: usize = report.notes.iter().map(String::len).sum();
        assert!(report.description.len() < 5000 && notes < 100_000, "{name}");
    }
    let text = &report(&reports, "root-0").description;
    let start = r#"fqdn "one.example" is used in multiple IngressRoutes: shop/root-0, shop/root-1, shop/root-10, "#;
    assert!(text.starts_with(start) && text.ends_with('…'), "{text}");
}

/// The best of three builds, since other processes use the machine.
#[allow(clippy::disallowed_methods, reason = "a test may measure time")]
fn time(objects: &Objects) -> Duration {
    let build = |_| {
        let start = Instant::now();
        let _ = build(objects, &settings());
        start.elapsed()
    };
    (0..3).map(build).min().expect("three")
}

/// Rules of `HTTPRoute`s are the measure. Takes seconds: what is quadratic shows with thousands of objects only.
#[test]
fn thousands_of_objects_build_as_fast_as_thousands_of_rules() {
    const COUNT: usize = 5000;
    let of_each = |text: fn(usize) -> String| (0..COUNT).map(text).collect::<Vec<String>>().concat();
    let services = of_each(|number| {
        format!("kind: Service\nmetadata: {{namespace: shop, name: s{number}}}\nspec: {{ports: [{{port: 80}}]}}\n---\n")
    });
    let ours = of_each(|number| {
        let route = format!("{{match: /, services: [{{name: s{number}, port: 80, strategy: Cookie}}]}}");
        root(&format!("r{number}"), &route)
    });
    let rules = of_each(|number| {
        format!(
            "kind: HTTPRoute\nmetadata: {{namespace: shop, name: r{number}}}\nspec:\n  parentRefs: [{{name: web}}]\n  \
             hostnames: [r{number}.example]\n  rules:\n  - backendRefs: [{{name: s{number}, port: 80}}]\n    \
             sessionPersistence: {{sessionName: session}}\n---\n"
        )
    });
    let ours = read_any(&format!("{services}{ours}"));
    let rules = read_any(&format!("{services}{GATEWAY}{rules}"));
    let (graph, _) = build(&ours, &settings());
    assert_eq!(sessions(&graph).len(), COUNT);
    let (ours, rules) = (time(&ours), time(&rules));
    println!("{COUNT} IngressRoutes: {ours:?}, {COUNT} rules: {rules:?}");
    assert!(
        ours < rules * 2,
        "{COUNT} IngressRoutes: {ours:?}, {COUNT} rules: {rules:?}"
    );
}

#[test]
fn the_routes_of_an_object_are_explained() {
    let sticky = "{match: /, services: [{name: web, port: 80, strategy: RoundRobin}, {name: canary, port: 80, \
                  strategy: Cookie, stickySessionConfig: {cookie: {name: s, path: /p}}}]}";
    let routes = format!("{sticky}, {{match: /plain, services: [{{name: web, port: 80}}]}}");
    let manifests = root("web", &routes).replace(
        "name: web}\nspec",
        "name: web, annotations: {session.limpet.dev/same-site: Strict}}\nspec",
    );
    let objects = objects(&manifests);
    let settings = Settings {
        session_defaults: serde_json::from_value(json!({"idleTimeout": "1h"})).expect("defaults"),
        ..settings()
    };
    let route = ObjectRef {
        kind: Kind::IngressRoute,
        name: ObjectName::new("shop", "web"),
    };
    let (graph, reports, rules) = limpet_model::explain(&objects, &settings, &route);
    let served_now = build(&objects, &settings);
    assert_eq!((&graph, &reports), (&served_now.0, &served_now.1));
    let [plain, sticky] = rules.as_slice() else {
        panic!("{rules:?}");
    };
    assert_eq!((plain.field.as_str(), plain.sessions().count()), ("spec.routes[1]", 0));
    assert_eq!(sticky.hosts, ["web.example"]);
    let session = sticky.session.as_ref().expect("a session");
    let served = sessions(&graph);
    assert_eq!(served[0].1, session.policy);
    assert_eq!(served[0].2, session.scope);
    for (name, value, from) in [
        (
            "cookie.name",
            json!("X-Contour-Session-Affinity"),
            "default: the name of Contour's cookie",
        ),
        (
            "cookie.sameSite",
            json!("Strict"),
            "IngressRoute shop/web: annotation session.limpet.dev/same-site",
        ),
        (
            "idleTimeout",
            json!("1h"),
            "configuration of the controller: sessionDefaults.idleTimeout",
        ),
        ("cookie.forward", json!(true), "default: as Contour's cookie had it"),
        ("strict", json!(false), "default"),
    ] {
        let field = session.fields.iter().find(|field| field.field == name).expect(name);
        assert_eq!(
            (&field.value, field.from.to_string().as_str()),
            (&value, from),
            "{name}"
        );
    }
    let counts: Vec<bool> = sticky.contenders.iter().map(|one| one.counts).collect();
    assert_eq!(counts, [false, true]);
    assert!(sticky.destinations[0].never_begins);
    assert_eq!(sticky.destinations[1].hash.as_deref().map(str::len), Some(8));
}

#[test]
fn a_host_is_served_with_the_last_valid_certificate() {
    let manifests = "
kind: Secret
metadata: {namespace: shop, name: good}
---
kind: IngressRoute
metadata: {namespace: shop, name: web}
spec:
  virtualhost: {fqdn: web.example, tls: {secretName: good}}
  routes: [{match: /, services: [{name: web, port: 80}]}]
";
    let mut objects = objects(manifests);
    let (before, reports) = build(&objects, &settings());
    assert!(report(&reports, "web").notes.is_empty());
    let why = "no right".to_owned();
    objects.kept_certificates.insert(ObjectName::new("shop", "good"), why);
    let (graph, reports) = build(&objects, &settings());
    assert_eq!(graph, before);
    let report = report(&reports, "web");
    assert_eq!(report.status, IngressRouteStatus::Valid);
    let note = "spec.virtualhost.tls.secretName: Secret shop/good: no right; its last valid certificate stays in use";
    assert_eq!(report.notes, [note]);
}
