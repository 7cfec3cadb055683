//! Any `IngressRoute` becomes a configuration of Envoy, and no other object suffers.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::choices::Choices;
use limpet_api::{IngressRouteSpec, Object, ObjectName, readable};
use limpet_core::config::schema::{FilterConfig, PolicyConfig, SdsKeysConfig};
use limpet_model::graph::{Action, Graph, Hostname};
use limpet_model::reports::IngressRouteStatus;
use limpet_model::{Certificate, ContourSettings, Objects, Settings, build};
use serde_json::{Value, json};

/// What the controller serves for some `IngressRoute`s of each input, and for another one.
///
/// # Panics
/// If the other one is not served, or has another status.
pub fn ingress_routes(inputs: &[&[u8]]) -> Graph {
    let mut objects = Objects::default();
    let affinity = json!({"ports": [{"name": "web", "port": 80}], "sessionAffinity": "ClientIP"});
    let external = json!({"ports": [{"port": 80}], "type": "ExternalName", "externalName": "example.com"});
    let plain = json!({"ports": [{"name": "web", "port": 80}]});
    for (name, spec) in [
        ("v1", &plain),
        ("v2", &plain),
        ("affine", &affinity),
        ("external", &external),
    ] {
        let service: Object<_> = readable(&json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec}));
        objects.services.insert(service.meta.object_name(), service.into());
    }
    let certificate = Certificate {
        chain: Arc::from(&b"chain"[..]),
        key: Arc::default(),
    };
    objects
        .certificates
        .insert(ObjectName::new("shop", "tls"), Ok(certificate));
    let other = json!({
        "virtualhost": {"fqdn": "other.example"},
        "routes": [
            {"match": "/", "services": [{"name": "v1", "port": 80, "strategy": "Cookie"}]},
            {"match": "/given", "delegate": {"name": "other-given"}},
        ],
    });
    add(&mut objects, "other", &other);
    add(
        &mut objects,
        "other-given",
        &json!({"routes": [{"match": "/given", "services": [{"name": "v2", "port": 80}]}]}),
    );
    for (number, input) in inputs.iter().enumerate() {
        let mut choices = Choices(input);
        // An input's vertices are delegated to by its root, or by each other.
        for vertex in 0..3 {
            let host = (vertex == 0).then(|| format!("fuzzed-{number}.example"));
            let spec = choices.ingress_route(number, host.as_deref());
            let object: Object<IngressRouteSpec> = readable(&json!({
                "metadata": {
                    "namespace": "shop", "name": name(number, vertex), "annotations": choices.annotations(),
                },
                "spec": spec,
            }));
            objects
                .ingress_routes
                .insert(ObjectName::new("shop", &name(number, vertex)), object.into());
        }
    }
    let contour: ContourSettings =
        serde_json::from_value(json!({"gateway": "shop/web", "externalNames": true})).expect("settings");
    let settings = Settings {
        contour: Some(contour),
        ..Settings::default()
    };
    let (graph, reports) = build(&objects, &settings);
    assert!(reports.ingress_routes.len() <= objects.ingress_routes.len());
    for name in ["other", "other-given"] {
        let report = &reports.ingress_routes[&ObjectName::new("shop", name)];
        assert_eq!(
            (report.status, report.notes.len()),
            (IngressRouteStatus::Valid, 0),
            "{report:?}"
        );
    }
    check(&graph);
    // The filter refuses a whole configuration for one bad policy.
    let policies = graph
        .policies
        .iter()
        .map(|(name, policy)| (name.to_string(), PolicyConfig::clone(policy)));
    let config = FilterConfig::without_keys(policies.collect());
    let config = FilterConfig {
        sds_keys: Some(SdsKeysConfig {
            name: "keyring".to_owned(),
            sds_config: None,
        }),
        ..config
    };
    let refused = limpet_core::Filter::without_keys(&config).err();
    assert!(refused.is_none(), "{refused:?}");
    graph
}

/// Takes the bytes as the choices of `IngressRoute`s.
///
/// # Panics
/// If an object panics, or another one suffers.
pub fn ingress_route(data: &[u8]) {
    ingress_routes(&[data]);
}

fn name(number: usize, vertex: usize) -> String {
    format!("fuzzed-{number}-{vertex}")
}

fn add(objects: &mut Objects, name: &str, spec: &Value) {
    let route: Object<IngressRouteSpec> =
        readable(&json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec}));
    objects.ingress_routes.insert(route.meta.object_name(), route.into());
}

fn check(graph: &Graph) {
    let gateway = &graph.gateways[&ObjectName::new("shop", "web")];
    let hosts: Vec<_> = gateway.ports[&8080]
        .iter()
        .flat_map(|listener| listener.virtual_hosts.values())
        .collect();
    let names: BTreeSet<&Hostname> = hosts.iter().map(|host| &host.hostname).collect();
    assert_eq!(names.len(), hosts.len(), "a host is there twice");
    let of_other = Hostname::parse(Some("other.example"));
    let other = hosts
        .iter()
        .find(|host| host.hostname == of_other)
        .expect("the other host");
    let forwarded = other
        .routes
        .iter()
        .filter(|route| matches!(route.action, Action::Forward(_)));
    assert_eq!(forwarded.count(), 2, "the other host: {other:?}");
}

