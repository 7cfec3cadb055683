//! A small world that changes at random. There are few names, so objects meet, collide and come back.

use std::sync::Arc;

use limpet_api::{Kind, Object, ObjectName, ObjectRef, Spec};
use serde_json::{Value, json};

use crate::endpoints::Readiness;
use crate::references::selector_service;
use crate::session_fields::SessionField;
use crate::{
    Authorities, Certificate, Map, Memory, Objects, Quarantined, RouteReplacement, SessionPolicyKind,
    SessionPolicyName, envoys_name,
};

/// xorshift64*, which is the same everywhere.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap() % end
    }

    fn one_in(&mut self, cases: usize) -> bool {
        self.below(cases) == 0
    }

    fn of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }
}

const NAMESPACES: [&str; 2] = ["a", "b"];
const HOSTS: [&str; 6] = ["a.x.com", "b.x.com", "*.x.com", "a.y.com", "*.a.x.com", "c.a.x.com"];
const TIMES: [&str; 3] = ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"];

#[derive(Default)]
pub(super) struct World {
    pub(super) objects: Objects,
    generation: i64,
}

fn read<S: Spec>(object: &Value) -> Arc<Object<S>> {
    limpet_api::readable(object).into()
}

/// `labels_alone`: of an existing object, only annotations and labels change, and so not its generation.
fn put<K: Ord + Clone, S: Spec + Clone>(map: &mut Map<K, Object<S>>, name: K, object: &Value, labels_alone: bool) {
    let mut object = read(object);
    if labels_alone && let Some(former) = map.get(&name) {
        let mut labelled = Object::clone(former);
        labelled.meta.annotations.clone_from(&object.meta.annotations);
        labelled.meta.labels.clone_from(&object.meta.labels);
        object = Arc::new(labelled);
    }
    map.insert(name, object);
}

