use serde_json::{Value, json};

use super::*;
use crate::cluster::kube::pod::PodMeta;
use crate::cluster::kube::{config_map_from_manifest, from_manifest, secret_from_manifest};
use crate::cluster::looked;

const OURS: &str = "limpet.dev/controller";

fn store(namespaces: &[&str]) -> Store {
    Store::new(WatchSettings {
        controller: Arc::from(OURS),
        serves: true,
        namespaces: namespaces.iter().map(|name| Arc::from(*name)).collect(),
        own_namespace: None,
        contour: None,
        pods: false,
    })
}

fn entry(kind: Kind, namespace: &str, name: &str, version: &str, rest: &Value) -> DecodedObject {
    let mut object =
        json!({"metadata": {"namespace": namespace, "name": name, "uid": name, "resourceVersion": version}});
    object
        .as_object_mut()
        .unwrap()
        .extend(rest.as_object().cloned().unwrap());
    from_manifest(kind, object, OURS).unwrap().unwrap()
}

fn route(namespace: &str, name: &str, hostname: &str) -> DecodedObject {
    entry(
        Kind::HttpRoute,
        namespace,
        name,
        "1",
        &json!({"spec": {"hostnames": [hostname]}}),
    )
}

fn applied(store: &mut Store, kind: Kind, entry: DecodedObject) -> StoreChange {
    store.apply(StoreUpdate::Applied(kind, Box::new(entry)))
}

fn objects() -> StoreChange {
    StoreChange {
        objects: true,
        ..StoreChange::default()
    }
}

fn statuses() -> StoreChange {
    StoreChange {
        statuses: true,
        ..StoreChange::default()
    }
}

fn routes(store: &Store) -> Vec<String> {
    store.objects().http_routes.keys().map(ToString::to_string).collect()
}

#[test]
fn what_says_the_same_changes_nothing() {
    let mut store = store(&[]);
    let of = |version: &str, status: &Value| {
        let rest = json!({"spec": {"hostnames": ["a"]}, "status": status});
        entry(Kind::HttpRoute, "shop", "web", version, &rest)
    };
    let both = StoreChange {
        statuses: true,
        ..objects()
    };
    assert_eq!(applied(&mut store, Kind::HttpRoute, of("1", &Value::Null)), both);
    let before = store.objects();
    assert_eq!(
        applied(&mut store, Kind::HttpRoute, of("1", &Value::Null)),
        StoreChange::default()
    );
    // Another controller wrote its status: no build is needed.
    assert_eq!(applied(&mut store, Kind::HttpRoute, of("2", &Value::Null)), statuses());
    let ours = json!({"parents": [{"controllerName": OURS}]});
    assert_eq!(applied(&mut store, Kind::HttpRoute, of("3", &ours)), statuses());
    assert!(Arc::ptr_eq(&before, &store.objects()), "nothing was copied");
    let other = route("shop", "web", "b");
    assert!(applied(&mut store, Kind::HttpRoute, other).objects);
    assert!(
        store
            .apply(StoreUpdate::Deleted(Kind::HttpRoute, ObjectName::new("shop", "web")))
            .objects
    );
    assert!(routes(&store).is_empty() && store.observation().objects[&Kind::HttpRoute].is_empty());
    let gone = store.apply(StoreUpdate::Deleted(Kind::HttpRoute, ObjectName::new("shop", "web")));
    assert_eq!(gone, StoreChange::default());
}

#[test]
fn a_list_is_all_that_there_is_where_it_is_from() {
    let mut store = store(&["pay", "shop"]);
    let listed = |store: &mut Store, namespace: &str, entries| {
        store.apply(StoreUpdate::Listed(
            Kind::HttpRoute,
            Some(Arc::from(namespace)),
            entries,
        ))
    };
    listed(
        &mut store,
        "shop",
        vec![route("shop", "a", "a"), route("shop", "b", "b")],
    );
    listed(&mut store, "pay", vec![route("pay", "a", "a")]);
    assert_eq!(routes(&store), ["pay/a", "shop/a", "shop/b"]);
    assert!(listed(&mut store, "shop", vec![route("shop", "b", "b")]).objects);
    assert_eq!(routes(&store), ["pay/a", "shop/b"]);
    assert_eq!(
        listed(&mut store, "pay", vec![route("pay", "a", "a")]),
        StoreChange::default()
    );
}

#[test]
fn a_kind_that_is_served_no_more_has_no_objects() {
    let mut store = store(&[]);
    let spec = json!({"spec": {"type": "ExternalHostname", "externalHostname": {"hostname": "a.example"}}});
    applied(
        &mut store,
        Kind::XBackend,
        entry(Kind::XBackend, "shop", "web", "1", &spec),
    );
    assert!(store.apply(StoreUpdate::NotServed(Kind::XBackend)).objects);
    assert!(store.objects().backends.is_empty());
}

