use anyhow::{Context, Result};
use limpet_core::token::DestinationId;
use limpet_e2e::Config;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) struct Rule {
    name: String,
    matched: Value,
    session: String,
    services: Vec<Service>,
    strict: bool,
    moves: bool,
}

/// A cluster, its weight for new sessions, and the changes to its requests and responses.
#[derive(Debug, Clone)]
struct Service {
    cluster: String,
    weight: u32,
    modifiers: Value,
}

impl Rule {
    /// For paths that begin with `prefix`; `session` is `<policy>/<scope>`.
    pub(crate) fn new(prefix: &str, session: &str) -> Self {
        Self {
            name: session.rsplit('/').next().unwrap_or_default().to_owned(),
            matched: json!({"prefix": prefix}),
            session: session.to_owned(),
            services: Vec::new(),
            strict: false,
            moves: false,
        }
    }

    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.matched["headers"] = json!([{"name": name, "string_match": {"exact": value}}]);
        self
    }

    pub(crate) fn to(self, cluster: &str, weight: u32) -> Self {
        self.modified(cluster, weight, &json!({}))
    }

    /// With these changes to its requests and responses.
    pub(crate) fn modified(mut self, cluster: &str, weight: u32, modifiers: &Value) -> Self {
        self.services.push(Service {
            cluster: cluster.to_owned(),
            weight,
            modifiers: modifiers.clone(),
        });
        self
    }

    pub(crate) fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    pub(crate) fn moving(self) -> Self {
        Self { moves: true, ..self }
    }

    /// The routes of `docs/reference/envoy-configuration.md`, in the way that is tested.
    pub(crate) fn routes(&self) -> Vec<Value> {
        let has_modifiers = |service: &Service| service.modifiers.as_object().is_some_and(|fields| !fields.is_empty());
        if by_specifier() && !self.services.iter().any(has_modifiers) {
            return vec![self.by_specifier()];
        }
        self.by_routes()
    }

    pub(crate) fn by_specifier(&self) -> Value {
        let destinations = self
            .services
            .iter()
            .map(|service| json!({"cluster": service.cluster, "weight": service.weight}));
        let config = json!({"destinations": destinations.collect::<Vec<_>>()});
        let mut route = self.route(&specifier(&config));
        set_session(&mut route, &format!("@specifier/{}", self.session));
        route
    }

    /// One route for each cluster, and the weighted one.
    pub(crate) fn by_routes(&self) -> Vec<Value> {
        let led = self.services.iter().map(|service| {
            let mut route = self.route(&json!({"cluster": service.cluster}));
            let hash = DestinationId::of_cluster(service.cluster.as_bytes()).to_string();
            let matcher = json!({"name": "x-limpet-destination", "string_match": {"exact": hash}});
            match route["match"]["headers"].as_array_mut() {
                Some(headers) => headers.push(matcher),
                None => route["match"]["headers"] = json!([matcher]),
            }
            add(&mut route, &service.modifiers);
            if self.strict {
                route["typed_per_filter_config"] = self.strict_filters(&json!({}));
            }
            route
        });
        let clusters = self.services.iter().map(|service| {
            let mut entry = json!({"name": service.cluster, "weight": service.weight});
            add(&mut entry, &service.modifiers);
            entry
        });
        let clusters: Vec<_> = clusters.collect();
        let mut weighted = self.route(&json!({"weighted_clusters": {"clusters": clusters}}));
        weighted["typed_per_filter_config"] = if self.strict {
            self.strict_filters(&idle())
        } else {
            json!({SOFT: idle()})
        };
        led.chain([weighted]).collect()
    }

    /// What a strict policy needs of a route. A moving session is not strict.
    fn strict_filters(&self, config: &Value) -> Value {
        let soft = if self.moves { within(config) } else { out() };
        json!({SOFT: soft, STRICT: within(config)})
    }

    fn route(&self, action: &Value) -> Value {
        let mut route = json!({"name": self.name, "match": self.matched, "route": action});
        set_session(&mut route, &format!("@split/{}", self.session));
        route
    }
}

/// Whether splits have cluster specifiers (`LIMPET_SPLITS=specifier`) instead of a route for each cluster.
pub(crate) fn by_specifier() -> bool {
    std::env::var("LIMPET_SPLITS").as_deref() == Ok("specifier")
}

pub(crate) fn specifier(config: &Value) -> Value {
    let typed_config = json!({
        "@type": "type.googleapis.com/\
                  envoy.extensions.router.cluster_specifiers.dynamic_modules.v3.DynamicModuleClusterSpecifier",
        "dynamic_module_config": {"name": "limpet"},
        "specifier_name": "limpet",
        "specifier_config": {
            "@type": "type.googleapis.com/google.protobuf.StringValue",
            "value": config.to_string(),
        },
    });
    json!({"inline_cluster_specifier_plugin": {"extension": {"name": "limpet", "typed_config": typed_config}}})
}

fn set_session(route: &mut Value, session: &str) {
    route["metadata"] = json!({"filter_metadata": {"limpet": {"session": session}}});
}

const SOFT: &str = "limpet.stateful_session";
const STRICT: &str = "limpet.stateful_session_strict";

/// In the chain, without an effect.
fn idle() -> Value {
    json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.http.stateful_session.v3.StatefulSessionPerRoute",
        "disabled": true,
    })
}

/// Not in the chain.
fn out() -> Value {
    json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "disabled": true})
}

/// In the chain, with this configuration.
fn within(config: &Value) -> Value {
    json!({"@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig", "config": config})
}

fn add(target: &mut Value, fields: &Value) {
    let fields = fields.as_object().into_iter().flatten();
    for (name, field) in fields {
        target[name] = field.clone();
    }
}

pub(crate) fn routes(rules: &[Rule]) -> Value {
    rules.iter().flat_map(Rule::routes).collect()
}

/// Of `split.yaml`.
#[test]
fn a_rule_has_the_routes_of_the_example() -> Result<()> {
    let adds = |service: &str| json!({"request_headers_to_add": [{"header": {"key": "x-service", "value": service}}]});
    let rule = Rule::new("/", "web/shop")
        .modified("shop-v1", 90, &adds("v1"))
        .modified("shop-v2", 10, &adds("v2"));
    let mut written = Value::Null;
    let _ = Config::load("split.yaml")?.route_configuration(|routes| {
        written = routes["virtual_hosts"][0]["routes"].clone();
    });
    assert_eq!(rule.by_routes(), *written.as_array().context("no routes")?);
    Ok(())
}