impl World {
    /// `memory`: what the last build remembers.
    pub(super) fn change(&mut self, random: &mut Random, memory: &Memory) {
        self.generation += 1;
        let namespace = random.of(&NAMESPACES);
        let (gone, labels_alone) = (random.one_in(5), random.one_in(4));
        macro_rules! put {
            ($map:ident, $prefix:expr, $count:expr, $spec:expr) => {{
                let name = ObjectName::new(namespace, &format!("{}{}", $prefix, random.below($count)));
                if gone {
                    self.objects.$map.remove(&name);
                } else {
                    let object = self.object(&name, $spec, random);
                    put(&mut self.objects.$map, name, &object, labels_alone);
                }
            }};
        }
        match random.below(48) {
            0..=9 => put!(http_routes, "r", 6, route(random, true)),
            10..=12 => put!(grpc_routes, "r", 3, route(random, false)),
            13..=16 => {
                let name = Self::service_name(random, namespace);
                if gone {
                    self.objects.services.remove(&name);
                } else {
                    let mut object = self.object(&name, service(random), random);
                    if random.one_in(3) {
                        object["metadata"]["labels"] = json!({"app.kubernetes.io/managed-by": "limpet"});
                    }
                    put(&mut self.objects.services, name, &object, labels_alone);
                }
            }
            17..=21 => {
                let kinds = [
                    SessionPolicyKind::BackendLbPolicy,
                    SessionPolicyKind::XBackendTrafficPolicy,
                ];
                let kind = kinds[random.below(2)];
                let name = ObjectName::new(namespace, &format!("p{}", random.below(4)));
                let key = SessionPolicyName {
                    kind,
                    name: name.clone(),
                };
                if gone {
                    self.objects.session_policies.remove(&key);
                } else {
                    let object = self.object(&name, policy(random), random);
                    put(&mut self.objects.session_policies, key, &object, labels_alone);
                }
            }
            22..=23 => put!(backends, "s", 3, x_backend(random)),
            24..=25 => put!(backend_tls_policies, "t", 3, tls_policy(random)),
            26 | 42..=44 => put!(reference_grants, "g", 2, grant(random)),
            27..=28 => {
                let name = ObjectName::new(namespace, random.of(&["web", "other", "contour"]));
                if random.one_in(12) {
                    self.objects.gateways.remove(&name);
                } else {
                    let mut object = self.object(&name, gateway(random), random);
                    if random.one_in(2) {
                        object["metadata"]["annotations"]["limpet.dev/service"] = json!("s0");
                    }
                    put(&mut self.objects.gateways, name, &object, labels_alone);
                }
            }
            29 | 45..=46 => {
                let label = random.of(&["red", "blue"]);
                let labels = [("colour".to_owned(), label.to_owned())].into();
                self.objects.namespaces.insert(namespace.into(), labels);
            }
            30 => {
                let name = ObjectName::new(namespace, random.of(&["cert", "other"]));
                let certificate = Certificate {
                    chain: random.of(&["one", "two"]).as_bytes().into(),
                    key: Arc::default(),
                };
                let found = [Ok(certificate), Err("no certificate".to_owned())][random.below(2)].clone();
                self.objects.kept_certificates.remove(&name);
                if gone {
                    self.objects.certificates.remove(&name);
                } else {
                    if found.is_ok() && random.one_in(3) {
                        let why = "no right".to_owned();
                        self.objects.kept_certificates.insert(name.clone(), why);
                    }
                    self.objects.certificates.insert(name, found);
                }
            }
            31 => {
                let name = ObjectName::new(namespace, random.of(&["ca", "cb"]));
                let found = [Ok(Authorities::of_pem("pem")), Err("none".to_owned())][random.below(2)].clone();
                self.objects.kept_authorities.remove(&name);
                if gone {
                    self.objects.authorities.remove(&name);
                } else {
                    if found.is_ok() && random.one_in(3) {
                        let why = "no right".to_owned();
                        self.objects.kept_authorities.insert(name.clone(), why);
                    }
                    self.objects.authorities.insert(name, found);
                }
            }
            32 | 40 | 41 => {
                let name = match random.below(2) {
                    0 => ObjectName::new(namespace, "s0"),
                    _ => ObjectName::new(namespace, &envoys_name(&ObjectName::new(namespace, "web"))),
                };
                let nodes = (0..random.below(3)).map(|node| format!("n{node}").into());
                let nodes = nodes.collect();
                let any = random.one_in(2);
                self.objects.readiness.insert(name, Readiness { any, nodes });
                let node = ObjectName::new("", &format!("n{}", random.below(2)));
                self.objects
                    .nodes
                    .insert(node, Ok(vec![format!("10.0.0.{}", random.below(2))]));
            }
            33..=34 => put!(ingress_routes, "i", 4, ingress_route(random)),
            35 => {
                let of_kind = [Kind::HttpRoute, Kind::GrpcRoute, Kind::IngressRoute];
                let (kind, prefix) = (of_kind[random.below(3)], random.of(&["r", "i"]));
                let name = ObjectName::new(namespace, &format!("{prefix}{}", random.below(4)));
                let object = ObjectRef { kind, name };
                let serves = [
                    RouteReplacement::Former,
                    RouteReplacement::Status500,
                    RouteReplacement::Nothing,
                ][random.below(3)];
                let quarantined = Quarantined {
                    generation: 1,
                    words: "no".to_owned(),
                    serves,
                };
                if gone || random.one_in(2) {
                    self.objects.quarantined.clear();
                } else {
                    self.objects.quarantined.insert(object, quarantined);
                }
            }
            36 if random.one_in(4) => {
                let (name, controller) =
                    [("limpet", "limpet.dev/controller"), ("theirs", "other.dev")][random.below(2)];
                if gone {
                    self.objects.gateway_classes.remove(name);
                } else {
                    let class = json!({"metadata": {"name": name}, "spec": {"controllerName": controller}});
                    self.objects.gateway_classes.insert(name.into(), read(&class));
                }
            }
            37 => put!(
                certificate_delegations,
                "d",
                2,
                json!({"delegations": [
                    {"secretName": "cert", "targetNamespaces": ["a", "b"]},
                ]})
            ),
            38 => {
                let spec = json!({"managed": random.one_in(2), "serviceRef": {"name": random.of(&["s0", "s1"])}});
                put!(envoy_deployments, "e", 1, spec);
            }
            // As after a build, soon or later, or from another replica.
            36 | 39 => {
                self.objects.memory = if random.one_in(8) {
                    Memory::default()
                } else {
                    memory.clone()
                };
            }
            _ => {}
        }
        if random.one_in(2) {
            self.objects.memory.clone_from(memory);
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "it is made for the call")]
    fn object(&self, name: &ObjectName, spec: Value, random: &mut Random) -> Value {
        let mut annotations = json!({});
        if random.one_in(4) {
            let field = &SessionField::ALL[random.below(SessionField::ALL.len())];
            let annotation = field.annotation();
            let value = match random.below(8) {
                0 => "maybe",
                1..=4 if annotation == "domain" => "x.com",
                _ => random.of(field.values.examples()),
            };
            annotations[format!("session.limpet.dev/{annotation}")] = value.into();
        }
        if random.one_in(12) {
            annotations["limpet.dev/unknown"] = "x".into();
        }
        json!({
            "metadata": {
                "namespace": name.namespace,
                "name": name.name,
                "uid": format!("u{}", random.below(2)),
                "generation": self.generation,
                "creationTimestamp": TIMES[random.below(3)],
                "annotations": annotations,
            },
            "spec": spec,
        })
    }

