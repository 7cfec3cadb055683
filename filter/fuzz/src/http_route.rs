//! Any `HTTPRoute` becomes a configuration of Envoy, and no other route suffers.

use super::choices::Choices;
use limpet_api::{Object, ObjectName, readable};
use limpet_model::expression::Expression;
use limpet_model::graph::{Action, Graph, Hostname, Match, PathMatch, ValueMatch};
use limpet_model::{Objects, Settings, build};
use serde_json::{Value, json};

/// What the controller serves for one `HTTPRoute` of each input, and for another route.
///
/// # Panics
/// If the other route is not served, or an expression is not as Envoy needs it.
pub fn graph(inputs: &[&[u8]]) -> Graph {
    let mut objects = Objects::default();
    let class: Object<_> = readable(&json!({
        "kind": "GatewayClass", "metadata": {"name": "limpet"}, "spec": {"controllerName": "limpet.dev/controller"},
    }));
    objects.gateway_classes.insert("limpet".into(), class.into());
    let gateway: Object<_> = readable(&json!({
        "kind": "Gateway", "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"gatewayClassName": "limpet", "listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}]},
    }));
    objects.gateways.insert(gateway.meta.object_name(), gateway.into());
    for name in ["v1", "v2"] {
        let service: Object<_> = readable(&json!({
            "kind": "Service", "metadata": {"namespace": "shop", "name": name},
            "spec": {"ports": [{"name": "web", "port": 80}]},
        }));
        objects.services.insert(service.meta.object_name(), service.into());
    }
    let other = json!([{"matches": [{"path": {"value": "/"}}], "backendRefs": [{"name": "v1", "port": 80}]}]);
    add(&mut objects, "other", &other);
    for (number, input) in inputs.iter().enumerate() {
        add(&mut objects, &format!("fuzzed-{number}"), &Choices(input).rules());
    }
    let (graph, _) = build(&objects, &Settings::default());
    check(&graph);
    graph
}

/// Takes the bytes as the choices of an `HTTPRoute`.
///
/// # Panics
/// If an object panics, or another one's route suffers.
pub fn http_route(data: &[u8]) {
    graph(&[data]);
}

fn add(objects: &mut Objects, name: &str, rules: &Value) {
    let route: Object<_> = readable(&json!({
        "kind": "HTTPRoute", "metadata": {"namespace": "shop", "name": name},
        "spec": {"parentRefs": [{"name": "web"}], "hostnames": [format!("{name}.example")], "rules": rules},
    }));
    objects.http_routes.insert(route.meta.object_name(), route.into());
}

fn check(graph: &Graph) {
    let gateway = graph
        .gateways
        .get(&ObjectName::new("shop", "web"))
        .expect("the Gateway");
    let hosts: Vec<_> = gateway
        .ports
        .values()
        .flatten()
        .flat_map(|listener| listener.virtual_hosts.values())
        .collect();
    let of_other = Hostname::parse(Some("other.example"));
    let other = hosts
        .iter()
        .find(|host| host.hostname == of_other)
        .expect("the other route's host");
    let is_served = other
        .routes
        .iter()
        .any(|route| matches!(route.action, Action::Forward(_)));
    assert!(is_served, "the other route: {other:?}");
    for route in hosts.iter().flat_map(|host| &host.routes) {
        for text in expressions(&route.matches) {
            // It is in the syntax that every RE2 reads, so another translation changes nothing. It may be longer than
            // what is read.
            let again = Expression::parse(text).map(|again| again.as_str().to_owned());
            let is_long = text.len() > Expression::MOST_BYTES;
            assert!(
                is_long || again.as_deref() == Ok(text),
                "translated again: {text} {again:?}"
            );
        }
    }
}

fn expressions(matches: &Match) -> Vec<&str> {
    let path = match &matches.path {
        PathMatch::Regex(text) => Some(text.as_str()),
        _ => None,
    };
    let values = matches
        .headers
        .values()
        .chain(matches.query.values())
        .filter_map(|value| match value {
            ValueMatch::Regex(text) => Some(text.as_str()),
            ValueMatch::Exact(_) => None,
        });
    path.into_iter().chain(values).collect()
}