#[test]
fn without_the_gateway_apis_definitions_nothing_is_deleted() {
    let mut store = store(&["shop"]);
    let namespace = || Some(Arc::from("shop"));
    for kind in Kind::ALL {
        let namespace = kind.is_namespaced().then(namespace).flatten();
        store.apply(StoreUpdate::Listed(kind, namespace, Vec::new()));
    }
    applied(&mut store, Kind::HttpRoute, route("shop", "web", "a"));
    assert!(store.is_complete());
    for kind in [Kind::HttpRoute, Kind::Gateway] {
        assert!(!store.apply(StoreUpdate::NotServed(kind)).objects);
    }
    assert_eq!((store.is_complete(), routes(&store).len()), (false, 1));
    let missing = store.missing().unwrap();
    assert!(missing.contains("does not serve Gateway, HTTPRoute"), "{missing}");
    let resource = kube::core::ApiResource {
        group: String::new(),
        version: String::new(),
        api_version: String::new(),
        kind: String::new(),
        plural: String::new(),
    };
    for kind in [Kind::HttpRoute, Kind::Gateway] {
        store.apply(StoreUpdate::Served(kind, resource.clone()));
    }
    assert_eq!(store.missing().as_deref(), Some("not read yet: Gateway, HTTPRoute"));
}

#[test]
fn it_is_known_what_was_not_listed_yet() {
    let mut store = store(&["pay", "shop"]);
    assert!(!store.is_complete());
    for kind in Kind::ALL {
        if kind == Kind::GrpcRoute || !kind.is_namespaced() {
            continue;
        }
        for namespace in ["pay", "shop"] {
            store.apply(StoreUpdate::Listed(kind, Some(Arc::from(namespace)), Vec::new()));
        }
    }
    let namespace = Some(Arc::from("shop"));
    store.apply(StoreUpdate::Listed(Kind::GrpcRoute, namespace, Vec::new()));
    assert_eq!(
        store.missing().as_deref(),
        Some("not read yet: GRPCRoute, GatewayClass, Namespace"),
        "one namespace is no list"
    );
    store.apply(StoreUpdate::NotServed(Kind::GrpcRoute));
    store.apply(StoreUpdate::Listed(Kind::GatewayClass, None, Vec::new()));
    store.apply(StoreUpdate::Listed(Kind::Namespace, None, Vec::new()));
    assert!(store.is_complete());
}

#[test]
fn what_cannot_be_read_takes_the_place_of_what_it_was() {
    let mut store = store(&[]);
    applied(&mut store, Kind::HttpRoute, route("shop", "web", "a"));
    let bad = |version: &str| {
        let rest = json!({"spec": {"parentRefs": [{"name": "gw"}], "hostnames": 5}});
        entry(Kind::HttpRoute, "shop", "web", version, &rest)
    };
    assert!(applied(&mut store, Kind::HttpRoute, bad("2")).objects);
    assert_eq!(store.counts()[&Kind::HttpRoute], (0, 1));
    let objects = store.objects();
    let (_, error) = objects.malformed().pop_first().unwrap();
    assert_eq!(error.field, "spec.hostnames");
    let kept = &objects.http_routes[&ObjectName::new("shop", "web")].spec;
    assert!(kept.hostnames.is_empty() && kept.parent_refs.len() == 1, "{kept:?}");
    assert_eq!(applied(&mut store, Kind::HttpRoute, bad("2")), StoreChange::default());
    assert!(applied(&mut store, Kind::HttpRoute, route("shop", "web", "a")).objects);
    assert_eq!(store.counts()[&Kind::HttpRoute], (1, 0));
}