    fn service_name(random: &mut Random, namespace: &str) -> ObjectName {
        let name = ObjectName::new(namespace, &format!("s{}", random.below(5)));
        match random.below(8) {
            0 => selector_service(&name),
            1 => ObjectName::new(namespace, &envoys_name(&ObjectName::new(namespace, "web"))),
            _ => name,
        }
    }
}

fn backend_refs(random: &mut Random) -> Vec<Value> {
    let count = random.below(3);
    let backend = |_| {
        let mut backend = json!({"name": format!("s{}", random.below(5)), "weight": random.below(3)});
        if random.one_in(5) {
            backend["kind"] = "XBackend".into();
            backend["group"] = "gateway.networking.x-k8s.io".into();
        } else {
            backend["port"] = random.of(&[&80, &80, &80, &81, &443]).to_owned().into();
        }
        if random.one_in(12) {
            backend["kind"] = "Other".into();
        }
        if random.one_in(3) {
            backend["namespace"] = random.of(&NAMESPACES).into();
        }
        backend
    };
    (0..count).map(backend).collect()
}

fn persistence(random: &mut Random) -> Value {
    match random.below(8) {
        0..=3 => json!({"sessionName": random.of(&["s", "t"])}),
        4 => json!({"type": "Cookie"}),
        5 => json!({"type": "Header", "sessionName": random.of(&["s", "x-t"])}),
        6 => json!({"sessionName": "s", "absoluteTimeout": "1h", "cookieConfig": {"lifetimeType": "Permanent"}}),
        _ => json!({"type": "Cookie", "cookie": {"name": random.of(&["s", "t"])}, "idleTimeout": "1h"}),
    }
}