impl Choices<'_> {
    fn path(&mut self) -> String {
        match self.below(8) {
            0 => self.text(),
            1..4 => format!("/{}", self.text()),
            _ => self.pick(&["/", "/shop", "/a/[b-d]*", "/a|/b"]),
        }
    }

    fn name(&mut self) -> String {
        if self.below(6) == 5 {
            self.text()
        } else {
            self.pick(&["a", "x-b", "cookie", "host", ":path", "A"])
        }
    }

    fn rules(&mut self) -> Value {
        self.some(3, |choices| {
            let mut rule = json!({
                "matches": choices.some(3, Self::matches),
                "filters": choices.some(2, Self::filter),
                "backendRefs": choices.some(2, Self::backend),
            });
            match choices.below(6) {
                1 => {
                    let request = choices.mostly(&["1s", "10s", "1m"]);
                    rule["timeouts"] = json!({"request": request, "backendRequest": "1s"});
                }
                2 => {
                    let code = 400 + u16::from(choices.byte()) % 208;
                    rule["retry"] = json!({"attempts": choices.below(8), "codes": [code]});
                }
                3 => rule["sessionPersistence"] = json!({"sessionName": choices.name(), "type": "Cookie"}),
                4 => rule["sessionPersistence"] = json!({"sessionName": choices.name(), "type": "Header"}),
                5 => rule["name"] = choices.text().into(),
                _ => {}
            }
            rule
        })
    }

    fn matches(&mut self) -> Value {
        let mut found = json!({
            "headers": self.some(2, Self::named),
            "queryParams": self.some(2, Self::named),
        });
        if self.below(4) > 0 {
            let kind = self.mostly(&["RegularExpression", "PathPrefix", "Exact"]);
            found["path"] = json!({"type": kind, "value": self.path()});
        }
        if self.below(4) == 3 {
            found["method"] = self.mostly(&["GET", "POST", "PURGE"]).into();
        }
        found
    }

    fn named(&mut self) -> Value {
        let kind = self.mostly(&["RegularExpression", "Exact"]);
        let value = if self.below(2) == 0 {
            self.text()
        } else {
            self.pick(&["a", "[0-9]+", "a.*|b"])
        };
        json!({"type": kind, "name": self.name(), "value": value})
    }

    fn backend(&mut self) -> Value {
        let filters = if self.below(4) == 3 {
            self.some(1, Self::filter)
        } else {
            json!([])
        };
        json!({"name": self.pick(&["v1", "v2", "v1", "gone"]), "port": 80, "weight": self.byte(), "filters": filters})
    }

    fn changes(&mut self) -> Value {
        let name = |choices: &mut Self| choices.mostly(&["a", "x-b", "x-c", "A"]);
        let change = |choices: &mut Self| json!({"name": name(choices), "value": choices.mostly(&["1", "a b", "%"])});
        json!({
            "set": self.some(1, change),
            "add": self.some(1, change),
            "remove": self.some(1, |choices| name(choices).into()),
        })
    }

    fn changed_path(&mut self) -> Value {
        let path = self.mostly(&["/", "/a", "/a/b/"]);
        // The other type needs a rule that matches only prefixes.
        match self.below(4) {
            0 => json!({"type": "ReplacePrefixMatch", "replacePrefixMatch": path}),
            _ => json!({"type": "ReplaceFullPath", "replaceFullPath": path}),
        }
    }

    fn origin(&mut self) -> String {
        format!("https://{}", self.mostly(&["*.a.example", "a.example:8443", "*"]))
    }

    fn filter(&mut self) -> Value {
        match self.below(7) {
            0 => json!({"type": "RequestHeaderModifier", "requestHeaderModifier": self.changes()}),
            1 => json!({"type": "ResponseHeaderModifier", "responseHeaderModifier": self.changes()}),
            2 => json!({"type": "RequestRedirect", "requestRedirect": {
                "scheme": self.mostly(&["http", "https"]), "hostname": self.mostly(&["a.example", "b.example"]),
                "path": self.changed_path(),
                "statusCode": 301 + u16::from(self.byte() % 2) + if self.below(8) == 7 { 2 } else { 0 },
            }}),
            3 => json!({"type": "URLRewrite", "urlRewrite": {
                "hostname": self.mostly(&["a.example", "b.example"]), "path": self.changed_path(),
            }}),
            4 => json!({"type": "RequestMirror", "requestMirror": {
                "backendRef": {"name": self.pick(&["v1", "v2", "v1", "gone"]), "port": 80}, "percent": self.below(103),
            }}),
            5 => json!({"type": "CORS", "cors": {
                "allowOrigins": self.some(2, |choices| choices.origin().into()),
                "allowMethods": [self.mostly(&["GET", "*", "POST"])], "allowHeaders": [self.mostly(&["a", "x-b"])],
                "exposeHeaders": [self.mostly(&["a", "x-b"])], "maxAge": self.byte(),
            }}),
            _ => json!({"type": self.text()}),
        }
    }
}