impl Choices<'_> {
    fn annotations(&mut self) -> Value {
        match self.below(12) {
            6 => json!({"session.limpet.dev/mode": self.mostly(&["rewrite", "prefix", "insert"])}),
            7 => json!({"session.limpet.dev/domain": self.mostly(&["example", "other.example", "fuzzed-0.example"])}),
            8 => {
                let secure = self.mostly(&["always", "auto"]);
                json!({"session.limpet.dev/same-site": "None", "session.limpet.dev/secure": secure})
            }
            9 => json!({"session.limpet.dev/path": self.mostly(&["route", "/a"])}),
            1 => json!({"session.limpet.dev/strict": self.mostly(&["true", "false"])}),
            2 => json!({"session.limpet.dev/same-site": self.mostly(&["Strict", "Lax", "None"])}),
            3 => json!({"session.limpet.dev/source": self.mostly(&["{timeout: 1h}", "none"])}),
            4 => json!({"session.limpet.dev/query": self.mostly(&["{name: session}", "none"])}),
            5 => json!({"kubernetes.io/ingress.class": self.mostly(&["contour", "nginx"])}),
            _ => json!({}),
        }
    }

    fn ingress_route(&mut self, number: usize, host: Option<&str>) -> Value {
        let mut spec = json!({"routes": self.some(4, |choices| choices.route(number))});
        if let Some(host) = host {
            spec["virtualhost"] = json!({"fqdn": if self.below(8) == 7 { self.text() } else { host.to_owned() }});
        }
        match self.below(16) {
            1 => spec["strategy"] = self.strategy().into(),
            2 => spec["healthCheck"] = self.health_check(),
            3 => spec["tcpproxy"] = json!({}),
            4 => spec[self.text()] = self.text().into(),
            5 => spec["virtualhost"]["tls"] = json!({"secretName": self.text()}),
            7..=12 if host.is_some() => spec["virtualhost"]["tls"] = json!({"secretName": "tls"}),
            6 => spec["routes"] = self.text().into(),
            _ => {}
        }
        spec
    }

    fn strategy(&mut self) -> String {
        let all = [
            "Cookie",
            "RoundRobin",
            "WeightedLeastRequest",
            "Random",
            "RingHash",
            "Maglev",
            "StickySession",
            "",
        ];
        self.mostly(&all)
    }

    fn route(&mut self, number: usize) -> Value {
        let prefix = match self.below(8) {
            0 => self.text(),
            1 => format!("/{}", self.text()),
            _ => self.pick(&["/", "/a", "/a/b", "/b/"]),
        };
        let mut route = json!({"match": prefix});
        if self.below(4) == 3 {
            let vertex = self.below(4);
            route["delegate"] = json!({"name": name(number, vertex)});
            return route;
        }
        route["services"] = self.some(3, Self::service);
        for _ in 0..self.below(3) {
            match self.below(8) {
                0 => route["prefixRewrite"] = self.mostly(&["/", "/a", ""]).into(),
                1 => route["enableWebsockets"] = true.into(),
                2 => route["permitInsecure"] = true.into(),
                3 => route["timeoutPolicy"] = json!({"request": self.mostly(&["1s", "infinity", "1us", "2562047h"])}),
                4 => {
                    let time = self.mostly(&["1s", "", "-1s", "1ns"]);
                    route["retryPolicy"] = json!({"count": self.byte(), "perTryTimeout": time});
                }
                5 => route[self.text()] = self.text().into(),
                _ => {}
            }
        }
        route
    }

    fn service(&mut self) -> Value {
        let service = self.pick(&["v1", "v2", "v1", "affine", "external", "v1", "v2", "gone"]);
        let mut service = json!({"name": service, "port": 80});
        if self.below(2) == 1 {
            service["strategy"] = self.strategy().into();
        }
        match self.below(8) {
            0 => service["weight"] = self.byte().into(),
            1 => service["weight"] = (u32::MAX - u32::from(self.byte())).into(),
            2 => service["healthCheck"] = self.health_check(),
            3 => {
                let path = self.mostly(&["/", "", "/a"]);
                service["stickySessionConfig"] =
                    json!({"cookie": {"name": self.mostly(&["sid", "a", "__Secure-a", ""]), "path": path}});
            }
            4 => service["stickySessionConfig"] = json!({"header": {"name": self.mostly(&["x-user", "A"])}}),
            5 => service["port"] = (i64::from(self.byte()) - 1).into(),
            _ => {}
        }
        service
    }

    fn health_check(&mut self) -> Value {
        json!({
            "path": self.mostly(&["/", "/healthz"]), "host": self.mostly(&["", "a.example"]),
            "intervalSeconds": i64::from(self.byte()) - 1, "timeoutSeconds": self.byte(),
            "unhealthyThresholdCount": self.byte(), "healthyThresholdCount": self.byte(),
        })
    }
}