fn route(random: &mut Random, is_http: bool) -> Value {
    let parents = 1 + random.below(2);
    let parent = |_| {
        let mut parent = json!({"name": random.of(&["web", "web", "web", "other", "missing", "contour"])});
        match random.below(12) {
            0..=2 => parent["namespace"] = random.of(&NAMESPACES).into(),
            3 => parent["sectionName"] = random.of(&["l0", "l1"]).into(),
            4 => parent["port"] = random.of(&[&80, &443]).to_owned().into(),
            5 => {
                parent["kind"] = "ListenerSet".into();
                parent["group"] = "gateway.networking.k8s.io".into();
            }
            _ => {}
        }
        parent
    };
    let parents: Vec<Value> = (0..parents).map(parent).collect();
    let hosts: Vec<&str> = (0..random.below(3)).map(|_| HOSTS[random.below(HOSTS.len())]).collect();
    let rules: Vec<Value> = (0..=random.below(3))
        .map(|_| {
            let mut rule = json!({"backendRefs": backend_refs(random)});
            let path = random.of(&["/", "/p", "/q", "/p/q", "bad"]);
            rule["matches"] = if is_http {
                json!([{"path": {"value": path}}])
            } else {
                json!([{"method": {"service": random.of(&["S", "T"])}}])
            };
            if random.one_in(3) {
                rule["sessionPersistence"] = persistence(random);
            }
            if random.one_in(4) {
                rule["name"] = random.of(&["one", "two"]).into();
            }
            if random.one_in(10) {
                let mut backend = json!({"name": format!("s{}", random.below(5)), "port": 80});
                if random.one_in(2) {
                    backend["namespace"] = random.of(&NAMESPACES).into();
                }
                rule["filters"] = json!([{"type": "RequestMirror", "requestMirror": {"backendRef": backend}}]);
            }
            if random.one_in(16) {
                rule["retry"] = json!({"attempts": "many"});
            }
            rule
        })
        .collect();
    let mut spec = json!({"parentRefs": parents, "hostnames": hosts, "rules": rules});
    if random.one_in(24) {
        spec["parentRefs"] = json!([]);
    }
    spec
}

fn service(random: &mut Random) -> Value {
    let mut spec = json!({"ports": [{"name": "http", "port": 80}, {"name": "other", "port": 81}]});
    match random.below(10) {
        0..=1 => spec["sessionAffinity"] = "ClientIP".into(),
        2 => spec["type"] = "ExternalName".into(),
        3 => spec["ports"] = json!([{"port": 443, "appProtocol": "https"}]),
        4 => spec["ports"] = json!("none"),
        5 | 6 => spec["type"] = "NodePort".into(),
        7 => spec["sessionAffinity"] = "Other".into(),
        _ => {}
    }
    spec
}

fn policy(random: &mut Random) -> Value {
    let targets: Vec<Value> = (0..=random.below(2))
        .map(|_| match random.below(14) {
            0 => json!({"group": "gateway.networking.k8s.io", "kind": "Gateway", "name": "web"}),
            1 => json!({"group": "gateway.networking.k8s.io", "kind": "HTTPRoute", "name": format!("r{}", random.below(3))}),
            2 => json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": format!("s{}", random.below(3))}),
            3 => json!({"group": "core", "kind": "Service", "name": format!("s{}", random.below(5))}),
            _ => json!({"group": "", "kind": "Service", "name": format!("s{}", random.below(5))}),
        })
        .collect();
    let mut spec = json!({"targetRefs": targets});
    if !random.one_in(6) {
        spec["sessionPersistence"] = persistence(random);
    }
    spec
}

fn x_backend(random: &mut Random) -> Value {
    let mut spec = json!({
        "type": if random.one_in(6) { "Other" } else { "EndpointSelector" },
        "endpointSelector": {"matchLabels": {"app": "x"}},
        "port": {"number": 80},
    });
    if !random.one_in(3) {
        spec["sessionPersistence"] = json!({"type": "Cookie", "cookie": {"name": random.of(&["s", "t"])}});
    }
    spec
}

fn tls_policy(random: &mut Random) -> Value {
    let name = format!("s{}", random.below(4));
    let target = match random.below(8) {
        0 => json!({"group": "", "kind": "Service"}),
        1 => json!({"group": "", "name": name}),
        2 => json!({"group": "", "kind": "Service", "name": name, "sectionName": random.of(&["http", "nothing"])}),
        3 => json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend", "name": name}),
        _ => json!({"group": "", "kind": "Service", "name": name}),
    };
    let validation = if random.one_in(2) {
        json!({"hostname": "x.com", "wellKnownCACertificates": "System"})
    } else {
        let authorities = json!({"group": "", "kind": "ConfigMap", "name": random.of(&["ca", "cb"])});
        json!({"hostname": "x.com", "caCertificateRefs": [authorities]})
    };
    json!({"targetRefs": [target], "validation": validation})
}