fn slice(name: &str, service: &str, address: &str) -> DecodedObject {
    let object = json!({
        "metadata": {"namespace": "shop", "name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "ports": [{"name": "web", "port": 80, "protocol": "TCP"}],
        "endpoints": [{
            "addresses": [address],
            "conditions": {"ready": true},
            "targetRef": {"kind": "Pod", "name": name, "uid": "u"},
        }],
    });
    from_manifest(Kind::EndpointSlice, object, OURS).unwrap().unwrap()
}

#[test]
fn a_slice_changes_the_endpoints_of_its_service_alone() {
    let mut store = store(&[]);
    let changed = |services: &[&str]| StoreChange {
        services: services.iter().map(|name| ObjectName::new("shop", name)).collect(),
        ..StoreChange::default()
    };
    let mut apply = |entry| applied(&mut store, Kind::EndpointSlice, entry);
    assert_eq!(apply(slice("one", "a", "10.0.0.1")), changed(&["a"]));
    assert_eq!(apply(slice("two", "a", "10.0.0.2")), changed(&["a"]));
    assert_eq!(apply(slice("two", "a", "10.0.0.2")), StoreChange::default());
    assert_eq!(
        apply(slice("two", "b", "10.0.0.2")),
        changed(&["a", "b"]),
        "it was the one's"
    );
    let count = |store: &Store, service: &str| store.endpoints(&ObjectName::new("shop", service), "web").len();
    assert_eq!((count(&store, "a"), count(&store, "b")), (1, 1));
    assert!(store.endpoints(&ObjectName::new("shop", "a"), "other").is_empty());
    let gone = store.apply(StoreUpdate::Listed(
        Kind::EndpointSlice,
        None,
        vec![slice("one", "a", "10.0.0.1")],
    ));
    assert_eq!(gone, changed(&["b"]));
    assert_eq!((count(&store, "a"), count(&store, "b")), (1, 0));
}

#[test]
fn nothing_is_built_for_a_pod_that_drains() {
    let mut store = store(&[]);
    applied(&mut store, Kind::EndpointSlice, slice("one", "a", "10.0.0.1"));
    let annotations = json!({endpoints::DRAIN: "2026-11-23T06:00:00Z"});
    let pod = json!({"metadata": {"uid": "u", "annotations": annotations}});
    let drains = PodMeta::read(&serde_json::from_value(pod).unwrap(), "limpet");
    let endpoints_alone = StoreChange {
        services: BTreeSet::from([ObjectName::new("shop", "a")]),
        pods: true,
        ..StoreChange::default()
    };
    let pod = ObjectName::new("shop", "one");
    for says in [drains, None] {
        let change = store.apply(StoreUpdate::Pod(pod.clone(), says));
        assert_eq!(change, endpoints_alone);
    }
}

#[test]
fn secrets_are_those_that_listeners_of_ours_name() {
    let mut store = store(&[]);
    let gateway = |class: &str, secret: &str| {
        let tls = json!({"certificateRefs": [{"name": secret}]});
        let listeners = json!([{"name": "https", "port": 443, "protocol": "HTTPS", "tls": tls}]);
        let spec = json!({"gatewayClassName": class, "listeners": listeners});
        entry(Kind::Gateway, "shop", "web", "1", &json!({"spec": spec}))
    };
    let class = entry(
        Kind::GatewayClass,
        "",
        "limpet",
        "1",
        &json!({"spec": {"controllerName": OURS}}),
    );
    applied(&mut store, Kind::GatewayClass, class);
    applied(&mut store, Kind::Gateway, gateway("others", "a"));
    assert!(store.references().is_empty() && store.has_wanted());
    applied(&mut store, Kind::Gateway, gateway("limpet", "a"));
    let a = ObjectName::new("shop", "a");
    assert!(store.references().keys().eq([&ReferencedObject::Secret(a.clone())]));
    assert!(!store.has_wanted(), "nobody has answered");
    assert!(
        store.apply(StoreUpdate::Secret(a.clone(), None)).objects,
        "it is known that there is none"
    );
    assert!(store.has_wanted());
    let broken = || Some(secret_from_manifest(json!({"type": "Opaque"})));
    assert!(store.apply(StoreUpdate::Secret(a.clone(), broken())).objects);
    assert_eq!(
        store.apply(StoreUpdate::Secret(a.clone(), broken())),
        StoreChange::default()
    );
    assert!(store.objects().certificates[&a].is_err());

    applied(&mut store, Kind::Gateway, gateway("limpet", "b"));
    assert!(store.objects().certificates.is_empty(), "what nobody names is not kept");
    assert_eq!(
        store.apply(StoreUpdate::Secret(a, broken())),
        StoreChange::default(),
        "a last word"
    );
    assert!(!store.has_wanted());
}

fn with_class() -> Store {
    let mut store = store(&[]);
    let class = json!({"spec": {"controllerName": OURS}});
    applied(
        &mut store,
        Kind::GatewayClass,
        entry(Kind::GatewayClass, "", "limpet", "1", &class),
    );
    store
}

#[test]
fn gateways_of_one_namespace_took_a_watch_for_each_secret_that_they_named() {
    let mut store = with_class();
    let gateway = |namespace: &str, number: usize, secrets: std::ops::Range<usize>| {
        let refs: Vec<Value> = secrets
            .map(|secret| json!({"name": format!("{number:02}-{secret}")}))
            .collect();
        let listeners = json!([{"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"certificateRefs": refs}}]);
        let name = format!("{number:02}");
        let created = format!("2030-01-01T00:00:{:02}Z", 59 - number);
        let rest = json!({
            "metadata": {"namespace": namespace, "name": name, "uid": name, "creationTimestamp": created},
            "spec": {"gatewayClassName": "limpet", "listeners": listeners},
        });
        entry(Kind::Gateway, namespace, &name, "1", &rest)
    };
    for number in 0..9 {
        applied(&mut store, Kind::Gateway, gateway("many", number, 0..64));
    }
    applied(&mut store, Kind::Gateway, gateway("others", 0, 0..1));
    let of = |store: &Store, namespace: &str| {
        let names = store.references().keys().map(ReferencedObject::name);
        names.filter(|name| name.namespace == namespace).count()
    };
    assert_eq!((of(&store, "many"), of(&store, "others")), (499, 1));
    let youngest = ObjectName::new("many", "00-63");
    let oldest = ObjectName::new("many", "08-63");
    assert!(store.references().contains_key(&ReferencedObject::Secret(oldest)));
    let error = store.objects().certificates[&youngest].clone().unwrap_err();
    assert!(error.contains("more than 499 ") && error.contains("many"), "{error}");
    let wanted: Vec<ReferencedObject> = store.references().keys().cloned().collect();
    for object in wanted {
        store.apply(StoreUpdate::Secret(object.name().clone(), None));
    }
    assert!(store.has_wanted(), "builds do not wait for the others");

    applied(&mut store, Kind::Gateway, gateway("many", 8, 0..1));
    assert_eq!(of(&store, "many"), 499, "there is room for others");
    for number in 3..8 {
        applied(&mut store, Kind::Gateway, gateway("many", number, 0..1));
    }
    assert_eq!(of(&store, "many"), 3 * 64 + 6);
    assert!(
        store.objects().certificates.get(&youngest).is_none(),
        "its watch will tell"
    );
}

#[test]
fn secrets_of_contour_are_those_that_roots_of_ours_name() {
    let root = |name: &str, class: &str, secret: &str| {
        let rest = json!({
            "metadata": {
                "namespace": "shop",
                "name": name,
                "annotations": {"kubernetes.io/ingress.class": class},
            },
            "spec": {"virtualhost": {"fqdn": "shop.example", "tls": {"secretName": secret}}},
        });
        entry(Kind::IngressRoute, "shop", name, "1", &rest)
    };
    let mut without = store(&[]);
    assert!(!awaits(&without, "IngressRoute") && !awaits(&without, "TLSCertificateDelegation"));
    applied(&mut without, Kind::IngressRoute, root("web", "contour", "a"));
    assert!(without.references().is_empty());

    let contour = json!({"gateway": "web/contour", "rootNamespaces": ["shop"]});
    let mut store = Store::new(WatchSettings {
        contour: Some(serde_json::from_value(contour).unwrap()),
        ..store(&[]).watched
    });
    assert!(awaits(&store, "IngressRoute") && awaits(&store, "TLSCertificateDelegation"));
    applied(&mut store, Kind::IngressRoute, root("other", "other", "b"));
    assert!(store.references().is_empty());
    let change = applied(&mut store, Kind::IngressRoute, root("web", "contour", "tls/a"));
    assert!(change.references);
    let a = ObjectName::new("tls", "a");
    assert!(store.references().keys().eq([&ReferencedObject::Secret(a.clone())]));
    assert!(store.apply(StoreUpdate::Secret(a, None)).objects && store.has_wanted());
    applied(&mut store, Kind::IngressRoute, root("web", "contour", "c"));
    let c = ReferencedObject::Secret(ObjectName::new("shop", "c"));
    assert!(store.references().keys().eq([&c]), "the former one is not referenced");
}

#[test]
fn config_maps_are_those_that_policies_of_our_routes_name() {
    let mut store = with_class();
    let gateway = |class: &str| {
        entry(
            Kind::Gateway,
            "shop",
            "web",
            "1",
            &json!({"spec": {"gatewayClassName": class}}),
        )
    };
    applied(&mut store, Kind::Gateway, gateway("limpet"));
    let route = json!({"parentRefs": [{"name": "web"}], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]});
    applied(
        &mut store,
        Kind::HttpRoute,
        entry(Kind::HttpRoute, "shop", "web", "1", &json!({"spec": route})),
    );
    let policy = |name: &str, service: &str| {
        let refs = json!([{"kind": "ConfigMap", "name": name}, {"kind": "Secret", "name": name}]);
        let validation = json!({"hostname": "a", "caCertificateRefs": refs});
        let targets = json!([{"kind": "Service", "name": service}]);
        let spec = json!({"targetRefs": targets, "validation": validation});
        entry(Kind::BackendTlsPolicy, "shop", name, "1", &json!({"spec": spec}))
    };
    let change = applied(&mut store, Kind::BackendTlsPolicy, policy("a", "web"));
    assert!(change.references, "a build waits for it");
    let change = applied(&mut store, Kind::BackendTlsPolicy, policy("b", "unused"));
    assert!(!change.references);
    let a = ObjectName::new("shop", "a");
    assert!(store.references().keys().eq([&ReferencedObject::ConfigMap(a.clone())]));
    assert!(!store.has_wanted(), "nobody has answered");
    let empty = || Some(config_map_from_manifest(json!({"data": {"other": "x"}})));
    assert!(store.apply(StoreUpdate::ConfigMap(a.clone(), empty())).objects);
    assert!(store.has_wanted());
    assert_eq!(
        store.apply(StoreUpdate::ConfigMap(a.clone(), empty())),
        StoreChange::default()
    );
    assert_eq!(store.objects().authorities[&a], Err("expected data.ca.crt".to_owned()));

    let before = store.references().clone();
    applied(&mut store, Kind::Gateway, gateway("others"));
    assert!(store.references().is_empty() && store.objects().authorities.is_empty());
    applied(&mut store, Kind::Gateway, gateway("limpet"));
    assert!(store.references().keys().eq(before.keys()));
    assert_ne!(store.references(), &before, "what was forgotten is read again");
}

fn awaits(store: &Store, kind: &str) -> bool {
    store.missing().is_some_and(|missing| missing.contains(kind))
}

#[test]
fn nothing_is_served_before_policies_for_tls_are_listed() {
    let mut store = store(&[]);
    for kind in Kind::ALL {
        assert!(awaits(&store, "BackendTLSPolicy"));
        if kind != Kind::BackendTlsPolicy {
            store.apply(StoreUpdate::Listed(kind, None, Vec::new()));
        }
    }
    store.apply(StoreUpdate::Listed(Kind::BackendTlsPolicy, None, Vec::new()));
    assert_eq!(store.missing(), None);
}

#[test]
fn the_status_of_an_ingress_route_is_no_change_of_it() {
    let mut store = store(&[]);
    let of = |generation: u64, status: &str| {
        let mut rest = json!({"spec": {"routes": []}, "status": {"currentStatus": status}});
        rest["metadata"] = json!({"namespace": "shop", "name": "web", "uid": "web", "generation": generation,
            "resourceVersion": generation.to_string()});
        entry(Kind::IngressRoute, "shop", "web", "1", &rest)
    };
    let both = StoreChange {
        statuses: true,
        ..objects()
    };
    assert_eq!(applied(&mut store, Kind::IngressRoute, of(1, "orphaned")), both);
    // Without /status, the API server counts it as a change of the object.
    assert_eq!(applied(&mut store, Kind::IngressRoute, of(2, "valid")), statuses());
}

#[test]
fn for_another_control_plane_no_policies_for_tls_are_read() {
    let store = Store::new(WatchSettings {
        controller: Arc::from(OURS),
        serves: false,
        namespaces: Vec::new(),
        own_namespace: None,
        contour: None,
        pods: false,
    });
    assert!(!awaits(&store, "BackendTLSPolicy"));
    assert!(awaits(&store, "HTTPRoute"));
}

#[test]
fn the_services_of_envoys_are_read_beside_the_namespaces() {
    let watched = WatchSettings {
        own_namespace: Some(Arc::from("limpet-system")),
        ..store(&["shop"]).watched
    };
    let names = |kind: Kind| {
        let namespaces = watched.namespaces_of(kind).into_iter().flatten();
        namespaces.map(|name| name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(Kind::Service), ["shop", "limpet-system"]);
    assert_eq!(names(Kind::EnvoyDeployment), ["shop", "limpet-system"]);
    assert_eq!(names(Kind::HttpRoute), ["shop"]);
}

#[test]
fn where_pods_are_ready_counts_for_services_of_envoys_alone() {
    let mut store = store(&[]);
    let (envoys, other) = (ObjectName::new("shop", "envoys"), ObjectName::new("shop", "other"));
    let slice = |service: &str, node: &str, ready: bool| {
        let rest = json!({
            "metadata": {
                "namespace": "shop",
                "name": format!("{service}-1"),
                "labels": {"kubernetes.io/service-name": service},
            },
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": ready}, "nodeName": node}],
        });
        entry(Kind::EndpointSlice, "shop", &format!("{service}-1"), "1", &rest)
    };
    let service = |name: &str| entry(Kind::Service, "shop", name, "1", &json!({"spec": {"type": "NodePort"}}));
    for name in ["envoys", "other"] {
        applied(&mut store, Kind::Service, service(name));
        let change = applied(&mut store, Kind::EndpointSlice, slice(name, "a", true));
        assert!(!change.objects, "nobody asked for it");
    }
    let change = store.follow(BTreeSet::from([envoys.clone()]));
    assert!(change.objects && change.references, "{change:?}");
    assert!(!store.follow(BTreeSet::from([envoys.clone()])).objects);
    assert_eq!(store.objects().readiness.keys().collect::<Vec<_>>(), [&envoys]);
    let a = ObjectName::new("", "a");
    assert!(store.references().keys().eq([&ReferencedObject::Node(a.clone())]));
    assert!(!store.has_wanted(), "a build waits for the address");
    let address = StoreUpdate::Node(a.clone(), Some(Ok(vec!["192.0.2.1".to_owned()])));
    assert!(store.apply(address).objects);
    assert!(store.has_wanted() && store.objects().nodes.contains_key(&a));

    let moved = applied(&mut store, Kind::EndpointSlice, slice("envoys", "b", true));
    assert!(moved.objects && moved.references, "{moved:?}");
    assert!(store.objects().nodes.is_empty(), "nothing runs there any more");
    let gone = applied(&mut store, Kind::EndpointSlice, slice("envoys", "b", false));
    assert!(gone.objects && !store.objects().readiness[&envoys].any);
    assert!(!applied(&mut store, Kind::EndpointSlice, slice("other", "b", true)).objects);
    assert!(store.follow(BTreeSet::from([other])).objects);
    assert!(!store.objects().readiness.contains_key(&envoys));
}

#[test]
fn nothing_is_served_before_it_is_known_which_pods_drain() {
    let mut store = Store::new(WatchSettings {
        pods: true,
        ..store(&["shop"]).watched
    });
    let namespace = || Some(Arc::from("shop"));
    for kind in Kind::ALL {
        let namespace = kind.is_namespaced().then(namespace).flatten();
        store.apply(StoreUpdate::Listed(kind, namespace, Vec::new()));
    }
    assert!(!store.is_complete() && awaits(&store, "Pod"));
    let mut without_right = store;
    without_right.apply(StoreUpdate::NoPods(namespace()));
    assert!(without_right.is_complete(), "all else is served");
}

fn store_with_gateway() -> Store {
    let mut store = store(&[]);
    for (kind, namespace) in store.awaited.clone() {
        store.apply(StoreUpdate::Listed(kind, namespace, Vec::new()));
    }
    applied(&mut store, Kind::Gateway, gateway_of("limpet"));
    store
}

fn gateway_of(class: &str) -> DecodedObject {
    let tls = json!({"certificateRefs": [{"name": "a"}]});
    let listeners = json!([{"name": "https", "port": 443, "protocol": "HTTPS", "tls": tls}]);
    let spec = json!({"gatewayClassName": class, "listeners": listeners});
    entry(Kind::Gateway, "shop", "web", "1", &json!({"spec": spec}))
}

fn class_of(controller: &str) -> DecodedObject {
    let spec = json!({"spec": {"controllerName": controller}});
    entry(Kind::GatewayClass, "", "limpet", "1", &spec)
}

fn classes(store: &Store) -> (Vec<String>, Vec<String>) {
    let objects = store.objects();
    let all = objects.gateway_classes.keys().map(ToString::to_string);
    let gone = objects.gone_classes.iter().map(ToString::to_string);
    (all.collect(), gone.collect())
}

/// With the class, all its Gateways went at once.
#[test]
fn a_class_stays_while_gateways_name_it() {
    let limpet = || vec!["limpet".to_owned()];
    let class_goes = StoreUpdate::Deleted(Kind::GatewayClass, ObjectName::new("", "limpet"));
    let list_without_it = StoreUpdate::Listed(Kind::GatewayClass, None, Vec::new());
    for goes in [class_goes, list_without_it] {
        let mut store = store_with_gateway();
        applied(&mut store, Kind::GatewayClass, class_of(OURS));
        let wanted = store.references().clone();
        assert_eq!(wanted.len(), 1);
        assert!(store.apply(goes).objects);
        assert_eq!(classes(&store), (limpet(), limpet()));
        assert_eq!(store.references(), &wanted);
        let again = StoreUpdate::Deleted(Kind::GatewayClass, ObjectName::new("", "limpet"));
        assert_eq!(store.apply(again), StoreChange::default());
        assert_eq!(store.counts()[&Kind::GatewayClass], (0, 0));
        applied(&mut store, Kind::GatewayClass, class_of(OURS));
        assert_eq!(classes(&store), (limpet(), Vec::new()));
        assert_eq!(store.counts()[&Kind::GatewayClass], (1, 0));
        store.apply(StoreUpdate::Listed(Kind::GatewayClass, None, Vec::new()));
        // Its last Gateway names another class.
        applied(&mut store, Kind::Gateway, gateway_of("other"));
        assert_eq!(classes(&store), (Vec::new(), Vec::new()));
        assert!(store.references().is_empty());
    }
}

#[test]
fn a_class_of_another_controller_goes() {
    let mut store = store_with_gateway();
    applied(&mut store, Kind::GatewayClass, class_of("example.com/other"));
    store.apply(StoreUpdate::Deleted(Kind::GatewayClass, ObjectName::new("", "limpet")));
    assert_eq!(classes(&store), (Vec::new(), Vec::new()));
    // It comes back as another controller's, on purpose.
    applied(&mut store, Kind::GatewayClass, class_of(OURS));
    store.apply(StoreUpdate::Deleted(Kind::GatewayClass, ObjectName::new("", "limpet")));
    applied(&mut store, Kind::GatewayClass, class_of("example.com/other"));
    assert!(store.references().is_empty());
    assert!(store.objects().gone_classes.is_empty());
}

#[test]
fn a_class_that_is_gone_outlives_a_restart() {
    let mut before = store_with_gateway();
    applied(&mut before, Kind::GatewayClass, class_of(OURS));
    before.apply(StoreUpdate::Deleted(Kind::GatewayClass, ObjectName::new("", "limpet")));
    let settings = limpet_model::Settings::default();
    let (graph, reports) = limpet_model::build(&before.objects(), &settings);
    assert_eq!(graph.gateways.len(), 1);
    assert!(reports.gateway_classes.is_empty(), "there is no status to write");

    let mut after = store_with_gateway();
    assert!(after.set_memory(graph.memory.clone()), "its certificate is wanted");
    assert_eq!(classes(&after), classes(&before));
    assert_eq!(after.references().len(), 1);
    assert!(!after.set_memory(graph.memory.clone()));
    let mut incremental = limpet_model::Incremental::default();
    assert_eq!(incremental.build(&after.objects(), &settings), (graph, reports));
    after.apply(StoreUpdate::Deleted(Kind::Gateway, ObjectName::new("shop", "web")));
    assert_eq!(classes(&after), (Vec::new(), Vec::new()));
    let (graph, _) = incremental.build(&after.objects(), &settings);
    assert_eq!(graph.memory, limpet_model::Memory::default());
}

#[derive(Clone, Default)]
struct Lines(Arc<std::sync::Mutex<usize>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        *self.0.lock().unwrap() += str::from_utf8(bytes).unwrap().matches('\n').count();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_object_that_cannot_be_read_was_logged_with_each_write() {
    let lines = Lines::default();
    let writer = lines.clone();
    let logs = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
    let write = |store: &mut Store, version: usize, hostnames: &Value| {
        let rest = json!({"spec": {"hostnames": hostnames}});
        let written = entry(Kind::HttpRoute, "shop", "web", &version.to_string(), &rest);
        applied(store, Kind::HttpRoute, written);
    };
    tracing::subscriber::with_default(logs, || {
        let mut store = store(&[]);
        (0..100).for_each(|version| write(&mut store, version, &json!(version)));
        assert_eq!(*lines.0.lock().unwrap(), 1);
        for version in 100..200 {
            write(&mut store, version, &json!(1));
            write(&mut store, version, &json!([]));
        }
        assert_eq!(*lines.0.lock().unwrap(), 5);
    });
}

/// Routes, each to a Service with a policy that names a ConfigMap.
fn with_routes(number: usize) -> Store {
    let mut store = with_class();
    let gateway = json!({"spec": {"gatewayClassName": "limpet"}});
    applied(
        &mut store,
        Kind::Gateway,
        entry(Kind::Gateway, "shop", "web", "1", &gateway),
    );
    let spec = json!({
        "targetRefs": [{"kind": "Service", "name": "web"}],
        "validation": {"hostname": "a", "caCertificateRefs": [{"kind": "ConfigMap", "name": "a"}]},
    });
    let policy = entry(Kind::BackendTlsPolicy, "shop", "a", "1", &json!({"spec": spec}));
    let routes = (0..number).map(|number| route_to(&number.to_string(), "web", ""));
    store.apply(StoreUpdate::Listed(Kind::HttpRoute, None, routes.collect()));
    applied(&mut store, Kind::BackendTlsPolicy, policy);
    assert_eq!(store.references().len(), 1);
    looked::take_count();
    store
}

fn route_to(name: &str, service: &str, hostname: &str) -> DecodedObject {
    let rules = json!([{"backendRefs": [{"name": service, "port": 80}]}]);
    let spec = json!({"parentRefs": [{"name": "web"}], "hostnames": [hostname], "rules": rules});
    entry(Kind::HttpRoute, "shop", name, "1", &json!({"spec": spec}))
}

fn update(kind: Kind, entry: DecodedObject) -> StoreUpdate {
    StoreUpdate::Applied(kind, Box::new(entry))
}

#[test]
fn each_update_of_a_batch_looked_at_all_routes() {
    let mut store = with_routes(50);
    let batch = (0..20).map(|number| update(Kind::HttpRoute, route_to("0", &format!("other-{number}"), "")));
    assert!(store.apply_all(batch).objects);
    assert_eq!(looked::take_count(), 50);
    // Until the end of the batch, references are unknown.
    let none = [route_to("1", "web", "")].into_iter();
    let others = (1..50).map(|number| route_to(&number.to_string(), "other", ""));
    let batch = others.chain(none).map(|entry| update(Kind::HttpRoute, entry));
    assert!(!store.apply_all(batch).references);
    let last = update(Kind::HttpRoute, route_to("1", "other", ""));
    assert!(store.apply_all([last]).references && store.references().is_empty());
}

#[test]
fn what_config_maps_do_not_depend_on_looked_at_all_routes() {
    let mut store = with_routes(50);
    let route = |hostname: &str| update(Kind::HttpRoute, route_to("0", "web", hostname));
    assert!(store.apply_all([route("a"), route("b")]).objects);
    let from = json!([{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": "shop"}]);
    let grant = json!({"spec": {"from": from, "to": [{"group": "", "kind": "Secret"}]}});
    let grant = entry(Kind::ReferenceGrant, "tls", "a", "1", &grant);
    assert!(store.apply_all([update(Kind::ReferenceGrant, grant)]).objects);
    let listeners = json!([{"name": "http", "port": 80, "protocol": "HTTP"}]);
    let gateway = json!({"spec": {"gatewayClassName": "limpet", "listeners": listeners}});
    let gateway = entry(Kind::Gateway, "shop", "web", "2", &gateway);
    assert!(store.apply_all([update(Kind::Gateway, gateway)]).objects);
    assert_eq!(looked::take_count(), 0);
    // The policy's ConfigMap is another one.
    let spec = json!({
        "targetRefs": [{"kind": "Service", "name": "web"}],
        "validation": {"hostname": "a", "caCertificateRefs": [{"kind": "ConfigMap", "name": "b"}]},
    });
    let policy = entry(Kind::BackendTlsPolicy, "shop", "a", "2", &json!({"spec": spec}));
    assert!(store.apply_all([update(Kind::BackendTlsPolicy, policy)]).references);
    assert_eq!(looked::take_count(), 0);
    store.apply_all([StoreUpdate::Deleted(Kind::Gateway, ObjectName::new("shop", "web"))]);
    assert_eq!((looked::take_count(), store.references().len()), (50, 0));
}

#[test]
fn a_secret_of_another_namespace_is_read_while_a_grant_permits_it() {
    let mut store = with_class();
    let tls = json!({"certificateRefs": [{"name": "a", "namespace": "tls"}]});
    let listeners = json!([{"name": "https", "port": 443, "protocol": "HTTPS", "tls": tls}]);
    let spec = json!({"gatewayClassName": "limpet", "listeners": listeners});
    let gateway = entry(Kind::Gateway, "shop", "web", "1", &json!({"spec": spec}));
    applied(&mut store, Kind::Gateway, gateway);
    assert!(store.references().is_empty());
    let grant = |namespace: &str, from: &str| {
        let from = json!([{"group": "gateway.networking.k8s.io", "kind": "Gateway", "namespace": from}]);
        let spec = json!({"from": from, "to": [{"group": "", "kind": "Secret"}]});
        entry(Kind::ReferenceGrant, namespace, "a", "1", &json!({"spec": spec}))
    };
    let a = ReferencedObject::Secret(ObjectName::new("tls", "a"));
    let permits = |store: &Store| store.references().contains_key(&a);
    applied(&mut store, Kind::ReferenceGrant, grant("other", "shop"));
    assert!(!permits(&store));
    assert!(applied(&mut store, Kind::ReferenceGrant, grant("tls", "shop")).references && permits(&store));
    assert!(applied(&mut store, Kind::ReferenceGrant, grant("tls", "pay")).references && !permits(&store));
    applied(&mut store, Kind::ReferenceGrant, grant("tls", "shop"));
    store.apply(StoreUpdate::Deleted(Kind::ReferenceGrant, ObjectName::new("tls", "a")));
    assert!(!permits(&store));
    let again = [update(Kind::ReferenceGrant, grant("tls", "shop"))];
    assert!(store.apply_all(again).references && permits(&store));
    let none = StoreUpdate::Listed(Kind::ReferenceGrant, None, Vec::new());
    assert!(store.apply(none).references && !permits(&store));
}

#[test]
fn each_pod_of_a_batch_looked_at_all_slices_of_its_namespace() {
    let mut store = store(&[]);
    for number in 0..20 {
        let name = format!("pod-{number}");
        applied(&mut store, Kind::EndpointSlice, slice(&name, &name, "10.0.0.1"));
    }
    let drains = |namespace: &str, number: usize| {
        let annotations = json!({endpoints::DRAIN: "2026-11-23T06:00:00Z"});
        let pod = json!({"metadata": {"uid": "u", "annotations": annotations}});
        let pod = PodMeta::read(&serde_json::from_value(pod).unwrap(), "limpet");
        StoreUpdate::Pod(ObjectName::new(namespace, &format!("pod-{number}")), pod)
    };
    looked::take_count();
    let batch = (0..10).flat_map(|number| [drains("shop", number), drains("pay", number)]);
    let change = store.apply_all(batch);
    assert_eq!(looked::take_count(), 20);
    let names: BTreeSet<_> = (0..10)
        .map(|number| ObjectName::new("shop", &format!("pod-{number}")))
        .collect();
    assert_eq!(change.services, names);
}

fn certificate() -> Certificate {
    Certificate {
        chain: b"chain".as_slice().into(),
        key: Arc::default(),
    }
}

/// Its listener, or its backends, went at once.
#[test]
fn without_the_right_what_is_known_of_an_object_was_lost() {
    let mut store = store_with_gateway();
    applied(&mut store, Kind::GatewayClass, class_of(OURS));
    let a = ObjectName::new("shop", "a");
    let says = |store: &mut Store, found: Option<Result<Certificate, String>>| {
        let change = store.apply(StoreUpdate::Secret(a.clone(), found));
        let objects = store.objects();
        let known = objects.certificates.get(&a).cloned();
        (change.objects, known, objects.kept_certificates.get(&a).cloned())
    };
    let refused = || Some(Err("no right".to_owned()));
    let broken = || Some(secret_from_manifest(json!({"type": "Opaque"})));
    let valid = || Some(Ok(certificate()));
    assert_eq!(says(&mut store, refused()), (true, refused(), None), "nothing is known");
    assert_eq!(says(&mut store, valid()), (true, valid(), None));
    let why = || Some("no right".to_owned());
    assert_eq!(says(&mut store, refused()), (true, valid(), why()));
    assert_eq!(says(&mut store, refused()), (false, valid(), why()));
    let (changes, known, why) = says(&mut store, broken());
    assert!(changes && known == valid(), "its content is wrong");
    assert_eq!(
        why.as_deref(),
        Some("expected the type kubernetes.io/tls, found Opaque")
    );
    assert_eq!(says(&mut store, valid()), (true, valid(), None));
    says(&mut store, refused());
    assert_eq!(says(&mut store, None), (true, None, None), "it is gone");
    says(&mut store, valid());
    says(&mut store, refused());
    applied(&mut store, Kind::Gateway, gateway_of("other"));
    let objects = store.objects();
    assert!(objects.certificates.is_empty() && objects.kept_certificates.is_empty());
}

#[test]
fn without_the_right_backends_lost_their_authorities() {
    let mut store = with_routes(1);
    let a = ObjectName::new("shop", "a");
    let says = |store: &mut Store, found: Option<Result<Authorities, String>>| {
        store.apply(StoreUpdate::ConfigMap(a.clone(), found));
        let objects = store.objects();
        let known = objects.authorities.get(&a).cloned();
        (known, objects.kept_authorities.get(&a).cloned())
    };
    let valid = || Some(Ok(Authorities::of_pem("one")));
    assert_eq!(says(&mut store, valid()), (valid(), None));
    let why = "no right".to_owned();
    assert_eq!(says(&mut store, Some(Err(why.clone()))), (valid(), Some(why)));
    assert_eq!(says(&mut store, None), (None, None));
}