fn grant(random: &mut Random) -> Value {
    let kind = random.of(&["Gateway", "HTTPRoute", "HTTPRoute", "HTTPRoute", "GRPCRoute"]);
    let from = json!({"group": "gateway.networking.k8s.io", "kind": kind, "namespace": random.of(&NAMESPACES)});
    let mut to = match random.below(10) {
        0..=1 => json!({"group": "", "kind": "Secret"}),
        2 => json!({"group": "core", "kind": "Service"}),
        3 => json!({"group": "gateway.networking.x-k8s.io", "kind": "XBackend"}),
        _ => json!({"group": "", "kind": "Service"}),
    };
    if random.one_in(3) {
        to["name"] = format!("s{}", random.below(5)).into();
    }
    json!({"from": [from], "to": [to]})
}

fn gateway(random: &mut Random) -> Value {
    let listeners: Vec<Value> = (0..=random.below(3))
        .map(|index| {
            let mut listener = json!({"name": format!("l{index}"), "port": 80, "protocol": "HTTP"});
            if random.one_in(2) {
                listener["hostname"] = HOSTS[random.below(HOSTS.len())].into();
            }
            if random.one_in(3) {
                let mut secret = json!({"name": random.of(&["cert", "other"])});
                if random.one_in(3) {
                    secret["namespace"] = random.of(&NAMESPACES).into();
                }
                listener["port"] = 443.into();
                listener["protocol"] = "HTTPS".into();
                listener["tls"] = json!({"certificateRefs": [secret]});
            }
            match random.below(8) {
                0..=1 => {}
                2..=3 => {
                    let selector = json!({"matchLabels": {"colour": "red"}});
                    listener["allowedRoutes"] = json!({"namespaces": {"from": "Selector", "selector": selector}});
                }
                _ => listener["allowedRoutes"] = json!({"namespaces": {"from": "All"}}),
            }
            listener
        })
        .collect();
    let mut spec = json!({
        "gatewayClassName": random.of(&["limpet", "limpet", "limpet", "limpet", "theirs", "missing"]),
        "listeners": listeners,
    });
    if random.one_in(10) {
        spec["addresses"] = json!([{"type": "Strange", "value": "x"}]);
    }
    if random.one_in(6) {
        let parameters = json!({"group": "limpet.dev", "kind": "EnvoyDeployment", "name": "e0"});
        spec["infrastructure"] = json!({"parametersRef": parameters});
    }
    spec
}

fn ingress_route(random: &mut Random) -> Value {
    let routes: Vec<Value> = (0..=random.below(2))
        .map(|_| {
            let prefix = random.of(&["/", "/p"]);
            if random.one_in(3) {
                let namespace = random.of(&NAMESPACES);
                return json!({"match": prefix, "delegate": {"name": format!("i{}", random.below(4)), "namespace": namespace}});
            }
            let mut service = json!({"name": format!("s{}", random.below(5)), "port": 80});
            match random.below(4) {
                0..=1 => service["strategy"] = "Cookie".into(),
                2 => {
                    service["strategy"] = "StickySession".into();
                    service["stickySessionConfig"] = json!({"cookie": {"name": random.of(&["s", "t"])}});
                }
                _ => {}
            }
            json!({"match": prefix, "services": [service]})
        })
        .collect();
    let mut spec = json!({"routes": routes});
    if !random.one_in(3) {
        spec["virtualhost"] = json!({"fqdn": random.of(&["a.x.com", "i.x.com"])});
        if random.one_in(3) {
            spec["virtualhost"]["tls"] = json!({"secretName": random.of(&["cert", "b/cert"])});
        }
    }
    spec
}
